"""What a model says of image files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt

from domainwise.data.decoded.image import ImageError, image_bytes, in_threads, pillow_warnings, read_rgb, resized
from domainwise.data.domains import CHANNELS, Images
from domainwise.errors import InputError
from domainwise.saved_models.saved import BATCH, Model


@dataclass(frozen=True)
class Prediction:
    """Of one file: its class and how probable that is, or why it cannot be read as an image."""

    file: str
    kind: str = ""  # its class
    probability: float | None = None
    problem: str = ""
    probabilities: npt.NDArray[np.float32] | None = field(default=None, repr=False, compare=False)  # of all classes


def predictions(model: Model, files: Sequence[str]) -> Iterator[Prediction]:
    """In the order of the files, of which no more are in memory than the network takes at once.

    Every image is decoded and resized as for evaluation. A model for images of one channel gets them in grey.
    """
    channels = model.config["channels"]
    if channels not in (1, CHANNELS):
        raise InputError(
            f"this model takes images of {channels} channels, and those in files have 1 or {CHANNELS}: "
            "give it arrays, in Python"
        )
    return (each for at in range(0, len(files), BATCH) for each in _together(model, files[at : at + BATCH]))


def _together(model: Model, files: Sequence[str]) -> Iterator[Prediction]:
    work = partial(_pixels, size=model.config["input_size"], grey=model.config["channels"] == 1)
    with pillow_warnings(), closing(in_threads(work, files)) as results:
        decoded = list(results)
    images = [image for image in decoded if not isinstance(image, ImageError)]
    rows = list(model.probabilities(np.stack(images))) if images else []
    for file, image in zip(files, decoded, strict=True):
        if isinstance(image, ImageError):
            yield Prediction(file, problem=str(image))
        else:
            row = rows.pop(0)
            best = int(row.argmax())
            yield Prediction(file, model.classes[best], float(row[best]), probabilities=row)


def _pixels(path: str, size: int, grey: bool) -> Images | ImageError:
    try:
        image, _ = read_rgb(image_bytes(path))
    except ImageError as error:
        return error
    if grey:
        return resized(image.convert("L"), (size, size))[..., None]
    return resized(image, (size, size))
