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
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from domainwise.data.decoded.array_files import (
    FORMAT,
    ArrayWriter,
    Damaged,
    read_about,
    trust,
    verify,
    write_about,
    write_array,
)
from domainwise.data.decoded.cache_entries import Say, discard, remove_leftovers, remove_superseded
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
from domainwise.data.decoded.image_files import write_table
from domainwise.data.domains import Domains
from domainwise.data.sources.listing import Listing, read_otherwise
from domainwise.errors import InputError
from domainwise.files import exists, locked, reading, user_cache
from domainwise.machine import free_disk, human_size, total_memory

MEMORY = 1 / 2  # of it may be filled with decoded images where the disk has no room
Store = Literal["auto", "decoded", "files"]
Found = tuple[Domains, list[Corrupt], list[str]]


class OutOfDate(Damaged):
    """An entry that this version would have made otherwise."""


def cache_folder(given: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of decoded images: the one given, $DOMAINWISE_CACHE, or one in the user's cache folder."""
    chosen = given or os.environ.get("DOMAINWISE_CACHE")
    return Path(chosen).expanduser() if chosen else user_cache()


def open_cached(
    listing: Listing,
    sizes: Sizes,
    folder: Path,
    *,
    store: Store = "auto",
    skip_corrupt: bool,
    progress: Progress | None,
    say: Say,
) -> tuple[Domains, list[str]]:
    """Return the domains, mapped from the cache, and sentences about what is odd; decode into the cache if need be.

    Those left in their files have an entry too, which says what is in them. A cache that cannot be written to is no
    reason to stop: everything is then read into memory.
    """
    entries = _entries(listing, sizes, folder)
    wanted = [entries[each] for each in ("decoded", "files") if store in ("auto", each)]
    notes: list[str] = []

    def existing(notes: list[str] | None = None) -> Found | None:
        return next((found for entry in wanted if (found := _existing(entry, listing, notes))), None)

    found = existing()
    if found is None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            name = entries["decoded"].name
            waiting = partial(say, f"another process is decoding {name}: waiting for it")
            with locked(folder / f".{name}.lock", waiting) as certain:
                found = existing(notes)  # another process may have been faster
                if found is None:
                    build = _Build(listing, sizes, entries, certain, skip_corrupt, progress, say)
                    build.into(build.chosen(store))
                    found = existing()
        except OSError as error:
            if store == "files":
                what = f"what the files of {listing.name} hold cannot be kept in {folder} ({error.strerror})"
                raise InputError(f"{what}: name another folder (--cache)") from error
            notes.append(f"decoded images cannot be kept in {folder} ({error.strerror}), but only in memory")
    if found is None:
        data, odd = read_into_memory(listing, sizes, skip_corrupt=skip_corrupt, progress=progress)
        return data, [*notes, *odd]
    data, corrupt, shared = found
    require_sound(corrupt, skip_corrupt)
    return data, [*notes, *oddities(corrupt, shared, data)]


def holds(folder: Path, listing: Listing, sizes: Sizes) -> bool:
    """Return whether the cache has these images in these sizes, sound."""
    return any(_existing(entry, listing) is not None for entry in _entries(listing, sizes, folder).values())


def _entries(listing: Listing, sizes: Sizes, folder: Path) -> dict[str, Path]:
    """The folders of the images decoded, and of those left in their files."""
    with reading(listing.source):
        state = listing.state(FORMAT, str(sizes))
    slug = re.sub(r"[^A-Za-z0-9_.]+", "_", listing.name).strip("_.")[:40] or "data"
    files = sha256(f"{state} in files".encode()).hexdigest()
    return {"decoded": folder / f"{slug}-{state[:12]}", "files": folder / f"{slug}-{files[:12]}"}


def _existing(entry: Path, listing: Listing, notes: list[str] | None = None) -> Found | None:
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


@dataclass(frozen=True)
class _Build:
    """Look at all files of a data set, and make an entry of them."""

    listing: Listing
    sizes: Sizes
    entries: Mapping[str, Path]
    certain: bool  # that nobody else is at work here
    skip_corrupt: bool
    progress: Progress | None
    say: Say

    @cached_property
    def layout(self) -> Layout:
        """The arrays that the images become."""
        return layout_of(self.listing.files, self.sizes)

    @cached_property
    def need(self) -> int:
        """The bytes of the images once they are decoded."""
        return self.layout.bytes([file.path for file in self.listing.files])

    def chosen(self, store: Store) -> Literal["decoded", "files"]:
        """Return where the images go: into the cache, unless neither its disk nor the memory has room for them."""
        if store != "auto":
            return store
        folder = self.entries["decoded"].parent
        free = free_disk(folder)
        if self.need <= free or self.need <= MEMORY * total_memory():
            return "decoded"
        room = f"{human_size(self.need)} decoded, and {human_size(free)} are free in {folder}"
        self.say(
            f"{self.listing.name} would take {room}: the images stay in their files and are decoded whenever they are "
            "needed, which is slower; --cache names another folder"
        )
        return "files"

    def into(self, store: Literal["decoded", "files"]) -> None:
        """Make the entry, in a folder that then gets its name."""
        entry, count = self.entries[store], f"{self.listing.name}: {len(self.listing.files):,} images"
        if self.certain:
            remove_leftovers(entry)
        if store == "decoded":
            self.say(f"{count} are decoded once into {entry} ({human_size(self.need)})")
            _require_room(entry.parent, self.need)
        else:
            self.say(f"{count} are looked at once and stay in their files, which {entry} tells of")
        temporary = entry.with_name(f".{entry.name}.{uuid4().hex[:8]}")
        try:
            temporary.mkdir()
            checksums, facts = (self._decoded if store == "decoded" else self._files)(temporary)
            source = {"source": str(self.listing.source.resolve()), "created": time.time()}
            write_about(temporary, checksums, **facts, **source)
            trust(temporary, [temporary / f"{column}.npy" for column in checksums])
            try:
                temporary.rename(entry)
            except OSError:
                if not entry.is_dir():  # or else another process was faster
                    raise
            remove_superseded(entry, self.say)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _decoded(self, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
        """Decode all images into files of arrays; return the checksums of the files, and what was read."""
        rows = {name: ArrayWriter(folder / f"{name}.npy", shape) for name, shape in self.layout.rows.items()}
        try:
            content = self._read(rows)
            checksums = {name: file.finish() for name, file in rows.items()}
        finally:
            for file in rows.values():
                with suppress(OSError):  # what could not be written before cannot be written now
                    file.close()
        return {**checksums, **self._columns(content, folder)}, {**_facts(content), "sizes": str(self.sizes)}

    def _files(self, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
        """Write down what is in which file; return the checksums of the arrays beside, and what was read."""
        content = self._read({})
        rows = zip(content.listing.files, content.hashes, strict=True)
        files = write_table(folder, [(file.path, file.box, digest) for file, digest in rows], self.layout.sides)
        facts = {**_facts(content), "sizes": f"{self.sizes}, in their files", "files": files}
        return self._columns(content, folder), facts

    def _read(self, rows: Mapping[str, ArrayWriter]) -> Content:
        return decode_all(self.listing, self.layout, rows, skip_corrupt=self.skip_corrupt, progress=self.progress)

    def _columns(self, content: Content, folder: Path) -> dict[str, Any]:
        columns = content.columns(self.layout)
        return {name: write_array(folder, name, [column]) for name, column in columns.items()}


def _facts(content: Content) -> dict[str, Any]:
    return {**content.facts(), "corrupt": content.corrupt}


def _require_room(folder: Path, need: int) -> None:
    free = free_disk(folder)
    if need > free:
        raise OSError(errno.ENOSPC, f"{human_size(need)} are needed and {human_size(free)} are free")
