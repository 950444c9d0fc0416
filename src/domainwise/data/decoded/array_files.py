"""Keep the arrays of a data set in a folder: one .npy file each, which is mapped rather than read, and about.json.

Checksums are taken in blocks while a file is written, so that a byte that changes later is noticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from mmap import ALLOCATIONGRANULARITY, mmap
from pathlib import Path
from typing import IO, Any, NamedTuple
from weakref import WeakKeyDictionary, finalize
from zlib import crc32

import numpy as np
import numpy.typing as npt

from domainwise.files import checksum, exists

FORMAT = 1
ABOUT, VERIFIED = "about.json", "verified.json"
COLUMNS = ("images", "labels", "evaluation", "shapes", "pixels", "groups", "fixed", "copies", "subgroups")
MAPPED = ("images", "evaluation", "pixels")  # the large ones
BLOCK = 4 << 20  # bytes that have one checksum
PROBES, PROBE = 16, 4096  # places that are looked at whenever a file is opened, and bytes of each
ALWAYS = 64 << 20  # bytes of a data set that are read again at every start: that takes a few hundredths of a second
BOOTS = 16  # machines, or starts of one, that are remembered

Array = npt.NDArray[Any]
State = dict[str, list[int]]


class Damaged(Exception):  # noqa: N818  a finding rather than a mistake
    """The files in a folder are not what was written there."""


class ArrayWriter:
    """An .npy file that grows by rows. Written, never mapped: a full disk is then an error and not a dead process."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: npt.DTypeLike = np.uint8) -> None:
        self.shape, self.dtype, self.count = shape, np.dtype(dtype), 0
        self.file: IO[bytes] = path.open("wb")
        self._header()
        self.start = self.file.tell()
        self.sums: list[str] = []
        self.current, self.room = 0, BLOCK

    def add(self, rows: Array) -> None:
        """Append rows."""
        content = np.ascontiguousarray(rows, self.dtype).reshape(-1).view(np.uint8).data
        self.file.write(content)
        while len(content):
            part, content = content[: self.room], content[self.room :]
            self.current, self.room = crc32(part, self.current), self.room - len(part)
            if not self.room:
                self._end_block()
        self.count += len(rows)

    def finish(self) -> dict[str, Any]:
        """End the file; return its checksums, which cover all that follows the header."""
        self.file.seek(0)
        self._header()
        self.close()
        if self.room < BLOCK:
            self._end_block()
        return {"start": self.start, "crc32": "".join(self.sums)}

    def close(self) -> None:
        """Close the file, finished or not."""
        self.file.close()

    def _header(self) -> None:
        """Write the header; numpy leaves room for the count to grow, so that it can be written over."""
        about = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False}
        np.lib.format.write_array_header_1_0(self.file, {**about, "shape": (self.count, *self.shape)})

    def _end_block(self) -> None:
        self.sums.append(f"{self.current:08x}")
        self.current, self.room = 0, BLOCK


def write_array(folder: Path, column: str, parts: Sequence[Array]) -> dict[str, Any]:
    """Write arrays one after the other into one file; return its checksums."""
    file = ArrayWriter(folder / f"{column}.npy", parts[0].shape[1:], parts[0].dtype)
    try:
        for part in parts:
            file.add(part)
        return file.finish()
    finally:
        file.close()


def write_about(folder: Path, checksums: Mapping[str, Any], **facts: Any) -> None:
    """Write about.json, with the facts and with what tells whether the arrays in the folder are whole."""
    about = {
        "format": FORMAT,
        **facts,
        "arrays": {c: probe(folder / f"{c}.npy") for c in COLUMNS if (folder / f"{c}.npy").exists()},
        "blocks": dict(checksums),
    }
    text = json.dumps({**about, "checksum": checksum(about)})
    (folder / ABOUT).write_text(text, encoding="utf-8")


def read_about(folder: Path) -> dict[str, Any]:
    """Return the content of about.json; raise :class:`Damaged` where it is not what was written."""
    if exists(folder / ABOUT) and not (folder / ABOUT).is_file():
        raise Damaged(f"{ABOUT} is not a file")
    try:
        found = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        before = found.pop("checksum")
    except FileNotFoundError:
        raise Damaged(f"{ABOUT} is missing") from None
    except (ValueError, KeyError, AttributeError, TypeError):
        raise Damaged(f"{ABOUT} cannot be read") from None
    if before != checksum(found):
        raise Damaged(f"{ABOUT} has been changed")
    return dict(found)


def open_arrays(folder: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return about.json and the mapped arrays, after a look at a few places of each; :func:`verify` reads them all."""
    facts = read_about(folder)
    for column, expected in facts["arrays"].items():
        file = folder / f"{column}.npy"
        if not exists(file):
            raise Damaged(f"{file.name} is missing")
        if not file.is_file():
            raise Damaged(f"{file.name} is not a file")
        if probe(file) != expected:
            raise Damaged(f"{file.name} is not what was written")
    files = {column: folder / f"{column}.npy" for column in facts["arrays"]}
    return facts, {column: _mapped(file) if column in MAPPED else np.load(file) for column, file in files.items()}


_files: WeakKeyDictionary[mmap, int] = WeakKeyDictionary()  # of what is mapped, open for reading too


def _mapped(path: Path) -> Array:
    with path.open("rb") as stream:
        np.lib.format.read_magic(stream)
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        # "c": pages are shared and never written back, and torch takes the array for writable
        array: Array = np.memmap(stream, dtype, "c", stream.tell(), shape)
        file = os.dup(stream.fileno())  # what is read from it is what is mapped, whatever becomes of the path
    mapping: mmap = array._mmap  # type: ignore[attr-defined]
    _files[mapping] = file
    finalize(mapping, os.close, file)
    return array


class Opened(NamedTuple):
    """A file that an array is mapped from, its size, and where in it the array begins."""

    file: int
    size: int
    start: int


def opened(array: Array) -> Opened | None:
    """Return the file that holds the rows of an array, one after the other; None where they are in memory alone."""
    mapping = getattr(array, "_mmap", None)
    if not isinstance(mapping, mmap) or mapping not in _files or not array.flags.c_contiguous:
        return None
    begin = array.offset // ALLOCATIONGRANULARITY * ALLOCATIONGRANULARITY  # type: ignore[attr-defined]
    inside = array.ctypes.data - np.frombuffer(mapping, np.uint8).ctypes.data
    return Opened(_files[mapping], begin + len(mapping), begin + inside)


def link_arrays(folder: Path, to: Path, without: Sequence[str] = ()) -> None:
    """Give the files of a folder a second name each; copy them where the file system has no links."""
    for file in folder.iterdir():
        if file.name not in (VERIFIED, *without):
            _link(file, to / file.name)


def _link(file: Path, to: Path) -> None:
    """A hard link outlives the clearing of the cache, and a copy would fill the disk."""
    for way in (os.link, os.symlink, shutil.copyfile):
        try:
            way(file.resolve(), to)
            return
        except OSError:
            if way is shutil.copyfile:
                raise


def probe(file: Path) -> str:
    """Return a hash of the size and of pieces from all over a file: sees truncation, lost pages and another's file."""
    size = file.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with file.open("rb") as stream:
        for i in range(PROBES):
            stream.seek(max(size - PROBE, 0) * i // (PROBES - 1))
            digest.update(stream.read(PROBE))
    return digest.hexdigest()


def verify(folder: Path, *, again: bool = True) -> None:
    """Read all arrays and raise :class:`Damaged` where a byte has changed since it was written.

    Not ``again``: only those that were not read since this machine was started. Of a folder that an earlier version
    wrote, which has no checksums, nothing is read.
    """
    blocks = read_about(folder).get("blocks", {})
    files = [folder / f"{column}.npy" for column in blocks]
    if again or not _trusted(folder, _state(files)):
        for file, expected in zip(files, blocks.values(), strict=True):
            if (place := first_change(file, expected)) is not None:
                raise Damaged(f"{file.name} has changed since it was written, somewhere from byte {place:,}")
        trust(folder, files)


def first_change(file: Path, about: Mapping[str, Any]) -> int | None:
    """Return where the first block begins that is not what was written; None where all are."""
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


def trust(folder: Path, files: Sequence[Path]) -> None:
    """Remember that files are whole; a folder that cannot be written to is read again next time."""
    state = _state(files)
    if _bytes(state) <= ALWAYS:
        return
    known = {**_verified(folder), _boot(): state}
    with suppress(OSError):  # one that is cut short counts for nothing
        (folder / VERIFIED).write_text(json.dumps(dict([*known.items()][-BOOTS:])), encoding="utf-8")


def _trusted(folder: Path, state: State) -> bool:
    """Whether the files were verified, or written, since this machine was started, and not changed since then."""
    return _bytes(state) > ALWAYS and _verified(folder).get(_boot()) == state


def _bytes(state: State) -> int:
    return sum(size for size, *_ in state.values())


def _state(files: Sequence[Path]) -> State:
    """Sizes, times and numbers of files, which differ where somebody has written to one of them."""
    states = {file.name: file.stat() for file in files}
    return {name: [one.st_size, one.st_mtime_ns, one.st_ino] for name, one in states.items()}


def _verified(folder: Path) -> dict[str, State]:
    with suppress(OSError, ValueError):
        found = json.loads((folder / VERIFIED).read_bytes())
        if isinstance(found, dict):
            return found
    return {}


def _boot() -> str:
    """The start of this machine: what a disk gives back may change with the next, and is kept in memory until then."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return os.name
