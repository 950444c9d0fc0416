"""The one exception that is a sentence for the user rather than a bug of ours."""

from __future__ import annotations

import sys
import warnings
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


def warn(text: str, kind: type[Warning] = Note) -> None:
    """Warn where the user's own code called ours, however many functions lie between."""
    depth, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in ("domainwise", "contextlib"):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(text, kind, stacklevel=depth)


def closest(word: str, known: Iterable[str]) -> str:
    """What to put behind "unknown ...": the names that look like ``word``, or all of them."""
    known = list(known)
    near = get_close_matches(word.lower(), known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"
