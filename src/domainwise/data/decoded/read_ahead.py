"""Read rows of pixels in threads before they are needed, into room that does not grow with the data."""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from domainwise.data.decoded.array_files import opened
from domainwise.machine import total_memory
from domainwise.networks.forms import as_bytes

SHARE = 1 / 4  # of the memory: the system keeps a file of up to that size there by itself
AT_ONCE = 16  # reads that a disk is asked for at a time
BATCHES = 2  # that are read ahead, beside the one in use

Array = npt.NDArray[Any]
T = TypeVar("T")


@runtime_checkable
class Source(Protocol):
    """Rows of one shape, which several threads may read at a time."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    threads: int
    why: str  # images are read from there, for a sentence about them

    def read(self, row: int, into: Array) -> None:
        """Read one row into an array of one."""


class RowsOfFile:
    """Rows of an array that lies in a file, read rather than mapped, so that no page of it stays in this process."""

    threads = AT_ONCE
    why = "are too many for this memory: they are read from the disk ahead of their use"

    def __init__(self, array: Array, file: int, start: int) -> None:
        self.array, self.file, self.start = array, file, start  # the file is open as long as the array is there
        rows = as_bytes(array)  # of a dict; others are as they are
        self.shape, self.dtype, self.bytes = rows.shape, rows.dtype, rows[0].nbytes

    def read(self, row: int, into: Array) -> None:
        """Read one row; OSError where the disk does not give it."""
        if os.preadv(self.file, [into.view(np.uint8).data], self.start + row * self.bytes) != self.bytes:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def source_of(array: Array | Source) -> Source | None:
    """Return how to read the rows of an array ahead; None where it is in memory, or where the system will keep it."""
    if isinstance(array, Source):
        return array
    found = opened(array)
    if found is None or found.size <= SHARE * total_memory() or not hasattr(os, "preadv"):
        return None
    return RowsOfFile(array, found.file, found.start)


class Fetch:
    """Rows that threads are reading."""

    def __init__(self, source: Source, rows: Sequence[int]) -> None:
        self.source, self.rows = source, np.empty((len(rows), *source.shape[1:]), source.dtype)
        self.places, each = list(enumerate(rows)), -(-len(rows) // source.threads)
        pool = _threads(os.getpid(), source.threads)
        self.work = [pool.submit(self._read, self.places[i : i + each]) for i in range(0, len(rows), each)]

    def _read(self, places: Sequence[tuple[int, int]]) -> None:
        for place, row in places:
            self.source.read(row, self.rows[place : place + 1])

    def result(self) -> Array:
        """Wait for the rows, and return them in the order that they were asked for."""
        for part in self.work:
            part.result()
        return self.rows


@cache
def _threads(process: int, count: int) -> ThreadPoolExecutor:
    """The threads of a process; those of another one are not here after a fork."""
    return ThreadPoolExecutor(count, "read ahead")


def ahead(items: Iterable[T], count: int) -> Iterator[T]:
    """Yield items in order, each when ``count`` more have been taken: what taking one begins then goes on meanwhile."""
    taken: deque[T] = deque()
    for item in items:
        taken.append(item)
        if len(taken) > count:
            yield taken.popleft()
    yield from taken


def in_order(array: Array | Source, count: int) -> Iterator[Array]:
    """Yield all rows of an array, ``count`` at a time; from the disk they are read ahead."""
    starts, source = range(0, array.shape[0], count), source_of(array)
    if isinstance(array, np.ndarray) and source is None:
        yield from (array[start : start + count] for start in starts)
        return
    assert source is not None
    fetches = (Fetch(source, range(start, min(start + count, array.shape[0]))) for start in starts)
    yield from (fetch.result() for fetch in ahead(fetches, BATCHES))
