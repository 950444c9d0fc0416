"""List the image files of a data set before any of them is read."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from domainwise.data.domains import FREE, Fixed, Labels, require_classes, require_domains
from domainwise.errors import InputError, legible


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


@dataclass(frozen=True)
class Listing:
    """The image files of a data set, and the names and classes that follow from their paths."""

    name: str
    source: Path  # the folder or manifest that it was made from
    classes: tuple[str, ...]
    files: Sequence[File]  # those of a domain together, in the order of class and path
    oddities: tuple[str, ...] = ()  # sentences about what was left out

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

    def require_usable(self) -> None:
        """Refuse a layout that cannot be trained on, before the long work of decoding."""
        names = [name for name, _ in self.domains]
        require_same_classes(self.files, names)
        require_domains(self.name, names)
        require_classes(self.name, {file.class_name for file in self.files})


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


def quoted(name: str) -> str:
    """Return a name in quotes for a sentence, and of one with hundreds of letters only a part."""
    return f'"{legible(name if len(name) <= 400 else f"{name[:200]}...{name[-100:]}")}"'


def listed(what: str, things: Sequence[str]) -> str:
    """Return a sentence that counts things and names the first few."""
    dots = ", ..." if len(things) > 3 else ""
    return f"{len(things)} {what}: {', '.join(things[:3])}{dots}"
