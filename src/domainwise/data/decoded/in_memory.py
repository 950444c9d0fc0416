"""Reading a whole data set into memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from domainwise.data.arrays import Images
from domainwise.data.decoded.array_files import assemble
from domainwise.data.decoded.decode_all import Progress, oddities, read
from domainwise.data.decoded.sizes import Layout, Sizes, layout_of
from domainwise.data.domains import Domains
from domainwise.data.sources.listing import Listing
from domainwise.errors import InputError
from domainwise.machine import memory


def into_memory(
    listing: Listing, sizes: Sizes, *, skip_corrupt: bool, progress: Progress | None
) -> tuple[Domains, list[str]]:
    """The domains, and sentences about what was left out."""
    paths = [file.path for file in listing.files]
    layout = layout_of(paths, sizes)
    rows = _room(layout, paths)
    content = read(listing, layout, rows, skip_corrupt=skip_corrupt, progress=progress)
    arrays: dict[str, npt.NDArray[Any]] = {name: target.finished() for name, target in rows.items()}
    return assemble(content.about(), {**arrays, **content.columns(layout)}), oddities(listing, content.corrupt)


class Room:
    """Rows in one array with room for all that may come."""

    def __init__(self, count: int, shape: tuple[int, ...]) -> None:
        self.array = np.empty((count, *shape), np.uint8)
        self.count = 0

    def add(self, rows: npt.NDArray[Any]) -> None:
        self.array[self.count : self.count + len(rows)] = rows
        self.count += len(rows)

    def finished(self) -> Images:
        return self.array[: self.count]


class GrowingRoom:
    """A flat array whose length is not known before."""

    def __init__(self) -> None:
        self.bytes = bytearray()

    def add(self, rows: npt.NDArray[Any]) -> None:
        self.bytes += rows.data

    def finished(self) -> Images:
        return np.frombuffer(self.bytes, np.uint8)


def _room(layout: Layout, paths: Sequence[str]) -> dict[str, Room | GrowingRoom]:
    need = layout.bytes(paths)
    try:
        if need > memory():  # the system might promise it all the same, and end the process later
            raise MemoryError
        return {name: Room(len(paths), shape) if shape else GrowingRoom() for name, shape in layout.rows.items()}
    except (MemoryError, ValueError):
        size = " x ".join(map(str, layout.images))
        raise InputError(
            f"{len(paths)} images of {size} need {need / 2**30:,.0f} GiB of memory: choose a smaller size"
        ) from None
