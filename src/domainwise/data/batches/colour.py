"""Colour jitter on a batch, where every image has factors of its own and applies them in an order of its own.

Images are floats (N, C, H, W) from 0 to 1. What Pillow's ``ImageEnhance`` and torchvision's ``ColorJitter`` compute,
without their rounding to 8 bits after every operation.
"""

from __future__ import annotations

import torch
from torch import Tensor

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)  # columns of `factors`, values in `order`
RED, GREEN, BLUE = 0.299, 0.587, 0.114  # luminance, ITU-R 601


def jitter(x: Tensor, factors: Tensor, order: Tensor) -> Tensor:
    """Brightness, contrast, saturation and hue of image i by ``factors[i]``, in the order of ``order[i]``.

    ``factors`` is (N, 4): three factors to multiply with and a part of the colour circle to turn the hue by. ``order``
    is (N, 4), each row a permutation of 0 to 3. An image of one channel has no saturation and no hue to change.
    """
    # Each of the first three moves a pixel along a line, so one formula does any of them; hue is the costly one. With
    # three steps on either side of it, some idle, every order needs hue only once, and shapes never depend on the data.
    amount = factors.gather(1, order)
    turn = (order == HUE).int().argmax(1, keepdim=True)  # (N, 1): when each image turns its hue
    slot = torch.arange(4, device=order.device)
    before = torch.where(slot < turn, amount, 1.0)
    after = torch.where(slot > turn, amount, 1.0)
    x = x.clone()
    for i in (0, 1, 2):
        _tone_(x, order[:, i], before[:, i])
    x = hue(x, factors[:, HUE])
    for i in (1, 2, 3):
        _tone_(x, order[:, i], after[:, i])
    return x


def grey(x: Tensor) -> Tensor:
    """The luminance of each pixel, (N, 1, H, W)."""
    if x.shape[1] == 1:
        return x
    red, green, blue = x.unbind(1)
    return (RED * red).add_(green, alpha=GREEN).add_(blue, alpha=BLUE)[:, None]


def hue(x: Tensor, turn: Tensor) -> Tensor:
    """Turn the hue by ``turn`` (N,) of the colour circle, keeping each pixel's largest and smallest channel."""
    if x.shape[1] == 1:
        return x
    red, green, blue = x.unbind(1)
    high, low = x.amax(1), x.amin(1)
    chroma = high - low
    # Sixths of the circle, times chroma: red is at 0, green at 2, blue at 4. Greys have no chroma and come out at 0.
    beside_green = (blue - red).add_(chroma, alpha=2)
    beside_blue = (red - green).add_(chroma, alpha=4)
    angle = torch.where(high == red, green - blue, torch.where(high == green, beside_green, beside_blue))
    angle.div_(chroma + 1e-12).div_(6).add_(turn[:, None, None])
    angle.sub_(angle.floor()).mul_(6)  # remainder() would do, at several times the cost
    part = torch.stack((angle - 3, angle - 2, angle - 4), 1).abs_()
    part[:, 0].sub_(1)
    part[:, 1:].neg_().add_(2)
    return part.clamp_(0, 1).mul_(chroma[:, None]).add_(low[:, None])


def _tone_(x: Tensor, operation: Tensor, factor: Tensor) -> None:
    """Away from black (brightness), the image's mean grey (contrast) or each pixel's own grey (saturation)."""
    shade = grey(x)
    middle = shade.mean((1, 2, 3)) * (operation == CONTRAST)
    origin = (shade * _each(operation == SATURATION)).add_(_each(middle))
    x.lerp_(origin, _each(1 - factor)).clamp_(0, 1)


def _each(values: Tensor) -> Tensor:
    return values[:, None, None, None]
