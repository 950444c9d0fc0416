"""Decode a data set once and map it from disk ever after.

An entry is a folder that appears by a rename, whole or not at all. Its name says which files it was made from by their
paths, sizes and times, so that opening it again looks at the files but reads none of them. Only files that are surely
ours are ever removed.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from domainwise.data.decoded.array_files import (
    ABOUT,
    COLUMNS,
    FORMAT,
    VERIFIED,
    ArrayWriter,
    Damaged,
    open_arrays,
    read_about,
    trust,
    verify,
    write_about,
    write_array,
)
from domainwise.data.decoded.decode_all import (
    Content,
    Corrupt,
    Layout,
    Progress,
    Sizes,
    decode_all,
    layout_of,
    oddities,
    read_into_memory,
    require_sound,
)
from domainwise.data.domains import Domains
from domainwise.data.sources.listing import Listing, read_otherwise
from domainwise.errors import InputError, closest
from domainwise.files import exists, locked, reading, user_cache
from domainwise.machine import free_disk, human_size

Say = Callable[[str], None]
ENTRY = re.compile(r"[A-Za-z0-9_.]+-[0-9a-f]{12}")
LEFTOVER = re.compile(r"\.[A-Za-z0-9_.]+-[0-9a-f]{12}\.([0-9a-f]{8}|lock)")
FILES = {ABOUT, VERIFIED, *(f"{column}.npy" for column in COLUMNS)}


class OutOfDate(Damaged):
    """An entry that this version would have made otherwise."""


def cache_folder(given: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of decoded images: the one given, $DOMAINWISE_CACHE, or one in the user's cache folder."""
    chosen = given or os.environ.get("DOMAINWISE_CACHE")
    return Path(chosen).expanduser() if chosen else user_cache()


def open_cached(
    listing: Listing, sizes: Sizes, folder: Path, *, skip_corrupt: bool, progress: Progress | None, say: Say
) -> tuple[Domains, list[str]]:
    """Return the domains, mapped from the cache, and sentences about what is odd; decode into the cache if need be.

    A cache that cannot be written to is no reason to stop: everything is then read into memory.
    """
    entry = folder / _name(listing, sizes)
    notes: list[str] = []
    found = _existing(entry, listing)
    if found is None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            waiting = partial(say, f"another process is decoding {entry.name}: waiting for it")
            with locked(folder / f".{entry.name}.lock", waiting) as certain:
                found = _existing(entry, listing, notes)  # another process may have been faster
                if found is None:
                    _build(listing, sizes, entry, certain, skip_corrupt=skip_corrupt, progress=progress, say=say)
                    found = _existing(entry, listing)
        except OSError as error:
            notes.append(f"decoded images cannot be kept in {folder} ({error.strerror}), but only in memory")
    if found is None:
        data, odd = read_into_memory(listing, sizes, skip_corrupt=skip_corrupt, progress=progress)
        return data, [*notes, *odd]
    data, corrupt, shared = found
    require_sound(corrupt, skip_corrupt)
    return data, [*notes, *oddities(corrupt, shared, data)]


def holds(folder: Path, listing: Listing, sizes: Sizes) -> bool:
    """Return whether the cache has these images in these sizes, sound."""
    return _existing(folder / _name(listing, sizes), listing) is not None


def _name(listing: Listing, sizes: Sizes) -> str:
    with reading(listing.source):
        state = listing.state(FORMAT, str(sizes))
    slug = re.sub(r"[^A-Za-z0-9_.]+", "_", listing.name).strip("_.")[:40] or "data"
    return f"{slug}-{state[:12]}"


def _existing(
    entry: Path, listing: Listing, notes: list[str] | None = None
) -> tuple[Domains, list[Corrupt], list[str]] | None:
    """The content of an entry. With ``notes``, one that is damaged or out of date is noted and removed."""
    try:
        with reading(entry):
            if not exists(entry):
                return None
            data, about = Domains.open(entry), read_about(entry)
            verify(entry, again=False)
            if "plain" not in about and read_otherwise(listing):
                raise OutOfDate("an earlier version knew neither of copies of files nor of unused bits")
            return data, [(name, reason) for name, reason in about["corrupt"]], about.get("shared", [])
    except Damaged as error:
        if notes is not None:
            what = "out of date" if isinstance(error, OutOfDate) else "damaged"
            notes.append(f"what was kept in {entry} is {what} ({error}): the images are decoded anew")
            discard(entry)
        return None


def _build(
    listing: Listing,
    sizes: Sizes,
    entry: Path,
    certain: bool,
    *,
    skip_corrupt: bool,
    progress: Progress | None,
    say: Say,
) -> None:
    if certain:
        remove_leftovers(entry)
    paths = [file.path for file in listing.files]
    layout = layout_of(listing.files, sizes)
    need = layout.bytes(paths)
    say(f"{listing.name}: {len(paths):,} images are decoded once into {entry} ({human_size(need)})")
    _require_room(entry.parent, need)
    temporary = entry.with_name(f".{entry.name}.{uuid4().hex[:8]}")
    try:
        temporary.mkdir()
        content, checksums = _write(listing, layout, temporary, skip_corrupt=skip_corrupt, progress=progress)
        more: dict[str, Any] = {"source": str(listing.source.resolve()), "sizes": str(sizes), "created": time.time()}
        write_about(temporary, checksums, **content.facts(), corrupt=content.corrupt, **more)
        trust(temporary, [temporary / f"{column}.npy" for column in checksums])
        try:
            temporary.rename(entry)
        except OSError:
            if not entry.is_dir():  # or else another process was faster
                raise
        remove_superseded(entry, say)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write(
    listing: Listing, layout: Layout, folder: Path, *, skip_corrupt: bool, progress: Progress | None
) -> tuple[Content, dict[str, Any]]:
    """Decode all images into files of arrays; return what was read, and the checksums of the files."""
    rows = {name: ArrayWriter(folder / f"{name}.npy", shape) for name, shape in layout.rows.items()}
    try:
        content = decode_all(listing, layout, rows, skip_corrupt=skip_corrupt, progress=progress)
        checksums = {name: file.finish() for name, file in rows.items()}
    finally:
        for file in rows.values():
            with suppress(OSError):  # what could not be written before cannot be written now
                file.close()
    for name, column in content.columns(layout).items():
        checksums[name] = write_array(folder, name, [column])
    return content, checksums


def _require_room(folder: Path, need: int) -> None:
    free = free_disk(folder)
    if need > free:
        raise OSError(errno.ENOSPC, f"{human_size(need)} are needed and {human_size(free)} are free")


@dataclass(frozen=True)
class Entry:
    """One decoded data set in a cache."""

    path: Path
    bytes: int
    created: float | None = None  # seconds since 1970; None, like what follows, where the entry is damaged
    source: str = ""
    sizes: str = ""
    domains: tuple[str, ...] = ()
    images: int = 0

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
        open_arrays(entry)
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
    """Remove entries of the same source from before its files changed."""
    new = _entry(entry)
    for old in entries(entry.parent):
        same = (old.data, old.source, old.sizes) == (new.data, new.source, new.sizes)
        if same and old.name != new.name:
            say(f"{old.name} is removed: the files it was made from have changed")
            with suppress(OSError):
                discard(old.path)


def _entry(path: Path) -> Entry:
    size = sum(file.stat().st_size for file in path.iterdir())
    try:
        facts = read_about(path)
        domains = facts["domains"]
        names, images = tuple(name for name, _ in domains), sum(count for _, count in domains)
        return Entry(path, size, facts["created"], facts["source"], facts["sizes"], names, images)
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
