"""Crop and resize a batch, every image by a box of its own, as two batched matrix products."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

Range = tuple[float, float]


def random_boxes(uniform: Tensor, shape: Tensor, area: Range, ratio: Range) -> Tensor:
    """torchvision's ``RandomResizedCrop``: the first of several tries that fits, else the largest central crop.

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
    return torch.cat((torch.zeros_like(shape), shape), 1).long()


def crop(images: Tensor, box: Tensor, flip: Tensor, out: int) -> Tensor:
    """uint8 (N, H, W, C) to floats (N, C, out, out) from 0 to 1, mirrored where ``flip``; ``box`` may have fractions.

    Antialiased bilinear, each box on its own: pixels beside it have no influence.
    """
    n, height, width, channels = images.shape
    top, left, tall, wide = box.unbind(1)
    rows = _weights(top, tall, torch.zeros_like(flip), height, out) / 255  # (N, out, H)
    columns = _weights(left, wide, flip, width, out)  # (N, out, W)
    x = torch.bmm(rows, images.reshape(n, height, width * channels).float())
    x = x.view(n, out, width, channels).permute(0, 3, 1, 2).reshape(n, channels * out, width)
    return torch.bmm(x, columns.transpose(1, 2)).view(n, channels, out, out)


def resize(images: Tensor, out: int) -> Tensor:
    """The whole of uint8 (N, H, W, C), antialiased bilinear, to floats (N, C, out, out) from 0 to 1."""
    x = images.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format) / 255
    if x.shape[2:] == (out, out):
        return x
    return F.interpolate(x, (out, out), mode="bilinear", antialias=True)


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
