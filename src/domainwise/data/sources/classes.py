"""Say which classes the domains of a data set lack, have alone, or spell in two ways."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from domainwise.errors import InputError, legible

Counts = Mapping[str, Mapping[str, int]]  # images of each class that a domain has, by domain


SEVERAL = 10  # notes of one sort that are told one by one; more are told as one


def class_notes(counts: Counts) -> list[str]:
    """Say which classes a domain lacks, and which only one has, given the images of each class by domain."""
    homes: dict[str, dict[str, None]] = {}
    for domain, own in counts.items():
        for name, images in own.items():
            homes.setdefault(name, {}).update({domain: None} if images else {})
    gaps, singles = [], []
    shared = [name for name, where in homes.items() if len(where) > 1]
    for domain, own in counts.items():
        lacks = sorted(f'"{name}"' for name in shared if domain not in homes[name])
        if lacks:
            gaps.append(f'domain "{domain}" has no images of {len(lacks)} class(es) that others have: {_few(lacks)}')
        singles += [_only(domain, name, own, homes) for name in sorted(own) if [*homes[name]] == [domain]]
    if len(gaps) > SEVERAL:
        gaps = [f"{len(gaps)} of the {len(counts)} domains have no images of classes that others have; {gaps[0]}"]
    if len(singles) > SEVERAL:
        singles = [f"{len(singles)} classes are in one domain alone, as in the first case: {singles[0]}"]
    return gaps + singles


def _only(domain: str, name: str, own: Mapping[str, int], homes: Mapping[str, Mapping[str, None]]) -> str:
    near = get_close_matches(name, [other for other in homes if domain not in homes[other]], n=1, cutoff=0.8)
    return (
        f'only domain "{domain}" has class "{name}" ({own[name]} images): with that domain as the target no '
        "source shows it, and they count as wrong" + (f'; did you mean "{near[0]}"?' if near else "")
    )


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def refuse_spellings(counts: Counts) -> None:
    """Refuse a class that one domain spells otherwise than others do: it would count as two."""
    homes: dict[str, set[str]] = {}
    for domain, of_class in counts.items():
        for name in of_class:
            homes.setdefault(name, set()).add(domain)
    alike: dict[str, list[str]] = {}
    for name in homes:
        alike.setdefault(_spelling(name), []).append(name)
    for names in alike.values():
        usual, *others = sorted(names, key=lambda name: (-len(homes[name]), name))
        for odd in others:
            if not homes[odd] & homes[usual]:  # a domain with both tells them apart
                domain, have = min(homes[odd]), len(homes[usual])
                raise InputError(
                    f"domain {_quoted(domain)} has class {_quoted(odd)} and no {_quoted(usual)}, which {have} other "
                    f"domain{'s have' if have > 1 else ' has'}: did you mean {_quoted(usual)}? Give the class one name "
                    "in all domains"
                )


def _spelling(name: str) -> str:
    """Return what is left of a name without capitals, blanks or dashes between letters, and the s of a plural."""
    plain = unicodedata.normalize("NFKC", name).casefold().strip()
    return re.sub(r"(?<=[^\W\d])[\s_-]+(?=[^\W\d])", "", plain).removesuffix("s")


def refuse_gaps(counts: Counts) -> None:
    """Refuse domains of which one misses a class that another one has."""
    classes = sorted({name for of_class in counts.values() for name in of_class})
    missing = [(domain, name) for domain in sorted(counts) for name in classes if name not in counts[domain]]
    if missing:
        domain, name = missing[0]
        do, others = sum(name in of_class for of_class in counts.values()), len(counts) - 1
        who = "the other domain does" if others == 1 else f"the other {others} domains do"
        raise InputError(
            f'domain "{domain}" has no class "{name}" ({who if do == others else f"{do} of {who}"}): '
            f'add images to "{domain}/{name}", or remove class "{name}" from every domain'
            + (f"; there are {len(missing)} such gaps in all" if len(missing) > 1 else "")
        )


def _quoted(name: str) -> str:
    return f'"{legible(name)}"'
