"""Look at a data set before training: counts, sizes, what is wrong with it, and a contact sheet of its images."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from io import BytesIO
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

from domainwise.data.bursts import bursts, thumbnail
from domainwise.data.decoded.decode_all import BATCH, Progress
from domainwise.data.decoded.image import (
    ImageError,
    X,
    content_hash,
    cut_out,
    image_bytes,
    in_threads,
    pillow_warnings,
    read_rgb,
)
from domainwise.data.domains import Domains, Values
from domainwise.data.sources.benchmarks import BENCHMARKS, Benchmark, difference_of, recognised
from domainwise.data.sources.listing import File, Listing
from domainwise.errors import InputError, legible
from domainwise.files import MADE_BY, PNG, check_output, write_output

THUMB, GAP, LABELS, HEADER = 64, 4, 130, 24
PER_CELL = 4  # two by two
COLUMNS, ROWS = 12, 24  # of these, when there are more classes or domains
INK, FAINT = (40, 40, 40), (225, 225, 225)


@dataclass(frozen=True)
class Look:
    """One image: where it is, what it is, and why it cannot be read, if so."""

    domain: str
    class_name: str
    name: str
    sha256: str = ""
    shape: tuple[int, int] = (0, 0)
    mode: str = ""
    problem: str = ""  # why it cannot be read
    thumbnail: bytes = b""  # what it looks like from afar


@dataclass(frozen=True)
class Survey:
    """The images of a data set, and what follows from looking at all of them."""

    name: str
    fingerprint: str
    domains: tuple[str, ...]
    classes: tuple[str, ...]
    looks: tuple[Look, ...]  # of the images that can be read
    corrupt: tuple[Look, ...]
    oddities: tuple[str, ...]
    plain: str = ""  # the fingerprint where copies of a file are split as if they were none
    files: tuple[File, ...] = ()  # of the looks, unless they are arrays
    form: str = "images"  # what the samples are
    extent: str = ""  # how large each of them is, where they are no images

    @cached_property
    def counts(self) -> dict[str, dict[str, int]]:
        """Images that can be read, by domain and class."""
        counted = Counter((look.domain, look.class_name) for look in self.looks)
        return {domain: {name: counted[domain, name] for name in self.classes} for domain in self.domains}

    @property
    def missing(self) -> list[tuple[str, str]]:
        """(domain, class) pairs without an image."""
        return [(domain, name) for domain, row in self.counts.items() for name, count in row.items() if not count]

    @property
    def sizes(self) -> dict[str, Any]:
        """How many sizes there are, and the smallest, median and largest height and width."""
        shapes = [look.shape for look in self.looks]
        facts: dict[str, Any] = {"distinct": len(set(shapes))}
        for i, side in enumerate(("height", "width")):
            sides = [shape[i] for shape in shapes]
            facts[side] = {"min": min(sides), "median": median_low(sides), "max": max(sides)} if sides else {}
        return facts

    @property
    def modes(self) -> dict[str, int]:
        """The number of images in each mode of Pillow, such as "RGB"."""
        return dict(Counter(look.mode for look in self.looks).most_common())

    @cached_property
    def duplicates(self) -> dict[str, list[list[str]]]:
        """Files of the same content: across domains, within one, and of these those that have different classes."""
        same = defaultdict(list)
        for look in self.looks:
            same[look.sha256].append(look)
        twins = [looks for looks in same.values() if len(looks) > 1]
        return {
            "across": [[x.name for x in looks] for looks in twins if len({x.domain for x in looks}) > 1],
            "within": [[x.name for x in looks] for looks in twins if len({x.domain for x in looks}) == 1],
            "contradicting": [[x.name for x in looks] for looks in twins if len({x.class_name for x in looks}) > 1],
        }

    @cached_property
    def bursts(self) -> list[list[Look]]:
        """Runs of images that look alike and have running numbers, such as the frames of a film."""
        return bursts(self.looks)

    @property
    def benchmark(self) -> Benchmark | None:
        """The published benchmark with this name, or with domains of these names."""
        known = BENCHMARKS.get(self.name)
        return known if known is not None and {*known.domains} == {*self.domains} else recognised(self.domains)

    @property
    def difference(self) -> str:
        """How the numbers of images differ from the published ones, in a sentence; empty where they do not."""
        if self.benchmark is None:
            return ""
        here = {domain: sum(row.values()) for domain, row in self.counts.items()}
        if self.benchmark.in_files:
            here = {domain: here[name] for domain, name in self.benchmark.match(self.domains).items()}
        return difference_of(self.benchmark, here)

    def to_json(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {
            "name": self.name,
            "fingerprint": self.fingerprint,
            "benchmark": self.benchmark.name if self.benchmark else None,
            "difference": self.difference or None,
            "images": len(self.looks),
            "counts": self.counts,
            "missing": [list(pair) for pair in self.missing],
            "sizes": self.sizes,
            "modes": self.modes,
            "corrupt": [{"file": look.name, "reason": look.problem} for look in self.corrupt],
            "duplicates": self.duplicates,
            "bursts": [[look.name for look in run] for run in self.bursts],
            "notes": list(self.oddities),
        }


def survey(data: Listing | Domains, progress: Progress | None = None) -> Survey:
    """Look at every image of a data set."""
    if isinstance(data, Domains):
        looks = tuple(_look_at_arrays(data))
        form: Any = {"form": data.form, "extent": "" if data.form == "images" else data.extent}
        return Survey(data.name, data.fingerprint, data.names, data.classes, looks, (), (), **form)
    looks = tuple(_look_at_files(data, progress))
    good = tuple(look for look in looks if not look.problem)
    readable = replace(data, files=[f for f, look in zip(data.files, looks, strict=True) if not look.problem])
    fingerprint, plain = readable.fingerprints([look.sha256 for look in good])
    corrupt = tuple(look for look in looks if look.problem)
    names = tuple(name for name, _ in data.domains)
    notes = (*data.oddities, *data.unread, *_refusal(data))
    return Survey(data.name, fingerprint, names, data.classes, good, corrupt, notes, plain, tuple(readable.files))


def _refusal(data: Listing) -> list[str]:
    """Why this cannot be trained on as it is, if it cannot."""
    try:
        data.require_usable()
    except InputError as error:
        return [f"this cannot be trained on as it is: {error}"]
    return []


def _look_at_files(found: Listing, progress: Progress | None) -> list[Look]:
    looks = []
    with pillow_warnings(), closing(in_threads(_look, found.files)) as results:
        for look in results:
            looks.append(look)
            if progress is not None and (len(looks) % BATCH == 0 or len(looks) == len(found.files)):
                progress(len(looks), len(found.files))
    return looks


def _look(file: File) -> Look:
    seen = Look(file.domain, file.class_name, legible(file.relative))
    try:
        content = image_bytes(file.path)
        image, mode = read_rgb(content)
        image = cut_out(image, file.box)
    except ImageError as error:
        return replace(seen, problem=str(error))
    return replace(
        seen,
        sha256=content_hash(content, mode),
        shape=(image.height, image.width),
        mode=mode,
        thumbnail=thumbnail(image),
    )


def _look_at_arrays(data: Domains) -> list[Look]:
    form, channels = data.form, (data.shape or (0,))[-1]
    mode = {1: "L", 3: "RGB"}.get(channels, f"{channels} channels") if form == "images" else "numbers"
    size = data.shape[:2] if form in ("images", "signals") else (1, channels)
    return [
        Look(
            domain.name,
            data.classes[label],
            f"{domain.name}/{i}",
            hashlib.sha256(image.tobytes()).hexdigest(),
            (size[0], size[1]),
            mode,
        )
        for domain in data
        for i, (image, label) in enumerate(zip(domain.images, domain.labels, strict=True))
    ]


def write_contact_sheet(data: Listing | Domains, path: Path) -> Path:
    """Write a PNG with a few images of every domain (row) and class (column), those that can be read."""
    check_sheet(path)
    if isinstance(data, Domains) and data.form != "images":
        raise InputError(f"{data.name} has {data.form} and no images, and of those there are no pictures")
    domains = _spread([name for name, _ in data.domains] if isinstance(data, Listing) else data.names, ROWS)
    classes = _spread(data.classes, COLUMNS)
    cell = 2 * (THUMB + GAP) + 2 * GAP
    page = Image.new("RGB", (LABELS + cell * len(classes), HEADER + cell * len(domains)), "white")
    draw = ImageDraw.Draw(page)
    for column, class_name in enumerate(classes):
        _text(draw, class_name, (LABELS + cell * column + GAP, GAP), cell - 2 * GAP)
    with pillow_warnings():
        for row, domain in enumerate(domains):
            top = HEADER + cell * row
            _text(draw, domain, (GAP, top + cell // 2 - 8), LABELS - 2 * GAP)
            for column, class_name in enumerate(classes):
                corner = (LABELS + cell * column, top)
                draw.rectangle((*corner, corner[0] + cell - GAP, corner[1] + cell - GAP), outline=FAINT)
                for i, image in enumerate(_samples(data, domain, class_name)):
                    page.paste(image, (corner[0] + GAP + i % 2 * (THUMB + GAP), top + GAP + i // 2 * (THUMB + GAP)))
    made_by = PngInfo()
    made_by.add_text(*MADE_BY)
    page.save(content := BytesIO(), "PNG", pnginfo=made_by)
    return write_output(path, content.getvalue(), PNG)


def check_sheet(path: Path) -> None:
    """Refuse a path that a contact sheet cannot be written to."""
    if path.suffix.lower() != ".png":
        raise InputError(f'the picture is a PNG: let "{path}" end in .png')
    check_output(path, PNG)


def _spread(items: Sequence[X], most: int) -> list[X]:
    """All of them, or as many evenly from first to last."""
    return [items[i] for i in np.linspace(0, len(items) - 1, min(most, len(items))).round().astype(int)]


def _samples(data: Listing | Domains, domain: str, class_name: str) -> list[Image.Image]:
    if isinstance(data, Domains):
        labels = data[domain].labels
        chosen = np.flatnonzero(labels == data.classes.index(class_name))[:PER_CELL]
        return [thumb(picture_of(data[domain].images[i])) for i in chosen]
    files = [file for file in data.files if (file.domain, file.class_name) == (domain, class_name)]
    images: list[Image.Image] = []
    for file in _spread(files, PER_CELL) if files else ():
        try:
            images.append(thumb(cut_out(read_rgb(image_bytes(file.path))[0], file.box)))
        except ImageError:  # listed elsewhere
            continue
    return images


def picture_of(values: Values) -> Image.Image:
    """Return an image of an array as a picture; channels beyond three are left out."""
    pixels = values if values.dtype == np.uint8 else np.round(255 * values).astype(np.uint8)
    height, width, channels = pixels.shape
    colours = np.zeros((height, width, 3), np.uint8)
    colours[..., : min(channels, 3)] = pixels[..., :3]
    return Image.fromarray(colours if channels > 1 else np.repeat(pixels, 3, axis=-1))


def thumb(image: Image.Image, side: int = THUMB) -> Image.Image:
    """Return a picture whole, with its own proportions, in the middle of a white square."""
    scale = side / max(image.size)
    width, height = (max(1, round(length * scale)) for length in image.size)
    square = Image.new("RGB", (side, side), "white")
    square.paste(image.resize((width, height), Image.Resampling.BILINEAR), ((side - width) // 2, (side - height) // 2))
    return square


def _text(draw: ImageDraw.ImageDraw, text: str, where: tuple[int, int], width: int) -> None:
    font = ImageFont.load_default(13)
    shown = legible(text)
    while draw.textlength(shown, font) > width:
        shown = shown.rstrip("…")[:-1] + "…"
    draw.text(where, shown, INK, font)
