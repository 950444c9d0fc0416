"""Small data folders for tests, and the sentence with which one is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from domainwise.data.sources.folders import folders
from domainwise.errors import InputError


def draw(path: Path, colour: tuple[int, int, int] = (255, 0, 0), size: tuple[int, int] = (8, 8)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)
    return path


def made(
    where: Path, domains: tuple[str, ...] = ("a", "b"), kinds: tuple[str, ...] = ("cat", "dog"), name: str = "data"
) -> Path:
    """One image a class in every domain, each of a colour of its own."""
    for i, domain in enumerate(domains):
        for j, kind in enumerate(kinds):
            draw(where / name / domain / kind / "0.png", (40 * i, 40 * j, 200))
    return where / name


def refusal(root: Path | str, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        folders(root, **options)
    return str(caught.value)
