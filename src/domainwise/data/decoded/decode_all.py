"""Decode all image files of a data set into rows of pixels, in the sizes asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from domainwise.data.decoded.image import (
    ImageError,
    NotNow,
    content_hash,
    cut_out,
    image_bytes,
    image_shape,
    in_threads,
    pillow_warnings,
    read_rgb,
    resized,
)
from domainwise.data.domains import CHANNELS, Domains, Images, Shapes, assemble
from domainwise.data.sources.listing import File, Listing, listed, require_nothing_vanished
from domainwise.data.splits import in_both_parts
from domainwise.errors import InputError
from domainwise.machine import total_memory

BATCH = 64  # files between two calls of `progress`
SAMPLE = 100  # images whose size is looked at to tell how much room all will take

Progress = Callable[[int, int], None]
Array = npt.NDArray[Any]
Corrupt = tuple[str, str]  # file and reason


@dataclass(frozen=True)
class Sizes:
    """Sides of the squares that images are stored as, to train on and to evaluate on.

    Equal: one array serves both. Otherwise images that are all of one size, and not larger than ``train``, are kept
    pixel for pixel, whatever their shape; "original" keeps every pixel of any images.
    """

    train: int | Literal["original"]
    evaluate: int

    def __post_init__(self) -> None:
        if self.train != "original" and self.train < 1:
            raise InputError(f"the size of the images must be 1 pixel or more, got {self.train}")
        if self.evaluate < 1:
            raise InputError(f"the size of the images must be 1 pixel or more, got {self.evaluate}")

    def __str__(self) -> str:
        return f"{self.train}" if self.train == self.evaluate else f"{self.train}+{self.evaluate}"


@dataclass(frozen=True)
class Layout:
    """The arrays that images become, and the height and width of their rows."""

    images: tuple[int, int]
    evaluation: tuple[int, int] | None = None
    ragged: bool = False  # and every pixel of images that differ in size

    @property
    def rows(self) -> dict[str, tuple[int, ...]]:
        """The shape of a row in each array of pixels."""
        rows: dict[str, tuple[int, ...]] = {"images": (*self.images, CHANNELS)}
        if self.evaluation is not None:
            rows["evaluation"] = (*self.evaluation, CHANNELS)
        if self.ragged:
            rows["pixels"] = ()
        return rows

    @property
    def sides(self) -> dict[str, tuple[int, int] | None]:
        """The height and width of images that are left in their files, by what they are for; None: every pixel."""
        squares = {"images": self.images, "evaluation": self.evaluation}
        some = {name: side for name, side in squares.items() if side is not None}
        return {**some, **({"originals": None} if self.ragged else {})}

    def bytes(self, paths: Sequence[str]) -> int:
        """Return how much room the arrays will take; an estimate where images are kept in different sizes."""
        areas = [height * width for height, width in (self.images, self.evaluation or (0, 0))]
        if self.ragged:
            with pillow_warnings():
                sample = [shape for path in paths[:: max(1, len(paths) // SAMPLE)] if (shape := image_shape(path))]
            areas.append(sum(height * width for height, width in sample) // max(1, len(sample)))
        return CHANNELS * len(paths) * sum(areas)


def layout_of(files: Sequence[File], sizes: Sizes) -> Layout:
    """Choose the arrays for images, of which a few may be looked at to learn their sizes."""
    square = (sizes.evaluate, sizes.evaluate)
    if sizes.train == sizes.evaluate:
        return Layout(square)
    shape = None if any(file.box for file in files) else _common_shape([file.path for file in files])
    if shape is not None and (sizes.train == "original" or max(shape) <= sizes.train):
        return Layout(shape, None if shape == square else square)
    if sizes.train == "original":
        return Layout(square, ragged=True)
    return Layout((sizes.train, sizes.train), square)


def _common_shape(paths: Sequence[str]) -> tuple[int, int] | None:
    """The height and width of all images, or None where they differ; looks at no more of them than it takes."""
    common: tuple[int, int] | None = None
    with pillow_warnings(), closing(in_threads(image_shape, paths)) as shapes:
        for shape in shapes:
            if common is None:
                common = shape
            elif shape is not None and shape != common:
                return None
    return common


class Rows(Protocol):
    """Anything that takes rows of pixels: memory or a file."""

    def add(self, rows: Array) -> None: ...


@dataclass(frozen=True)
class Decoded:
    """One image file, decoded into a row of each array."""

    sha256: str
    shape: tuple[int, int]
    rows: dict[str, Images]


@dataclass(frozen=True)
class Content:
    """All that was read, but for the pixels."""

    listing: Listing  # of the files that could be read
    hashes: list[str]
    shapes: Shapes
    corrupt: list[Corrupt]

    def facts(self) -> dict[str, Any]:
        """Return what :func:`domainwise.data.domains.assemble` needs besides arrays."""
        fingerprint, plain = self.listing.fingerprints(self.hashes)
        return {
            "name": self.listing.name,
            "classes": [*self.listing.classes],
            "domains": [[*pair] for pair in self.listing.domains],
            "fingerprint": fingerprint,
            "plain": plain,
            "shared": self.listing.shared(self.hashes),
            "subgroups": [*self.listing.subgroup_names],
        }

    def columns(self, layout: Layout) -> dict[str, Array]:
        """Return the small arrays, those that there are."""
        exact = not layout.ragged and bool((self.shapes == layout.images).all())
        columns = {
            "labels": self.listing.labels,
            "shapes": None if exact else self.shapes,
            "groups": self.listing.groups,
            "fixed": self.listing.fixed,
            "subgroups": self.listing.subgroups,
            "copies": self.listing.copies(self.hashes),
        }
        return {name: column for name, column in columns.items() if column is not None}


def decode_all(
    listing: Listing, layout: Layout, rows: Mapping[str, Rows], *, skip_corrupt: bool, progress: Progress | None
) -> Content:
    """Decode every file, in order, into the arrays of a layout; call ``progress`` with the numbers done and in all.

    Without rows they are only looked at: whether each can be decoded, its hash and its shape.
    """
    kept: list[tuple[File, Decoded]] = []
    corrupt: list[Corrupt] = []
    total = len(listing.files)
    work = in_threads(lambda file: _decode(file, layout if rows else None), listing.files)
    with pillow_warnings(), closing(work) as results:
        for done, (file, result) in enumerate(zip(listing.files, results, strict=True), 1):
            if isinstance(result, NotNow):
                raise InputError(
                    f"{file} cannot be read just now ({result}): nothing was left out for it; give the same command "
                    "again when it can be read, or take that file away"
                )
            if isinstance(result, ImageError):
                corrupt.append((str(file), str(result)))
                require_sound(corrupt, skip_corrupt)
            else:
                for name, target in rows.items():
                    target.add(result.rows.pop(name))
                kept.append((file, result))
            if progress is not None and (done % BATCH == 0 or done == total):
                progress(done, total)
    if not kept:
        first = f"{corrupt[0][0]} ({corrupt[0][1]})"
        raise InputError(f"none of the {total} files can be read as an image: {first}, ...")
    files, decoded = zip(*kept, strict=True)
    require_nothing_vanished(listing.files, files)
    shapes = np.array([each.shape for each in decoded], np.int64)
    return Content(replace(listing, files=files), [each.sha256 for each in decoded], shapes, corrupt)


def _decode(file: File, layout: Layout | None) -> Decoded | ImageError:
    try:
        content = image_bytes(file.path)
        image, mode = read_rgb(content)
        image = cut_out(image, file.box)
    except ImageError as error:
        return error
    rows = {}
    if layout is not None:
        rows["images"] = resized(image, layout.images)[None]
        if layout.evaluation is not None:
            rows["evaluation"] = resized(image, layout.evaluation)[None]
        if layout.ragged:
            rows["pixels"] = np.asarray(image).reshape(-1)
    return Decoded(content_hash(content, mode), (image.height, image.width), rows)


def require_sound(corrupt: Sequence[Corrupt], skip_corrupt: bool) -> None:
    """Refuse files that cannot be read as images, unless they are to be left out."""
    if corrupt and not skip_corrupt:
        name, reason = corrupt[0]
        raise InputError(
            f"{name} cannot be read as an image ({reason}): "
            "use --skip-corrupt (skip_corrupt=True) to leave such files out"
        )


def oddities(corrupt: Sequence[Corrupt], shared: Sequence[str], data: Domains) -> list[str]:
    """Return sentences about what was left out, and about what is there more than once."""
    named = [f"{name} ({reason})" for name, reason in corrupt]
    left_out = [listed("file(s) cannot be read as images and are left out", named)] if named else []
    again = sum(len(domain) - len(np.unique(domain.copies)) for domain in data if domain.copies is not None)
    torn = sum(in_both_parts(domain) for domain in data)
    copies = (
        f"{again} file(s) are copies of others in their domain: a file and its copies stay in one part of the split"
    )
    copies += f", but for {torn} that the column split puts into both" if torn else ""
    return [*left_out, *([copies] if again else []), *shared]


def read_into_memory(
    listing: Listing, sizes: Sizes, *, skip_corrupt: bool, progress: Progress | None
) -> tuple[Domains, list[str]]:
    """Return the domains, and sentences about what was left out."""
    paths = [file.path for file in listing.files]
    layout = layout_of(listing.files, sizes)
    rows = _room(layout, paths)
    content = decode_all(listing, layout, rows, skip_corrupt=skip_corrupt, progress=progress)
    arrays: dict[str, npt.NDArray[Any]] = {name: target.finished() for name, target in rows.items()}
    data = assemble(content.facts(), {**arrays, **content.columns(layout)})
    return data, oddities(content.corrupt, content.listing.shared(content.hashes), data)


class _Room:
    """Take rows into one array with room for all that may come."""

    def __init__(self, count: int, shape: tuple[int, ...]) -> None:
        self.array = np.empty((count, *shape), np.uint8)
        self.count = 0

    def add(self, rows: npt.NDArray[Any]) -> None:
        self.array[self.count : self.count + len(rows)] = rows
        self.count += len(rows)

    def finished(self) -> Images:
        return self.array[: self.count]


class _GrowingRoom:
    """Take rows into a flat array whose length is not known before."""

    def __init__(self) -> None:
        self.bytes = bytearray()

    def add(self, rows: npt.NDArray[Any]) -> None:
        self.bytes += rows.data

    def finished(self) -> Images:
        return np.frombuffer(self.bytes, np.uint8)


def _room(layout: Layout, paths: Sequence[str]) -> dict[str, _Room | _GrowingRoom]:
    need = layout.bytes(paths)
    try:
        if need > total_memory():  # the system might promise it all the same, and end the process later
            raise MemoryError
        return {name: _Room(len(paths), shape) if shape else _GrowingRoom() for name, shape in layout.rows.items()}
    except (MemoryError, ValueError):
        size = " x ".join(map(str, layout.images))
        raise InputError(
            f"{len(paths)} images of {size} need {need / 2**30:,.0f} GiB of memory: choose a smaller size, make room "
            "in the cache, or leave them in their files (--store files)"
        ) from None
