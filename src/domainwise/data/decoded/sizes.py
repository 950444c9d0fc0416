"""Which arrays images become: in what sizes, to train on and to evaluate on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

from domainwise.data.arrays import CHANNELS
from domainwise.data.decoded.image import pillow_warnings, shape_of
from domainwise.data.decoded.parallel import side_by_side
from domainwise.errors import InputError

SAMPLE = 100  # images whose size is looked at to tell how much room all will take


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
    """Height and width of the rows of each array."""

    images: tuple[int, int]
    evaluation: tuple[int, int] | None = None
    ragged: bool = False  # and every pixel of images that differ in size

    @property
    def rows(self) -> dict[str, tuple[int, ...]]:
        """The shape of a row in each of the arrays of pixels."""
        rows: dict[str, tuple[int, ...]] = {"images": (*self.images, CHANNELS)}
        if self.evaluation is not None:
            rows["evaluation"] = (*self.evaluation, CHANNELS)
        if self.ragged:
            rows["pixels"] = ()
        return rows

    def bytes(self, paths: Sequence[str]) -> int:
        """How much room the arrays will take; an estimate where images are kept in different sizes."""
        areas = [height * width for height, width in (self.images, self.evaluation or (0, 0))]
        if self.ragged:
            with pillow_warnings():
                sample = [shape for path in paths[:: max(1, len(paths) // SAMPLE)] if (shape := shape_of(path))]
            areas.append(sum(height * width for height, width in sample) // max(1, len(sample)))
        return CHANNELS * len(paths) * sum(areas)


def layout_of(paths: Sequence[str], sizes: Sizes) -> Layout:
    square = (sizes.evaluate, sizes.evaluate)
    if sizes.train == sizes.evaluate:
        return Layout(square)
    shape = one_shape(paths)
    if shape is not None and (sizes.train == "original" or max(shape) <= sizes.train):
        return Layout(shape, None if shape == square else square)
    if sizes.train == "original":
        return Layout(square, ragged=True)
    return Layout((sizes.train, sizes.train), square)


def one_shape(paths: Sequence[str]) -> tuple[int, int] | None:
    """Height and width of all images, or None where they differ; looks at no more of them than it takes."""
    found: tuple[int, int] | None = None
    with pillow_warnings(), closing(side_by_side(shape_of, paths)) as shapes:
        for shape in shapes:
            if found is None:
                found = shape
            elif shape is not None and shape != found:
                return None
    return found
