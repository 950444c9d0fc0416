"""The convolution that networks begin with, at every other pixel of an image with few channels, on blocks of pixels.

A GPU multiplies eight channels or more at a time, and an image has three. With the pixels of every 2 x 2 block as the
channels of one, the image has twelve, and the same convolution is one at every block. The parameters, and so the names
in a checkpoint, stay.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from domainwise.acceleration.fold_batch_norm import folded
from domainwise.acceleration.rewrite import Forwards, Wiring

FEW = 4  # channels of an image
MULTIPLE = 8  # of the channels that a GPU takes at a time


def stems(wired: Wiring, folding: Forwards) -> Forwards:
    """How such convolutions compute, those among them too that ``folding`` is about."""
    return {conv: _folded_on_blocks if conv in folding else _on_blocks for conv in filter(_fits, wired)}


def _fits(module: nn.Module) -> bool:
    return (
        type(module) is nn.Conv2d
        and module.in_channels <= FEW
        and (module.stride, module.dilation, module.groups) == ((2, 2), (1, 1), 1)
        and module.padding_mode == "zeros"
        and not isinstance(module.padding, str)
    )


def _on_blocks(self: nn.Conv2d, input: Tensor) -> Tensor:
    return on_blocks(input, self.weight, self.bias, self.padding)  # type: ignore[arg-type]


def _folded_on_blocks(self: nn.Conv2d, input: Tensor) -> Tensor:
    return on_blocks(input, *folded(self), self.padding)  # type: ignore[arg-type]


def on_blocks(x: Tensor, weight: Tensor, bias: Tensor | None, padding: tuple[int, ...]) -> Tensor:
    """``conv2d(x, weight, bias, stride=2, padding=padding)``.

    A window that begins at an odd pixel gets a row or a column of zeros before it, so that it begins with a block.
    """
    down, right = (_along(x.shape[2 + i], weight.shape[2 + i], padding[i]) for i in (0, 1))
    image = _blocks(F.pad(x, (*right[0], *down[0])))
    return F.conv2d(image, _blocks(F.pad(weight, (*right[1], *down[1]))), bias)


def _along(size: int, kernel: int, padding: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Along one side: what to put before and after the image, and before and after the weights."""
    odd = padding % 2
    blocks = (kernel + odd + 1) // 2
    windows = (size + 2 * padding - kernel) // 2 + 1
    before = padding + odd
    return (before, 2 * (windows + blocks - 1) - before - size), (odd, 2 * blocks - kernel - odd)


def _blocks(x: Tensor) -> Tensor:
    number, channels, height, width = x.shape
    x = x.reshape(number, channels, height // 2, 2, width // 2, 2).permute(0, 1, 3, 5, 2, 4)
    x = x.reshape(number, 4 * channels, height // 2, width // 2)  # as F.pixel_unshuffle, which refuses to take no image
    return F.pad(x, (0, 0, 0, 0, 0, -x.shape[1] % MULTIPLE)).contiguous(memory_format=torch.channels_last)
