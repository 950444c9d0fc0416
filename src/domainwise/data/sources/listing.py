"""List the image files of a data set before any of them is read."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from domainwise.data.domains import FREE, Fixed, Labels, class_notes, require_classes, require_domains
from domainwise.errors import InputError, legible, warn

MOST = 12  # names in a line


@dataclass(frozen=True, slots=True)
class File:
    """An image file, with its domain and its class."""

    domain: str
    class_name: str
    path: str
    relative: str  # to the data folder, with forward slashes
    group: str = ""
    fixed: int = FREE
    mark: tuple[str, ...] = ()  # what the fingerprint covers besides the relative path

    def __str__(self) -> str:
        return quoted(self.relative)


@dataclass(frozen=True, slots=True)
class Skipped:
    """Files of one ending in one folder that are not read."""

    place: str  # "domain/class"; files deeper below count there too
    ending: str
    count: int
    why: str  # "" where they may be no images at all

    def __str__(self) -> str:
        what = f"{self.count} {self.ending or 'without an ending'}"
        return f"{what} in {quoted(self.place or '.')}" + (f" ({self.why})" if self.why else "")


@dataclass(frozen=True)
class Listing:
    """The image files of a data set, and the names and classes that follow from their paths."""

    name: str
    source: Path  # the folder or manifest that it was made from
    classes: tuple[str, ...]
    files: Sequence[File]  # those of a domain together, in the order of class and path
    oddities: tuple[str, ...] = ()  # sentences about what was left out
    skipped: tuple[Skipped, ...] = ()
    published: bool = False  # a named benchmark, of which nothing is changed

    @property
    def domains(self) -> list[tuple[str, int]]:
        """The name and the number of images of each domain, in order."""
        return list(Counter(file.domain for file in self.files).items())

    @property
    def labels(self) -> Labels:
        """The position of each image's class."""
        position = {name: i for i, name in enumerate(self.classes)}
        return np.array([position[file.class_name] for file in self.files], np.int64)

    @property
    def groups(self) -> Labels | None:
        """The number of each image's group; an image without one is a group of its own."""
        if not any(file.group for file in self.files):
            return None
        names = {name: i for i, name in enumerate(sorted({file.group for file in self.files if file.group}))}
        return np.array(
            [names[file.group] if file.group else len(names) + i for i, file in enumerate(self.files)], np.int64
        )

    @property
    def fixed(self) -> Fixed | None:
        """The part of the split that each image belongs to; None where the seed decides for all."""
        parts = np.array([file.fixed for file in self.files], np.int8)
        return parts if (parts != FREE).any() else None

    def fingerprint(self, hashes: Sequence[str]) -> str:
        """Return a hash of relative paths and contents, which does not depend on where the files lie."""
        contents = sorted([f.relative, sha256, *f.mark] for f, sha256 in zip(self.files, hashes, strict=True))
        return hashlib.sha256(json.dumps(contents).encode()).hexdigest()

    @property
    def counts(self) -> dict[str, Counter[str]]:
        """The number of images of each class, by domain; classes that a domain lacks are not named."""
        counted: dict[str, Counter[str]] = {}
        for file in self.files:
            counted.setdefault(file.domain, Counter())[file.class_name] += 1
        return counted

    @property
    def summary(self) -> str:
        """Say what the data consists of, in a line."""
        domains = ", ".join(f"{legible(name)} {count:,}" for name, count in self.domains[:MOST])
        classes = ", ".join(map(legible, self.classes[:MOST]))
        dots = [", ..." if len(names) > MOST else "" for names in (self.domains, self.classes)]
        return (
            f"{legible(self.name)}: {len(self.files):,} images in {len(self.domains)} domains ({domains}{dots[0]}), of "
            f"{len(self.classes)} classes ({classes}{dots[1]})"
        )

    def notes(self) -> list[str]:
        """Say what is odd: what was left out, what is not read, and which classes a domain lacks."""
        unread = [str(each) for each in self.skipped if each.why]
        return [
            *self.oddities,
            *([listed("kind(s) of file are not read", unread)] if unread else []),
            *class_notes(self.counts),
        ]

    def warn(self, notes: Sequence[str]) -> None:
        """Warn of what is odd in the place where the user's own code called."""
        for note in notes:
            warn(f"{self.name}: {note}", UserWarning)

    def require_usable(self, *, strict: bool = False) -> None:
        """Refuse what cannot be trained on, before the long work of decoding; ``strict``: a class missing in a domain.

        A domain or a class of which no file is read is an error, since nobody would miss it before the results are in.
        """
        names = [name for name, _ in self.domains]
        counts = self.counts
        for each in [] if self.published else self.skipped:
            domain, _, class_name = each.place.partition("/")
            if each.why and domain and (domain not in counts or (class_name and class_name not in counts[domain])):
                raise InputError(
                    f"of {quoted(each.place)} no file is read, so it would vanish from the data: there are {each}; "
                    "save them as JPEG or PNG, or take the folder away"
                )
        _refuse_spellings(counts)
        if strict:
            require_same_classes(self.files, names)
        require_domains(self.name, names)
        require_classes(self.name, {file.class_name for file in self.files})


def _refuse_spellings(counts: Mapping[str, Mapping[str, int]]) -> None:
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
                    f"domain {quoted(domain)} has class {quoted(odd)} and no {quoted(usual)}, which {have} other "
                    f"domain{'s have' if have > 1 else ' has'}: did you mean {quoted(usual)}? Give the class one name "
                    "in all domains"
                )


def _spelling(name: str) -> str:
    """What is left of a name without capitals, blanks or dashes between letters, and the s of a plural."""
    plain = unicodedata.normalize("NFKC", name).casefold().strip()
    return re.sub(r"(?<=[^\W\d])[\s_-]+(?=[^\W\d])", "", plain).removesuffix("s")


def gaps(files: Sequence[File], domains: Sequence[str]) -> list[tuple[str, str]]:
    """Return (domain, class) wherever a domain misses a class that another one has."""
    having = {(file.domain, file.class_name) for file in files}
    classes = sorted({name for _, name in having})
    return [(domain, name) for domain in sorted(domains) for name in classes if (domain, name) not in having]


def require_same_classes(files: Sequence[File], domains: Sequence[str]) -> None:
    """Refuse domains of which one misses a class that another one has."""
    missing = gaps(files, domains)
    if missing:
        domain, name = missing[0]
        do, others = len({file.domain for file in files if file.class_name == name}), len(domains) - 1
        who = "the other domain does" if others == 1 else f"the other {others} domains do"
        raise InputError(
            f'domain "{domain}" has no class "{name}" ({who if do == others else f"{do} of {who}"}): '
            f'add images to "{domain}/{name}", or remove class "{name}" from every domain'
            + (f"; there are {len(missing)} such gaps in all" if len(missing) > 1 else "")
        )


def require_nothing_vanished(before: Sequence[File], after: Sequence[File]) -> None:
    """Refuse to go on where none of the images that a domain has of a class can be read."""
    left = {(file.domain, file.class_name) for file in after}
    for file in before:
        if (file.domain, file.class_name) not in left:
            raise InputError(
                f'none of the images that domain "{file.domain}" has of class "{file.class_name}" can be read, the '
                f"first being {file}: repair them, or take the folder away"
            )


def quoted(name: str) -> str:
    """Return a name in quotes for a sentence, and of one with hundreds of letters only a part."""
    return f'"{legible(name if len(name) <= 400 else f"{name[:200]}...{name[-100:]}")}"'


def listed(what: str, things: Sequence[str]) -> str:
    """Return a sentence that counts things and names the first few."""
    dots = ", ..." if len(things) > 3 else ""
    return f"{len(things)} {what}: {', '.join(things[:3])}{dots}"
