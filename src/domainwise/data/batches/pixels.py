"""Crop, resize and colour batches of images, each image by parameters of its own.

Cropping is two batched matrix products. Colour jitter computes what Pillow's ``ImageEnhance`` and torchvision's
``ColorJitter`` do, on floats (N, C, H, W) from 0 to 1, without their rounding to 8 bits after every operation.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

Range = tuple[float, float]
BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)  # columns of `factors`, values in `order`
RED, GREEN, BLUE = 0.299, 0.587, 0.114  # luminance, ITU-R 601


def random_boxes(uniform: Tensor, shape: Tensor, area: Range, ratio: Range) -> Tensor:
    """Draw crops as torchvision's ``RandomResizedCrop``: the first of several tries that fits, else a central crop.

    ``uniform`` is (N, tries, 4), numbers from 0 to 1; ``shape`` is (N, 2), height and width; ``ratio`` is of width to
    height. Returns (N, 4) whole numbers: top, left, height, width.
    """
    height, width = shape.float()[..., None].unbind(1)  # (N, 1) each
    size, aspect, down, right = uniform.unbind(2)
    pixels = height * width * (area[0] + (area[1] - area[0]) * size)
    low, high = math.log(ratio[0]), math.log(ratio[1])
    aspect = torch.exp(low + (high - low) * aspect)
    tall, wide = (pixels / aspect).sqrt().round(), (pixels * aspect).sqrt().round()
    fits = (tall > 0) & (tall <= height) & (wide > 0) & (wide <= width)
    top, left = (down * (height - tall + 1)).floor(), (right * (width - wide + 1)).floor()
    tries = torch.stack((top, left, tall, wide), 2)
    # The central crop is one more try, which always fits.
    tries = torch.cat((tries, _central(height, width, ratio)), 1)
    fits = torch.cat((fits, torch.ones_like(fits[:, :1])), 1)
    first = fits.int().argmax(1)  # of equal values, argmax takes the first
    return tries.gather(1, first[:, None, None].expand(-1, 1, 4))[:, 0].long()


def whole_boxes(shape: Tensor) -> Tensor:
    """Return boxes (N, 4) that hold the whole of each image."""
    return torch.cat((torch.zeros_like(shape), shape), 1).long()


def crop(images: Tensor, box: Tensor, flip: Tensor, out: int) -> Tensor:
    """Crop images (N, H, W, C) to floats (N, C, out, out) from 0 to 1, mirrored where ``flip``.

    Antialiased bilinear, each box on its own: pixels beside it have no influence. Boxes may have fractions.
    """
    n, height, width, channels = images.shape
    top, left, tall, wide = box.unbind(1)
    rows = _weights(top, tall, torch.zeros_like(flip), height, out) / _white(images)  # (N, out, H)
    columns = _weights(left, wide, flip, width, out)  # (N, out, W)
    x = torch.bmm(rows, images.reshape(n, height, width * channels).float())
    x = x.view(n, out, width, channels).permute(0, 3, 1, 2).reshape(n, channels * out, width)
    return torch.bmm(x, columns.transpose(1, 2)).view(n, channels, out, out)


def resize(images: Tensor, out: int) -> Tensor:
    """Resize all of the images (N, H, W, C), antialiased bilinear, to floats (N, C, out, out) from 0 to 1."""
    x = images.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format) / _white(images)
    if x.shape[2:] == (out, out):
        return x
    return F.interpolate(x, (out, out), mode="bilinear", antialias=True)


def _white(images: Tensor) -> int:
    """The value of white: floats go from 0 to 1 already."""
    return 255 if images.dtype == torch.uint8 else 1


def _central(height: Tensor, width: Tensor, ratio: Range) -> Tensor:
    tall = torch.where(width / height < ratio[0], (width / ratio[0]).round(), height)
    wide = torch.where(width / height > ratio[1], (height * ratio[1]).round(), width)
    return torch.stack((((height - tall) / 2).floor(), ((width - wide) / 2).floor(), tall, wide), 2)


def _weights(start: Tensor, length: Tensor, mirrored: Tensor, pixels: int, out: int) -> Tensor:
    """(N, out, pixels): how much of each pixel goes into each output, along one direction."""
    start, length = start[:, None, None], length[:, None, None]
    place = torch.arange(out, device=start.device)[:, None] + 0.5
    place = torch.where(mirrored[:, None, None], out - place, place)  # (N, out, 1)
    pixel = torch.arange(pixels, device=start.device)
    reach = (length / out).clamp(min=1)  # half the width of the triangle, in pixels
    distance = (pixel + 0.5 - (start + place * length / out)).abs()
    inside = (pixel + 1 > start) & (pixel < start + length)
    weights = (1 - distance / reach).clamp(min=0) * inside
    return weights / weights.sum(2, keepdim=True)


def jitter(x: Tensor, factors: Tensor, order: Tensor) -> Tensor:
    """Change brightness, contrast, saturation and hue of image i by ``factors[i]``, in the order of ``order[i]``.

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
    """Return the luminance of each pixel, (N, 1, H, W)."""
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
