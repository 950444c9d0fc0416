"""Read which domains are held out as targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from domainwise.data.domains import Domains
from domainwise.data.splits import OFFICIAL
from domainwise.errors import InputError, warn


def targets_of(data: Domains, text: str | Sequence[str]) -> list[tuple[str, ...]]:
    """Return what to hold out, one after the other.

    Names may be separated by commas; "a+b" is two at once, "all" every domain in turn, "pairs" every domain and every
    two of them, as leave-one-domain-out selection needs. "official" goes by a split of the data's own, and so does
    "auto" where there is one; elsewhere that is "all".
    """
    if text == "auto":
        text = OFFICIAL if data.has_official_split else "all"
    if text == OFFICIAL and (data.has_official_split or OFFICIAL not in data.names):
        return [_official(data)]
    if data.has_official_split:
        warn(
            f"{data.name} has an official split, which the targets official go by: with targets that are named, images "
            "of val and test are trained on like any others"
        )
    if text in ("all", "pairs"):
        pairs = list(combinations(data.names, 2)) if text == "pairs" else []
        found = [*((name,) for name in data.names), *pairs]
    else:
        words = text.split(",") if isinstance(text, str) else list(text)
        found = [_together(data, word.strip()) for word in words]
    if not found:
        raise InputError("no target was named: give names of domains, or all")
    no_repetition("target", ["+".join(targets) for targets in found])
    for targets in found:
        if len(targets) >= len(data):
            raise InputError(f"holding out {' and '.join(targets)} of {data.name} leaves no domain to train on")
    return found


def _official(data: Domains) -> tuple[str, ...]:
    if not data.has_official_split:
        raise InputError(
            f"{data.name} has no official split: name targets, or say which images are of train, id_val, val and test "
            "(the column split of a manifest, or splits= of dw.domains)"
        )
    return (OFFICIAL,)


def _together(data: Domains, word: str) -> tuple[str, ...]:
    if word in data.names:  # a domain may have a plus in its name
        return (word,)
    names = [data[name.strip()].name for name in word.split("+")]
    no_repetition("domain", names)
    return tuple(name for name in data.names if name in names)


def no_repetition(what: str, names: Sequence[Any]) -> None:
    """Refuse a name that is given twice."""
    for name, times in Counter(names).items():
        if times > 1:
            raise InputError(f"{what} {name} is named more than once: once is enough")
