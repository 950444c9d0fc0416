"""Pool by Triton kernels; tensors are (N, C, H, W) in channels-last memory, windows 3 x 3 at every other pixel."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024
NARROW = 2**31 - 1 - BLOCK  # elements; beyond, a place needs 64 bits


def largest_of_windows(x: Tensor, largest: Tensor, which: Tensor) -> None:
    """Write the largest of every window, and which of its pixels that is."""
    _largest[_blocks(which)](x, largest, which, *_sizes(x, which))


def gradient_to_pixels(gradient: Tensor, which: Tensor, found: Tensor) -> None:
    """Write the gradient of every pixel."""
    _to_pixels[_blocks(which)](gradient, which, found, *_sizes(found, which))


def _blocks(windows: Tensor) -> tuple[int]:
    return (-(-windows.numel() // BLOCK),)


def _sizes(pixels: Tensor, windows: Tensor) -> tuple[int, ...]:
    return windows.numel(), *pixels.shape[2:], *windows.shape[2:], windows.shape[1], pixels.numel() > NARROW, BLOCK


@triton.jit
def _windows(rows, columns, channels: tl.constexpr, wide: tl.constexpr, block: tl.constexpr):
    """Return the windows of this block: their places, and of each the image, row, column and channel."""
    window = tl.program_id(0) * block + tl.arange(0, block)
    if wide:
        window = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    column = window // channels % columns
    row = window // (channels * columns) % rows
    return window, window // (channels * columns * rows), row, column, window % channels


@triton.jit
def _largest(
    x, largest, which, n, height, width, rows, columns,
    channels: tl.constexpr, wide: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    window, image, row, column, channel = _windows(rows, columns, channels, wide, block)
    live = window < n
    best = tl.full((block,), float("-inf"), tl.float32)
    place = tl.zeros((block,), tl.int32)
    for k in tl.static_range(9):
        h = 2 * row - 1 + k // 3
        w = 2 * column - 1 + k % 3
        inside = live & (h >= 0) & (h < height) & (w >= 0) & (w < width)
        pixel = x + ((image * height + h) * width + w) * channels + channel
        value = tl.load(pixel, inside, float("-inf")).to(tl.float32)
        better = (value > best) | (value != value)
        best = tl.where(better, value, best)
        place = tl.where(better, k, place)
    tl.store(largest + window, best, live)
    tl.store(which + window, place, live)


@triton.jit
def _to_pixels(
    gradient, which, found, n, height, width, rows, columns,
    channels: tl.constexpr, wide: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Give four pixels at a time the gradients of the windows that they are in.

    The window at (i, j) begins at pixel (2i - 1, 2j - 1). Pixel (2i, 2j) is in that window alone; its neighbours to
    the right and below are also in the windows there.
    """
    window, image, row, column, channel = _windows(rows, columns, channels, wide, block)
    live = window < n
    right = live & (column + 1 < columns)
    below = live & (row + 1 < rows)
    down = channels * columns
    here, here_g = _read(which, gradient, window, live)
    there, there_g = _read(which, gradient, window + channels, right)
    under, under_g = _read(which, gradient, window + down, below)
    across, across_g = _read(which, gradient, window + down + channels, right & below)
    pixel = found + ((image * height + 2 * row) * width + 2 * column) * channels + channel
    inside_w = live & (2 * column + 1 < width)
    inside_h = live & (2 * row + 1 < height)
    tl.store(pixel, tl.where(here == 4, here_g, 0.0), live)
    tl.store(pixel + channels, tl.where(here == 5, here_g, 0.0) + tl.where(there == 3, there_g, 0.0), inside_w)
    pixel += width * channels
    tl.store(pixel, tl.where(here == 7, here_g, 0.0) + tl.where(under == 1, under_g, 0.0), inside_h)
    corner = tl.where(here == 8, here_g, 0.0) + tl.where(there == 6, there_g, 0.0)
    corner += tl.where(under == 2, under_g, 0.0) + tl.where(across == 0, across_g, 0.0)
    tl.store(pixel + channels, corner, inside_w & inside_h)


@triton.jit
def _read(which, gradient, window, there):
    """Return which pixel is the largest, and the gradient; for no window, a pixel that does not exist."""
    return tl.load(which + window, there, 9), tl.load(gradient + window, there, 0.0).to(tl.float32)
