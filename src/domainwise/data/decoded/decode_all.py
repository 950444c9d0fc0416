"""From image files to rows of pixels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from domainwise.data.arrays import Images, Shapes
from domainwise.data.decoded.image import ImageError, content_of, pillow_warnings, rgb, squeezed
from domainwise.data.decoded.parallel import side_by_side
from domainwise.data.decoded.sizes import Layout
from domainwise.data.sources.listing import File, Listing, listed, require_same_classes
from domainwise.errors import InputError

BATCH = 64  # files between two calls of `progress`

Progress = Callable[[int, int], None]
Array = npt.NDArray[Any]
Corrupt = tuple[str, str]  # file and reason


class Rows(Protocol):
    """Where rows of pixels go."""

    def add(self, rows: Array) -> None: ...


@dataclass(frozen=True)
class Picture:
    """What becomes of one file."""

    sha256: str
    shape: tuple[int, int]
    rows: dict[str, Images]


@dataclass(frozen=True)
class Content:
    """What was read, besides the pixels."""

    listing: Listing  # of what could be read
    hashes: list[str]
    shapes: Shapes
    corrupt: list[Corrupt]

    def about(self) -> dict[str, Any]:
        return {
            "name": self.listing.name,
            "classes": self.listing.classes,
            "domains": self.listing.domains,
            "fingerprint": self.listing.fingerprint(self.hashes),
        }

    def columns(self, layout: Layout) -> dict[str, Array]:
        """The small arrays, those that there are."""
        exact = not layout.ragged and bool((self.shapes == layout.images).all())
        found = {
            "labels": self.listing.labels,
            "shapes": None if exact else self.shapes,
            "groups": self.listing.groups,
            "fixed": self.listing.fixed,
        }
        return {name: column for name, column in found.items() if column is not None}


def read(
    listing: Listing, layout: Layout, rows: Mapping[str, Rows], *, skip_corrupt: bool, progress: Progress | None
) -> Content:
    """Decode every file, in order, into ``rows``, which are those of the layout."""
    kept: list[tuple[File, Picture]] = []
    corrupt: list[Corrupt] = []
    total = len(listing.files)
    work = side_by_side(lambda file: picture(file.path, layout), listing.files)
    with pillow_warnings(), closing(work) as results:
        for done, (file, result) in enumerate(zip(listing.files, results, strict=True), 1):
            if isinstance(result, ImageError):
                corrupt.append((str(file), str(result)))
                require_sound(corrupt, skip_corrupt)
            else:
                for name, target in rows.items():
                    target.add(result.rows.pop(name))
                kept.append((file, result))
            if progress is not None and (done % BATCH == 0 or done == total):
                progress(done, total)
    if not kept:
        first = f"{corrupt[0][0]} ({corrupt[0][1]})"
        raise InputError(f"none of the {total} files can be read as an image: {first}, ...")
    files, pictures = zip(*kept, strict=True)
    require_same_classes(files, [name for name, _ in listing.domains])
    shapes = np.array([each.shape for each in pictures], np.int64)
    return Content(replace(listing, files=files), [each.sha256 for each in pictures], shapes, corrupt)


def picture(path: str, layout: Layout) -> Picture | ImageError:
    try:
        content = content_of(path)
        image, _ = rgb(content)
    except ImageError as error:
        return error
    rows = {"images": squeezed(image, layout.images)[None]}
    if layout.evaluation is not None:
        rows["evaluation"] = squeezed(image, layout.evaluation)[None]
    if layout.ragged:
        rows["pixels"] = np.asarray(image).reshape(-1)
    return Picture(hashlib.sha256(content).hexdigest(), (image.height, image.width), rows)


def require_sound(corrupt: Sequence[Corrupt], skip_corrupt: bool) -> None:
    if corrupt and not skip_corrupt:
        name, reason = corrupt[0]
        raise InputError(
            f"{name} cannot be read as an image ({reason}): "
            "use --skip-corrupt (skip_corrupt=True) to leave such files out"
        )


def oddities(listing: Listing, corrupt: Sequence[Corrupt]) -> list[str]:
    """Sentences about what was left out."""
    named = [f"{name} ({reason})" for name, reason in corrupt]
    return [*listing.oddities, *([listed("file(s) cannot be read as images and are left out", named)] if named else [])]
