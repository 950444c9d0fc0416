"""Read which domains are held out as targets, and which seeds are run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from domainwise.data.domains import Domains
from domainwise.data.splits import OFFICIAL
from domainwise.errors import InputError, is_whole, plain, warn


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


MOST_SEEDS = 10_000


def seeds_of(given: int | str | Sequence[int]) -> list[int]:
    """Return the seeds to run: 3 or "3" are the first three, "100-107,200" and [100, 101] name them."""
    text = given.strip() if isinstance(given, str) else plain(given)
    if isinstance(text, str) and not text.isdecimal():
        return _each_once([seed for word in text.split(",") for seed in _span(word.strip())])
    if isinstance(text, str | int):
        many = int(text[:9]) if isinstance(text, str) else text
        if isinstance(text, bool) or not 1 <= many <= MOST_SEEDS:
            raise InputError(f"seeds says how many, so 1 to {MOST_SEEDS}, or which, such as 100-107: got {given}")
        return list(range(many))
    if not text or any(not is_whole(seed) or seed < 0 for seed in text):
        raise InputError(f"seeds that are named are whole numbers from 0 up, got {given!r}")
    return _each_once([int(seed) for seed in text])


def _each_once(seeds: list[int]) -> list[int]:
    no_repetition("seed", seeds)
    return seeds


def _span(word: str) -> range:
    first, dash, last = word.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise InputError(f'cannot read the seeds "{word}": write how many, such as 3, or which, such as 100-107,200')
    span = range(int(first[:18]), int((last or first)[:18]) + 1)
    if not 1 <= len(span) <= MOST_SEEDS:
        raise InputError(f'the seeds "{word}" are {len(span)}: name 1 to {MOST_SEEDS} of them, the smaller one first')
    return span
