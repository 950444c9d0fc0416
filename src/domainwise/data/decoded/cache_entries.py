"""List and clear what is kept in a cache: only what is surely ours is ever removed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from domainwise.data.decoded.array_files import ABOUT, COLUMNS, VERIFIED, Damaged, open_arrays, read_about, verify
from domainwise.data.decoded.image_files import TABLE, image_files
from domainwise.errors import InputError, closest

Say = Callable[[str], None]
ENTRY = re.compile(r"[A-Za-z0-9_.]+-[0-9a-f]{12}")
LEFTOVER = re.compile(r"\.[A-Za-z0-9_.]+-[0-9a-f]{12}\.([0-9a-f]{8}|lock)")
FILES = {ABOUT, VERIFIED, TABLE, *(f"{column}.npy" for column in COLUMNS)}


@dataclass(frozen=True)
class Entry:
    """One data set in a cache, decoded or in its files, or the features of one."""

    path: Path
    bytes: int
    created: float | None = None  # seconds since 1970; None, like what follows, where the entry is damaged
    source: str = ""
    sizes: str = ""
    domains: tuple[str, ...] = ()
    images: int = 0
    made: frozenset[str] = frozenset()  # the fingerprints of the data that it is, or is computed from
    features: bool = False  # of a network, in place of images

    @property
    def side(self) -> str:
        """The sizes of the images, decoded or in their files."""
        return self.sizes.partition(",")[0]

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def data(self) -> str:
        """The name of the data set: that of the entry without the hash behind it."""
        return self.name.rpartition("-")[0]


def entries(folder: Path) -> list[Entry]:
    """Return the entries of a cache folder, damaged ones too."""
    return [_entry(path) for path in sorted(_ours(folder, ENTRY))]


def damage(entry: Path) -> str | None:
    """Say what is wrong with an entry, which is read to its end for that; None where nothing is.

    OSError where the disk does not say: it may be whole. One of an earlier version is only looked at in a few places.
    """
    try:
        image_files(entry, open_arrays(entry)[0])
        verify(entry)
    except (Damaged, KeyError, TypeError, ValueError) as error:
        return str(error)
    return None


def clear(folder: Path, name: str | None = None) -> list[Entry]:
    """Remove one entry by its name, or all of one data set, or all of them and what killed processes left behind."""
    there = entries(folder)
    chosen = [entry for entry in there if name is None or name in (entry.name, entry.data)]
    if name is not None and not chosen:
        known = closest(name, sorted({entry.data for entry in there})) if there else "it is empty"
        raise InputError(f'"{name}" is not in the cache {folder}: {known}')
    try:
        for entry in chosen:
            discard(entry.path)
        if name is None:
            for path in _ours(folder, LEFTOVER):
                _remove(path)
    except OSError as error:
        raise InputError(f"cannot clear the cache {folder}: {error.strerror}") from error
    return chosen


def discard(entry: Path) -> None:
    """Remove an entry in one move, so that nobody sees half of it; a process that has it mapped keeps it."""
    away = entry.with_name(f".{entry.name}.{uuid4().hex[:8]}")
    with suppress(FileNotFoundError):
        entry.rename(away)
        shutil.rmtree(away, ignore_errors=True)


def remove_leftovers(entry: Path) -> None:
    """Remove what killed processes left of an entry that this process alone is working on."""
    for path in _ours(entry.parent, LEFTOVER):
        if path.name.startswith(f".{entry.name}.") and path.suffix != ".lock":
            _remove(path)


def remove_superseded(entry: Path, say: Say) -> None:
    """Remove entries of the same source from before its files changed, and features of images that are nowhere else."""
    new, there = _entry(entry), entries(entry.parent)
    of_same = [old for old in there if (old.data, old.source) == (new.data, new.source) and old.name != new.name]
    old = [one for one in of_same if one.sizes == new.sizes or (one.side == new.side and one.made != new.made)]
    left = {made for one in there if one not in old and not one.features for made in one.made}
    gone = {made for one in old for made in one.made} - left
    for one in [*old, *(one for one in there if one.features and gone.intersection(one.made))]:
        say(f"{one.name} is removed: the files it was made from have changed")
        with suppress(OSError):
            discard(one.path)


def _entry(path: Path) -> Entry:
    size = sum(file.stat().st_size for file in path.iterdir())
    try:
        facts = read_about(path)
        domains = facts["domains"]
        names, images = tuple(name for name, _ in domains), sum(count for _, count in domains)
        made = frozenset((facts["fingerprint"], facts.get("plain", facts["fingerprint"])))
        features = "made_of" in facts
        return Entry(path, size, facts["created"], facts["source"], facts["sizes"], names, images, made, features)
    except (Damaged, KeyError, OSError):
        return Entry(path, size)


def _ours(folder: Path, pattern: re.Pattern[str]) -> Iterator[Path]:
    """Paths with a name like ours that hold nothing that we do not write."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if pattern.fullmatch(path.name):
            if path.is_dir() and not path.is_symlink():
                if {file.name for file in path.iterdir()} <= FILES:
                    yield path
            elif path.suffix == ".lock":
                yield path


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
