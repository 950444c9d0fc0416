"""Leave images in their files and decode them whenever they are needed, to the pixels that a cache would hold."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from domainwise.data.decoded.array_files import Array, Damaged
from domainwise.data.decoded.image import (
    Box,
    ImageError,
    content_hash,
    cut_out,
    image_bytes,
    quiet,
    read_rgb,
    resized,
)
from domainwise.data.decoded.read_ahead import Fetch, in_order
from domainwise.errors import InputError
from domainwise.machine import cores

TABLE = "files.json"
CHANNELS = 3
SOME = 64  # images that are decoded at a time, where all are gone through

Row = tuple[str, Box, str]  # the path of a file, the part of the picture that is the image, and the hash of its content


class ImageFiles:
    """Rows of an array of images that is nowhere: each is decoded when it is asked for.

    A slice is still in its files, a list of rows or :func:`numpy.asarray` decodes them. Without a size images are as
    large as they are, and come one at a time.
    """

    dtype = np.dtype(np.uint8)
    why = "stay in their files: they are decoded ahead of their use"

    def __init__(self, table: Sequence[Row], size: tuple[int, int] | None) -> None:
        self.table, self.size, self.threads = table, size, cores()
        self.shape = (len(table), *(size or ()), CHANNELS)
        self.ndim, self.nbytes = len(self.shape), int(np.prod(self.shape))
        quiet()

    def __len__(self) -> int:
        return len(self.table)

    def read(self, row: int, into: Array) -> None:
        """Decode one row into an array."""
        into[...] = self.decoded(row)

    def decoded(self, row: int) -> Array:
        """Return the pixels of one row; InputError where its file is not what it was when it was looked at first."""
        path, box, expected = self.table[row]
        try:
            content = image_bytes(path)
            image, mode = read_rgb(content)
            if content_hash(content, mode) != expected:
                raise ImageError("it has changed")
            image = cut_out(image, box)
            return resized(image, self.size or (image.height, image.width))
        except ImageError as error:
            raise InputError(
                f"{path} is no longer the image that it was when the data was opened ({error}): put it back, or give "
                "the same command again, which looks at all files anew"
            ) from error

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, int | np.integer):
            return np.array(self.decoded(range(len(self))[key]))  # which may be written to
        if isinstance(key, slice):
            return ImageFiles(self.table[key], self.size)
        return self._all(np.arange(len(self))[key].tolist())

    def _all(self, rows: Sequence[int]) -> Array:
        return Fetch(self, rows).result()

    def __iter__(self) -> Iterator[Array]:
        return (image for images in in_order(self, SOME) for image in images)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self._all(range(len(self))), dtype)


def write_table(folder: Path, table: Sequence[Row], sizes: Mapping[str, tuple[int, int] | None]) -> dict[str, Any]:
    """Write which files images come from; return what about.json has to say of them."""
    rows = [[os.path.abspath(path), box, digest] for path, box, digest in table]  # noqa: PTH100  there may be millions
    content = json.dumps(rows).encode()
    (folder / TABLE).write_bytes(content)
    return {"sha256": sha256(content).hexdigest(), "sizes": dict(sizes)}


def image_files(folder: Path, facts: Mapping[str, Any]) -> dict[str, ImageFiles]:
    """Return the columns of an entry whose images stay in their files; none where they were decoded into arrays."""
    if "files" not in facts:
        return {}
    try:
        content = (folder / TABLE).read_bytes()
    except FileNotFoundError:
        raise Damaged(f"{TABLE} is missing") from None
    if sha256(content).hexdigest() != facts["files"]["sha256"]:
        raise Damaged(f"{TABLE} is not what was written")
    table = [(path, tuple(box), digest) for path, box, digest in json.loads(content)]
    return {name: ImageFiles(table, size and tuple(size)) for name, size in facts["files"]["sizes"].items()}
