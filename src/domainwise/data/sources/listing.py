"""List the image files of a data set before any of them is read."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from domainwise.data.checks import require_classes, require_domains
from domainwise.data.decoded.image import (
    OF_THE_FILE,
    Box,
    ImageError,
    image_bytes,
    image_shape,
    is_deep,
    pillow_warnings,
    pixels_of,
)
from domainwise.data.domains import FREE, Fixed, Labels
from domainwise.data.sources.classes import class_notes, refuse_gaps, refuse_spellings
from domainwise.errors import InputError, legible, warn

MOST = 12  # names in a line
SAMPLE = 100  # images that stand for all, where their sizes are asked for


@dataclass(frozen=True, slots=True)
class File:
    """An image file, with its domain and its class."""

    domain: str
    class_name: str
    path: str
    relative: str  # to the data folder, with forward slashes
    group: str = ""
    fixed: int = FREE
    box: Box = ()  # the part of the picture that is the image; none is the whole of it
    mark: tuple[str, ...] = ()  # what the fingerprint covers besides the relative path
    subgroups: tuple[str, ...] = ()  # what scores are told apart by inside a domain

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

    @property
    def subgroup_names(self) -> tuple[str, ...]:
        """The names of all subgroups, in the order in which they are met."""
        return tuple(dict.fromkeys(name for file in self.files for name in file.subgroups))

    @property
    def subgroups(self) -> Labels | None:
        """The positions of each image's subgroups, -1 where it has fewer than others; None where no image has any."""
        most = max(len(file.subgroups) for file in self.files)
        if not most:
            return None
        position = {name: i for i, name in enumerate(self.subgroup_names)}
        found = np.full((len(self.files), most), -1, np.int64)
        for row, file in zip(found, self.files, strict=True):
            row[: len(file.subgroups)] = [position[name] for name in file.subgroups]
        return found

    def fingerprints(self, hashes: Sequence[str]) -> tuple[str, str]:
        """Return a hash of relative paths and contents, which does not depend on where the files lie.

        The second is that of the same files split as if none was a copy of another; without copies the two are equal.
        """
        contents = sorted([f.relative, sha256, *f.mark] for f, sha256 in zip(self.files, hashes, strict=True))
        plain = hashlib.sha256(json.dumps(contents).encode()).hexdigest()
        if self.copies(hashes) is None:
            return plain, plain
        return hashlib.sha256(f"{plain}, copies together".encode()).hexdigest(), plain

    def copies(self, hashes: Sequence[str]) -> Labels | None:
        """The number of each image's content within its domain; None where no two are alike, and for a benchmark."""
        keys = [(file.domain, content) for file, content in zip(self.files, hashes, strict=True)]
        numbers = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        if self.published or len(numbers) == len(keys):
            return None
        return np.array([numbers[key] for key in keys], np.int64)

    def shared(self, hashes: Sequence[str]) -> list[str]:
        """Say which files stand in several domains or classes; nothing of a benchmark, which is as it was published."""
        alike: dict[tuple[str, Box], list[File]] = {}
        for file, content in zip(self.files, hashes, strict=True):
            alike.setdefault((content, file.box), []).append(file)
        several = [] if self.published else [files for files in alike.values() if len(files) > 1]
        domains, classes = (
            [_pair(files, name) for files in several if len({getattr(file, name) for file in files}) > 1]
            for name in ("domain", "class_name")
        )
        seen = "file(s) stand in several domains, so that a target shows what was trained on"
        wrong = "file(s) stand in several classes, of which at most one is right"
        return [listed(what, pairs) for what, pairs in ((seen, domains), (wrong, classes)) if pairs]

    def state(self, *about: object) -> str:
        """Return a hash of what can be said of the files without reading them, and of ``about``."""
        beginning = [about[0], self.name, str(self.source.resolve()), *about[1:]]
        digest = hashlib.sha256(json.dumps(beginning).encode() + json.dumps(self.classes).encode())
        for file in self.files:
            row = [file.relative, *_state(file.path), file.domain, file.class_name, file.group, file.fixed, *file.box]
            row += file.subgroups
            digest.update(json.dumps(row).encode())
        return digest.hexdigest()

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

    @property
    def unread(self) -> list[str]:
        """A sentence about files that are images and are not read, if there are any."""
        named = [str(each) for each in self.skipped if each.why]
        return [listed("kind(s) of file are not read", named)] if named else []

    def notes(self) -> list[str]:
        """Say what is odd: what was left out, what is not read, and which classes a domain lacks."""
        gaps = [] if self.published else class_notes(self.counts)  # a benchmark is taken as it is
        return [*self.oddities, *self.unread, *self._wide_groups, *gaps]

    @property
    def _wide_groups(self) -> list[str]:
        homes: dict[str, set[str]] = {}
        for file in self.files:
            homes.setdefault(file.group, set()).add(file.domain)
        several = sorted(quoted(group) for group, domains in homes.items() if group and len(domains) > 1)
        what = "group(s) stand in several domains, so that a target shows what was trained on if they are the same"
        return [listed(what, several)] if several else []

    @property
    def largest_side(self) -> int | None:
        """The longest side of the images in pixels, as a hundred of them tell by their heads; None where none can."""
        sides = []
        with pillow_warnings():
            for file in self.files[:: -(-len(self.files) // SAMPLE)]:
                with suppress(ImageError):
                    if shape := image_shape(file.path):
                        left, top, right, bottom = pixels_of(file.box, shape)
                        sides += [right - left, bottom - top]
        return max(sides, default=None)

    def warn(self, notes: Sequence[str]) -> None:
        """Warn of what is odd in the place where the user's own code called."""
        for note in notes:
            warn(f"{self.name}: {note}")

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
        refuse_spellings(counts)
        if strict:
            refuse_gaps(counts)
        require_domains(self.name, names)
        require_classes(self.name, {file.class_name for file in self.files})


def _pair(files: Sequence[File], name: str) -> str:
    """Name the first two files that differ in their domain or class."""
    other = next(file for file in files if getattr(file, name) != getattr(files[0], name))
    return f"{files[0]} = {other}"


def _state(path: str) -> tuple[int, int]:
    """The size and the time of a file, which tell whether it has changed; of one that is none, nothing to tell."""
    try:
        about = os.stat(path)  # noqa: PTH116  half a million of them take seconds as it is
    except OSError as error:
        if error.errno not in OF_THE_FILE:
            raise
        return -1, -1
    return about.st_size, about.st_mtime_ns


def read_otherwise(listing: Listing) -> bool:
    """Whether versions that knew neither copies of files nor bits in use may have read these files in another way."""
    if listing.published:
        return False
    alike: dict[tuple[str, int], list[File]] = {}
    for file in listing.files:
        with suppress(OSError):
            alike.setdefault((file.domain, os.stat(file.path).st_size), []).append(file)  # noqa: PTH116  faster
    for files in alike.values():
        with suppress(ImageError):
            if len(files) > 1 and len({image_bytes(file.path) for file in files}) < len(files):
                return True
    with pillow_warnings():
        return any(is_deep(file.path) for file in listing.files)


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
