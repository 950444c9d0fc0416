"""The one exception that is a sentence for the user rather than a bug of ours."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from domainwise.legible import sentence


class InputError(ValueError):
    """Something the user gave cannot be used. The command line prints it without a traceback and exits with 2."""

    def __str__(self) -> str:
        return sentence(super().__str__())  # it names what others have named


class Note(UserWarning):
    """Something to know that ends nothing: a warning in Python, a line on the command line."""

    def __str__(self) -> str:
        return sentence(super().__str__())


def closest(word: str, known: Iterable[str]) -> str:
    """What to put behind "unknown ...": the names that look like ``word``, or all of them."""
    known = list(known)
    near = get_close_matches(word.lower(), known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"
