"""Domains on disk: one array file for all domains together, to be mapped rather than read, and about.json."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from domainwise.data.arrays import Ragged, starts
from domainwise.data.decoded.blocks import MEMORY, Blocks, changed, state_of, trust, trusted
from domainwise.data.domains import Domain, Domains
from domainwise.files import checksum, exists

FORMAT = 1
ABOUT = "about.json"
COLUMNS = ("images", "labels", "evaluation", "shapes", "pixels", "groups", "fixed")
MAPPED = ("images", "evaluation", "pixels")  # the large ones
BLOCKS, BLOCK = 16, 4096

Array = npt.NDArray[Any]


class Damaged(Exception):  # noqa: N818  a finding rather than a mistake
    """The files in a folder are not what was written there."""


class RowsFile:
    """An .npy file that grows by rows. Written, never mapped: a full disk is then an error and not a dead process."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: npt.DTypeLike = np.uint8) -> None:
        self.shape, self.dtype, self.count = shape, np.dtype(dtype), 0
        self.file: IO[bytes] = path.open("wb")
        self._header()
        self.start, self.blocks = self.file.tell(), Blocks()

    def add(self, rows: Array) -> None:
        content = np.ascontiguousarray(rows, self.dtype).reshape(-1).view(np.uint8).data
        self.file.write(content)
        self.blocks.add(content)
        self.count += len(rows)

    def finish(self) -> dict[str, Any]:
        """End it; returns what tells whether it is whole, beside :func:`probe`, which looks at its beginning."""
        self.file.seek(0)
        self._header()
        self.close()
        return {"start": self.start, "crc32": self.blocks.finished()}

    def close(self) -> None:
        self.file.close()

    def _header(self) -> None:
        """numpy leaves room for the count to grow, so that the header can be written over."""
        about = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False}
        np.lib.format.write_array_header_1_0(self.file, {**about, "shape": (self.count, *self.shape)})


def assemble(about: Mapping[str, Any], arrays: Mapping[str, Array], home: Path | None = None) -> Domains:
    """Domains as slices of arrays that hold all of them. ``about``: name, classes, domains with counts, fingerprint."""
    ends = np.cumsum([0, *(count for _, count in about["domains"])])
    parts = {name: np.split(array, ends[1:-1]) for name, array in arrays.items() if name != "pixels"}
    originals: Sequence[Ragged] | None = None
    if "pixels" in arrays:
        firsts = starts(arrays["shapes"])[ends]
        originals = [
            Ragged(arrays["pixels"][a:b], shapes)
            for (a, b), shapes in zip(pairwise(firsts), parts["shapes"], strict=True)
        ]
    items = tuple(
        Domain(
            name,
            originals=originals[i] if originals else None,
            **{column: rows[i] for column, rows in parts.items()},
        )
        for i, (name, _) in enumerate(about["domains"])
    )
    return Domains(about["name"], tuple(about["classes"]), items, about["fingerprint"], home)


def save(data: Domains, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if data.home is not None and data.home.is_dir():
        for file in data.home.iterdir():
            if file.name != MEMORY:
                _link(file, folder / file.name)
        return
    first, blocks = data.items[0], {}
    for column in COLUMNS:
        if column == "pixels":
            parts = [domain.originals.pixels for domain in data if domain.originals is not None]
        else:
            parts = [getattr(domain, column) for domain in data if getattr(first, column) is not None]
        if parts:
            blocks[column] = write(folder, column, parts)
    domains = [(domain.name, len(domain)) for domain in data]
    describe(folder, data.name, data.classes, domains, data.fingerprint, blocks)


def write(folder: Path, column: str, parts: Sequence[Array]) -> dict[str, Any]:
    file = RowsFile(folder / f"{column}.npy", parts[0].shape[1:], parts[0].dtype)
    try:
        for part in parts:
            file.add(part)
        return file.finish()
    finally:
        file.close()


def describe(
    folder: Path,
    name: str,
    classes: Sequence[str],
    domains: Sequence[tuple[str, int]],
    fingerprint: str,
    blocks: Mapping[str, Any],
    **more: Any,
) -> None:
    """Write about.json for the arrays that are in the folder, with what tells whether they are whole."""
    about = {
        "format": FORMAT,
        "name": name,
        "classes": list(classes),
        "domains": [list(pair) for pair in domains],
        "fingerprint": fingerprint,
        "arrays": {c: probe(folder / f"{c}.npy") for c in COLUMNS if (folder / f"{c}.npy").exists()},
        "blocks": dict(blocks),
        **more,
    }
    text = json.dumps({**about, "checksum": checksum(about)})
    (folder / ABOUT).write_text(text, encoding="utf-8")


def about(folder: Path) -> dict[str, Any]:
    """What about.json says; :class:`Damaged` where that cannot be believed."""
    if exists(folder / ABOUT) and not (folder / ABOUT).is_file():
        raise Damaged(f"{ABOUT} is no file")
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


def load(folder: Path) -> Domains:
    """Map the arrays in a folder, after a look at a few places of each; see :func:`verify` for all of them."""
    facts = about(folder)
    for column, expected in facts["arrays"].items():
        file = folder / f"{column}.npy"
        if not exists(file):
            raise Damaged(f"{file.name} is missing")
        if not file.is_file():
            raise Damaged(f"{file.name} is no file")
        if probe(file) != expected:
            raise Damaged(f"{file.name} is not what was written")
    arrays = {
        # "c": pages are shared and never written back, and torch takes the array for writable
        column: np.load(folder / f"{column}.npy", mmap_mode="c" if column in MAPPED else None)
        for column in facts["arrays"]
    }
    return assemble(facts, arrays, folder)


def verify(folder: Path, *, anyway: bool = True) -> bool:
    """Read all arrays and raise :class:`Damaged` where a byte has changed; False where nothing is known of them, as in
    a folder that an earlier version wrote. Not ``anyway``, only what was not read since this machine was started."""
    blocks = about(folder).get("blocks")
    if blocks is None:
        return False
    state = state_of([folder / f"{column}.npy" for column in blocks])
    if anyway or not trusted(folder, state):
        for column, expected in blocks.items():
            if (place := changed(folder / f"{column}.npy", expected)) is not None:
                raise Damaged(f"{column}.npy has changed since it was written, somewhere from byte {place:,}")
        trust(folder, state)
    return True


def probe(file: Path) -> str:
    """A hash of the size and of blocks from all over the file: sees truncation, lost pages and another's file."""
    size = file.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with file.open("rb") as stream:
        for i in range(BLOCKS):
            stream.seek(max(size - BLOCK, 0) * i // (BLOCKS - 1))
            digest.update(stream.read(BLOCK))
    return digest.hexdigest()


def _link(file: Path, to: Path) -> None:
    """The same file under another name: a hard link outlives the clearing of the cache, a copy would fill the disk."""
    for way in (os.link, os.symlink, shutil.copyfile):
        try:
            way(file.resolve(), to)
            return
        except OSError:
            if way is shutil.copyfile:
                raise
