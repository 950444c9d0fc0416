"""Photographs to augment, as Pillow images and as tensors, and recipes whose output is in Pillow's levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_sample_images
from torch import Tensor

from domainwise.data.batches.augment import Augmentation

LEVELS = Augmentation(mean=(0.0,), std=(1 / 255,))
CROP = replace(LEVELS, jitter=(0.0, 0.0, 0.0, 0.0), grey=0.0)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def eight_photos() -> list[Image.Image]:
    """Eight parts of two photographs, 227 x 227."""
    return [
        Image.fromarray(image[top : top + 200, left : left + 213]).resize((227, 227))
        for image in load_sample_images().images
        for top in (0, 227)
        for left in (0, 400)
    ]


def tensor(images: Sequence[Image.Image]) -> Tensor:
    return torch.from_numpy(np.stack([np.asarray(image) for image in images]))


def levels(images: Sequence[Image.Image]) -> Tensor:
    return tensor(images).permute(0, 3, 1, 2).float()
