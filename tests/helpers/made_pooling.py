"""Images to pool."""

from __future__ import annotations

import torch

SHAPES = [(2, 8, 16, 16), (2, 3, 7, 9), (1, 5, 1, 2), (3, 64, 13, 12)]


def made(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Rounded, so that windows have several largest pixels: the first of them counts."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).mul(4).round().div(4)
    return x.to(dtype, memory_format=torch.channels_last)
