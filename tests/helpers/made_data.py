"""Small data for tests of what happens to data, made in a moment."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from domainwise.data.domains import Domains
from domainwise.data.sources.arrays import domains


def stripes(names: str = "abc", size: int = 30, side: int = 8) -> Domains:
    """Domains that differ in brightness; the class is which half is bright, which a small network learns quickly."""
    arrays = {}
    for shift, name in enumerate(names):
        random = np.random.RandomState(shift)
        labels = random.randint(0, 2, size)
        images = random.randint(0, 60, (size, side, side, 1)) + 20 * shift
        for image, label in zip(images, labels, strict=True):
            image[: side // 2] += 100 * label
            image[side // 2 :] += 100 * (1 - label)
        arrays[name] = (images.astype(np.uint8), labels)
    return domains(arrays, name="stripes", classes=["low", "high"])


def image_folder(root: Path, names: tuple[str, ...] = ("art", "photo"), count: int = 6, side: int = 10) -> Path:
    """``root/<domain>/<class>/<i>.png`` with two classes."""
    random = np.random.RandomState(0)
    for domain in names:
        for label, kind in enumerate(("cat", "dog")):
            folder = root / domain / kind
            folder.mkdir(parents=True)
            for i in range(count):
                pixels = random.randint(0, 100, (side, side, 3)).astype(np.uint8)
                pixels[:, : side // 2] += np.uint8(120 * label)
                Image.fromarray(pixels).save(folder / f"{i}.png")
    return root
