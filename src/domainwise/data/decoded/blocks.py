"""Checksums of an array file in blocks, taken while it is written, so that a byte that changes later is noticed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

BLOCK = 4 << 20
ALWAYS = 64 << 20  # bytes of a data set that are read again at every start: that takes a few hundredths of a second
MEMORY = "verified.json"
BOOTS = 16  # machines, or starts of one, that are remembered

State = dict[str, list[int]]


class Blocks:
    """The checksums of bytes as they come."""

    def __init__(self) -> None:
        self.sums: list[str] = []
        self.current, self.room = 0, BLOCK

    def add(self, content: memoryview) -> None:
        while len(content):
            part, content = content[: self.room], content[self.room :]
            self.current, self.room = crc32(part, self.current), self.room - len(part)
            if not self.room:
                self._next()

    def finished(self) -> str:
        if self.room < BLOCK:
            self._next()
        return "".join(self.sums)

    def _next(self) -> None:
        self.sums.append(f"{self.current:08x}")
        self.current, self.room = 0, BLOCK


def changed(file: Path, about: Mapping[str, Any]) -> int | None:
    """Where the first block of a file begins that is not what was written; None where all are."""
    sums, place = about["crc32"], about["start"]
    buffer = memoryview(bytearray(BLOCK))
    with file.open("rb") as stream:
        stream.seek(place)
        for i in range(0, len(sums), 8):
            count = stream.readinto(buffer)
            if f"{crc32(buffer[:count]):08x}" != sums[i : i + 8]:
                return int(place)
            place += count
        return None if not stream.read(1) else int(place)


def state_of(files: list[Path]) -> State:
    """Sizes, times and numbers of files, which differ where somebody has written to one of them."""
    states = {file.name: file.stat() for file in files}
    return {name: [one.st_size, one.st_mtime_ns, one.st_ino] for name, one in states.items()}


def trusted(folder: Path, state: State) -> bool:
    """Whether the files were found whole, or written, since this machine was started, and not changed since then."""
    return sum(size for size, *_ in state.values()) > ALWAYS and _known(folder).get(_boot()) == state


def trust(folder: Path, state: State) -> None:
    """Remember that they are whole; a folder that cannot be written to is read again next time."""
    if sum(size for size, *_ in state.values()) <= ALWAYS:
        return
    known = {**_known(folder), _boot(): state}
    with suppress(OSError):  # one that is cut short counts for nothing
        (folder / MEMORY).write_text(json.dumps(dict([*known.items()][-BOOTS:])), encoding="utf-8")


def _known(folder: Path) -> dict[str, State]:
    with suppress(OSError, ValueError):
        found = json.loads((folder / MEMORY).read_bytes())
        if isinstance(found, dict):
            return found
    return {}


def _boot() -> str:
    """The start of this machine: what a disk gives back may change with the next, and is kept in memory until then."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return os.name
