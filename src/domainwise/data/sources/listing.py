"""Which image files a data set consists of, before any of them is read."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from domainwise.data.arrays import FREE, Fixed, Labels
from domainwise.data.domains import Domain, Domains
from domainwise.errors import InputError, legible


@dataclass(frozen=True, slots=True)
class File:
    domain: str
    kind: str  # its class
    path: str
    relative: str  # to the data folder, with forward slashes
    group: str = ""
    fixed: int = FREE
    mark: tuple[str, ...] = ()  # what the fingerprint has to know besides the relative path

    def __str__(self) -> str:
        return quoted(self.relative)


@dataclass(frozen=True)
class Listing:
    name: str
    source: Path  # the folder or manifest that it was made from
    classes: tuple[str, ...]
    files: Sequence[File]  # those of a domain together, in the order of class and path
    oddities: tuple[str, ...] = ()  # sentences about what was left out

    @property
    def domains(self) -> list[tuple[str, int]]:
        """Names and numbers of images, in order."""
        return list(Counter(file.domain for file in self.files).items())

    @property
    def labels(self) -> Labels:
        position = {kind: i for i, kind in enumerate(self.classes)}
        return np.array([position[file.kind] for file in self.files], np.int64)

    @property
    def groups(self) -> Labels | None:
        """A number for each group; an image without one is a group of its own."""
        if not any(file.group for file in self.files):
            return None
        names = {name: i for i, name in enumerate(sorted({file.group for file in self.files if file.group}))}
        return np.array(
            [names[file.group] if file.group else len(names) + i for i, file in enumerate(self.files)], np.int64
        )

    @property
    def fixed(self) -> Fixed | None:
        parts = np.array([file.fixed for file in self.files], np.int8)
        return parts if (parts != FREE).any() else None

    def fingerprint(self, hashes: Sequence[str]) -> str:
        """Of relative paths and contents: it does not depend on where the files lie."""
        contents = sorted([f.relative, sha256, *f.mark] for f, sha256 in zip(self.files, hashes, strict=True))
        return hashlib.sha256(json.dumps(contents).encode()).hexdigest()

    def require_usable(self) -> None:
        """Say what is wrong with the layout before the long work, not after."""
        require_same_classes(self.files, [domain for domain, _ in self.domains])
        labels = np.split(self.labels, np.cumsum([count for _, count in self.domains])[:-1])
        blank = np.zeros((1, 1, 1, 1), np.uint8)
        items = [
            Domain(name, np.broadcast_to(blank, (count, 1, 1, 1)), of_domain)
            for (name, count), of_domain in zip(self.domains, labels, strict=True)
        ]
        Domains(self.name, self.classes, tuple(items), "")


def gaps(files: Sequence[File], domains: Sequence[str]) -> list[tuple[str, str]]:
    """(domain, class) wherever a class that some domain has is missing from another."""
    having = {(file.domain, file.kind) for file in files}
    kinds = sorted({kind for _, kind in having})
    return [(domain, kind) for domain in sorted(domains) for kind in kinds if (domain, kind) not in having]


def require_same_classes(files: Sequence[File], domains: Sequence[str]) -> None:
    missing = gaps(files, domains)
    if missing:
        domain, kind = missing[0]
        do, others = len({file.domain for file in files if file.kind == kind}), len(domains) - 1
        who = "the other domain does" if others == 1 else f"the other {others} domains do"
        raise InputError(
            f'domain "{domain}" has no class "{kind}" ({who if do == others else f"{do} of {who}"}): '
            f'add images to "{domain}/{kind}", or remove class "{kind}" from every domain'
            + (f"; there are {len(missing)} such gaps in all" if len(missing) > 1 else "")
        )


def quoted(name: str) -> str:
    """A name as sentences show it: one of thousands of letters only in part."""
    return f'"{legible(name if len(name) <= 400 else f"{name[:200]}...{name[-100:]}")}"'


def listed(what: str, things: Sequence[str]) -> str:
    """A sentence that counts the things and names the first few."""
    dots = ", ..." if len(things) > 3 else ""
    return f"{len(things)} {what}: {', '.join(things[:3])}{dots}"
