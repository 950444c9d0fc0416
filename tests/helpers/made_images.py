"""Folders of images with noise in them, so that no two are alike, in the sizes a test wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from domainwise.data.decoded.image import read_rgb, resized

Shape = tuple[int, int]  # height and width


def noise(shape: Shape, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (*shape, 3), np.uint8)


def decode(content: bytes, size: int) -> np.ndarray:
    """The content of an image file as a square."""
    return resized(read_rgb(content)[0], (size, size))


def noisy_folder(root: Path, shapes: Sequence[Shape] = ((8, 8),), domains: Sequence[str] = ("a", "b")) -> Path:
    """Two classes a domain, and in every class one image of each shape; each domain has noise of its own."""
    seed = 0
    for domain in domains:
        for kind in ("cat", "dog"):
            (root / domain / kind).mkdir(parents=True)
            for i, shape in enumerate(shapes):
                Image.fromarray(noise(shape, seed)).save(root / domain / kind / f"{i}.png")
                seed += 1
    return root


def benchmark_folder(root: Path, domains: Sequence[str], classes: int, counts: Mapping[str, int] | None = None) -> Path:
    """``root/<domain>/<class>/<i>.png``, as many of the first class as ``counts`` says."""
    pixel = Image.new("RGB", (1, 1))
    for domain in domains:
        for kind in range(classes):
            folder = root / domain / f"class {kind:03d}"
            folder.mkdir(parents=True)
            for i in range((counts or {}).get(domain, 1) if kind == 0 else 1):
                pixel.save(folder / f"{i}.png")
    return root
