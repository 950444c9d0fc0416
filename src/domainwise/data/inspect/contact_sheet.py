"""A picture of a data set: a few images of every domain and class, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

from domainwise.data.arrays import Images
from domainwise.data.decoded.image import ImageError, content_of, pillow_warnings, rgb
from domainwise.data.domains import Domains
from domainwise.data.sources.listing import Listing
from domainwise.errors import InputError, legible
from domainwise.files import MADE_BY, PNG, check_output, write_output

THUMB, GAP, LABELS, HEADER = 64, 4, 130, 24
PER_CELL = 4  # two by two
COLUMNS, ROWS = 12, 24  # of these, when there are more classes or domains
INK, FAINT = (40, 40, 40), (225, 225, 225)


def write_picture(found: Listing | Domains, path: Path) -> Path:
    """Rows are domains, columns are classes. A cell stays empty where there is no image that can be read."""
    check_picture(path)
    domains = _spread([name for name, _ in found.domains] if isinstance(found, Listing) else found.names, ROWS)
    kinds = _spread(found.classes, COLUMNS)
    cell = 2 * (THUMB + GAP) + 2 * GAP
    page = Image.new("RGB", (LABELS + cell * len(kinds), HEADER + cell * len(domains)), "white")
    draw = ImageDraw.Draw(page)
    for column, kind in enumerate(kinds):
        _text(draw, kind, (LABELS + cell * column + GAP, GAP), cell - 2 * GAP)
    with pillow_warnings():
        for row, domain in enumerate(domains):
            top = HEADER + cell * row
            _text(draw, domain, (GAP, top + cell // 2 - 8), LABELS - 2 * GAP)
            for column, kind in enumerate(kinds):
                corner = (LABELS + cell * column, top)
                draw.rectangle((*corner, corner[0] + cell - GAP, corner[1] + cell - GAP), outline=FAINT)
                for i, image in enumerate(_samples(found, domain, kind)):
                    page.paste(image, (corner[0] + GAP + i % 2 * (THUMB + GAP), top + GAP + i // 2 * (THUMB + GAP)))
    made_by = PngInfo()
    made_by.add_text(*MADE_BY)
    page.save(content := BytesIO(), "PNG", pnginfo=made_by)
    return write_output(path, content.getvalue(), PNG)


def check_picture(path: Path) -> None:
    if path.suffix.lower() != ".png":
        raise InputError(f'the picture is a PNG: let "{path}" end in .png')
    check_output(path, PNG)


def _spread(items: Sequence[str], most: int) -> list[str]:
    """All of them, or as many evenly from first to last."""
    return [items[i] for i in np.linspace(0, len(items) - 1, min(most, len(items))).round().astype(int)]


def _samples(found: Listing | Domains, domain: str, kind: str) -> list[Image.Image]:
    if isinstance(found, Domains):
        labels = found[domain].labels
        chosen = np.flatnonzero(labels == found.classes.index(kind))[:PER_CELL]
        return [_thumb(_from_array(found[domain].images[i])) for i in chosen]
    paths = [file.path for file in found.files if (file.domain, file.kind) == (domain, kind)]
    images: list[Image.Image] = []
    for path in _spread(paths, PER_CELL) if paths else ():
        try:
            images.append(_thumb(rgb(content_of(path))[0]))
        except ImageError:  # listed elsewhere
            continue
    return images


def _from_array(pixels: Images) -> Image.Image:
    height, width, channels = pixels.shape
    colours = np.zeros((height, width, 3), np.uint8)
    colours[..., : min(channels, 3)] = pixels[..., :3]
    return Image.fromarray(colours if channels > 1 else np.repeat(pixels, 3, axis=-1))


def _thumb(image: Image.Image) -> Image.Image:
    """Whole, with its own proportions, in the middle of a white square."""
    scale = THUMB / max(image.size)
    width, height = (max(1, round(side * scale)) for side in image.size)
    square = Image.new("RGB", (THUMB, THUMB), "white")
    square.paste(
        image.resize((width, height), Image.Resampling.BILINEAR), ((THUMB - width) // 2, (THUMB - height) // 2)
    )
    return square


def _text(draw: ImageDraw.ImageDraw, text: str, where: tuple[int, int], width: int) -> None:
    font = ImageFont.load_default(13)
    shown = legible(text)
    while draw.textlength(shown, font) > width:
        shown = shown.rstrip("…")[:-1] + "…"
    draw.text(where, shown, INK, font)
