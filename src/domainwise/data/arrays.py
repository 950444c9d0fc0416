"""The arrays that a domain consists of."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]
Shapes = npt.NDArray[np.int64]  # (N, 2): height and width
Fixed = npt.NDArray[np.int8]  # (N,): FREE, MAIN or HOLDOUT

FREE, MAIN, HOLDOUT = -1, 0, 1
CHANNELS = 3  # of images that come from files


class Ragged:
    """RGB images of different sizes, one after the other in a flat array that may be memory-mapped."""

    def __init__(self, pixels: Images, shapes: Shapes) -> None:
        self.pixels, self.shapes = pixels, shapes
        self.starts = starts(shapes)
        if self.starts[-1] != len(pixels):
            raise ValueError(f"{len(shapes)} images of {self.starts[-1]} bytes in all are said to be in {len(pixels)}")

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, i: int) -> Images:
        """(h, w, 3), a view."""
        i = range(len(self))[i]
        height, width = self.shapes[i]
        return self.pixels[self.starts[i] : self.starts[i + 1]].reshape(height, width, CHANNELS)

    def __iter__(self) -> Iterator[Images]:
        return (self[i] for i in range(len(self)))


def starts(shapes: Shapes) -> Labels:
    """Where each image of a flat array begins, and at the end where the last one ends."""
    return np.concatenate([[0], np.cumsum(CHANNELS * shapes.astype(np.int64).prod(1))])
