"""Predict the classes of image files, and write the predictions as text, CSV or JSON, a line at a time."""

from __future__ import annotations

import csv
import io
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from unicodedata import normalize

import numpy as np
import numpy.typing as npt

from domainwise.data.decoded.image import (
    Box,
    ImageError,
    cut_out,
    image_bytes,
    in_threads,
    pillow_warnings,
    read_rgb,
    resized,
)
from domainwise.data.domains import CHANNELS, Images
from domainwise.data.sources.listing import quoted
from domainwise.errors import InputError, csv_row, defused, is_number, legible, warn
from domainwise.experiment.records import finite
from domainwise.networks.forms import extent_of

if TYPE_CHECKING:
    from domainwise.saved_models.model import Model

BATCH = 256  # images that a network takes at once
COLUMNS = ("file", "class", "probability", "problem")
HEAD = ",".join(COLUMNS)
BEGINNING = rf'{HEAD}(\n|,"?probability )|\[\n\{{"file": '.encode()  # of what is written here
MOST = 20  # classes that are named in a summary


@dataclass(frozen=True)
class Prediction:
    """Hold the predicted class of one image file and how probable it is, or why there is none."""

    file: str
    class_name: str = ""
    probability: float | None = None
    problem: str = ""
    probabilities: npt.NDArray[np.float32] | None = field(default=None, repr=False, compare=False)  # of all classes
    made_from: bool = field(default=False, repr=False, compare=False)  # the model was, among others
    unsure: bool = field(default=False, repr=False, compare=False)  # and so without a class: see the problem

    @property
    def kind(self) -> str:
        """The class, by the name that this had in earlier versions."""
        warn("a prediction's kind is called class_name now: kind will go in a later version", DeprecationWarning)
        return self.class_name


def check_least(probability: float) -> None:
    """Refuse what is no probability."""
    if not (is_number(probability) and 0 <= probability <= 1):
        raise InputError(f"min_probability is a number from 0 to 1, got {probability!r}")


def predictions(
    model: Model, files: Sequence[str], min_probability: float = 0.0, boxes: Sequence[Box] = ()
) -> Iterator[Prediction]:
    """Yield a prediction for every file in turn; no more images are in memory than the network takes at once.

    Every image is decoded and resized as for evaluation. A model for images of one channel gets them in grey. An image
    whose most probable class is less probable than ``min_probability`` gets none. ``boxes`` are the parts of the
    pictures that are the images, where they are not the whole.
    """
    check_least(min_probability)
    channels = model.config["channels"]
    if model.form != "images":
        what = f"{model.form} of {extent_of(model.layout)}"
        raise InputError(f"this model takes {what} and no images: give it an array, in Python")
    if channels not in (1, CHANNELS):
        raise InputError(
            f"this model takes images of {channels} channels, and those in files have 1 or {CHANNELS}: "
            "give it arrays, in Python"
        )
    items = [*zip(files, boxes or [()] * len(files), strict=True)]
    starts = range(0, len(files), BATCH)
    return (each for at in starts for each in _together(model, items[at : at + BATCH], min_probability))


def _together(model: Model, items: Sequence[tuple[str, Box]], least: float) -> Iterator[Prediction]:
    work = partial(_pixels, size=model.config["input_size"], grey=model.config["channels"] == 1)
    with pillow_warnings(), closing(in_threads(work, items)) as results:
        decoded = list(results)
    images = [image for image in decoded if not isinstance(image, ImageError)]
    rows = list(model.probabilities(np.stack(images))) if images else []
    for (file, _), image in zip(items, decoded, strict=True):
        if isinstance(image, ImageError):
            yield Prediction(file, problem=str(image))
        else:
            yield _predicted(file, model.classes, rows.pop(0), least, model.card.knows(image))


def _predicted(
    file: str, classes: Sequence[str], row: npt.NDArray[np.float32], least: float, made_from: bool
) -> Prediction:
    best = int(row.argmax())
    name, probability = classes[best], float(row[best])
    if probability >= least:
        return Prediction(file, name, probability, probabilities=row, made_from=made_from)
    problem = f"not sure: the most probable class is {legible(name)}, below {least:g}"
    return Prediction(file, "", probability, problem, probabilities=row, made_from=made_from, unsure=True)


def _pixels(item: tuple[str, Box], size: int, grey: bool) -> Images | ImageError:
    path, box = item
    try:
        image = cut_out(read_rgb(image_bytes(path))[0], box)
    except ImageError as error:
        return error
    if grey:
        return resized(image.convert("L"), (size, size))[..., None]
    return resized(image, (size, size))


Lines = Callable[[Iterable[Prediction], Sequence[str]], Iterator[str]]


def as_csv(predictions: Iterable[Prediction], classes: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of a CSV file; ``classes`` are those whose probabilities get a column each."""
    yield _csv_line([*COLUMNS, *(f"probability {name}" for name in classes)])
    for one in predictions:
        file = one.file if defused(one.file) == one.file else f"./{one.file}"  # the same file, and no formula
        yield _csv_line(csv_row(file, one.class_name, one.probability, one.problem, *_of_all(one, classes)))


def _csv_line(cells: Sequence[object]) -> str:
    """A field is quoted where it has a character that ends a line, and names have any: so all of these end it here."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue().removesuffix("\r\n") + "\n"


def as_json(predictions: Iterable[Prediction], classes: Sequence[str] = ()) -> Iterator[str]:
    """Yield the text of a JSON file, a list of predictions; with all probabilities where ``classes`` are named."""
    between = "[\n"
    for one in predictions:
        about: dict[str, object] = {"file": one.file, "class": one.class_name or None, "probability": one.probability}
        about["problem"] = one.problem or None
        if classes:
            values = _of_all(one, classes)
            about["probabilities"] = None if None in values else dict(zip(classes, values, strict=True))
        yield between + json.dumps(finite(about), allow_nan=False)
        between = ",\n"
    yield "\n]\n"


def as_text(files: Sequence[str], classes_of_model: Sequence[str]) -> Lines:
    """Return what makes aligned columns, as wide as these files and all classes of the model need."""
    wide = max(len(legible(file)) for file in files), max(len(legible(name)) for name in ("class", *classes_of_model))

    def lines(predictions: Iterable[Prediction], classes: Sequence[str] = ()) -> Iterator[str]:
        yield _padded(["file", "class"], wide, ["%", *map(legible, classes)], classes)
        for one in predictions:
            values = [one.probability, *_of_all(one, classes)]
            numbers = [one.problem] if one.problem else [f"{100 * (value or 0):.1f}" for value in values]
            yield _padded([legible(one.file), legible(one.class_name)], wide, numbers, classes)

    return lines


def _padded(names: Sequence[str], wide: Sequence[int], numbers: Sequence[str], classes: Sequence[str]) -> str:
    left = [name.ljust(width) for name, width in zip(names, wide, strict=True)]
    widths = [5, *(max(5, len(legible(kind))) for kind in classes)]
    return "  ".join([*left, *(number.rjust(width) for number, width in zip(numbers, widths, strict=False))]) + "\n"


def _of_all(one: Prediction, classes: Sequence[str]) -> list[float | None]:
    if not classes:
        return []
    return [None] * len(classes) if one.probabilities is None else one.probabilities.tolist()


class Tally:
    """Counts predictions as they pass, for a summary at the end.

    ``domains`` are those that the model knows, None where it does not say, and ``targets`` those it was not trained on;
    with ``hashed``, the model knows every image that it was made from.
    """

    def __init__(
        self,
        classes: Sequence[str],
        domains: Sequence[str] | None = None,
        targets: Sequence[str] = (),
        data: str = "",
        *,
        hashed: bool = False,
    ) -> None:
        self.hashed = hashed
        self.classes = frozenset(classes)
        self.domains, self.targets, self.data = domains, frozenset(targets), data
        self.places: Counter[str] = Counter()  # images by the folder that their class's folder lies in
        self.counts: Counter[str] = Counter()
        self.foreign: Counter[str] = Counter()  # images by the folder, where no folder above is called like a class
        self.right = self.strangers = self.unreadable = self.unsure = self.made_from = 0
        self.first = ""  # of those that cannot be read

    def watch(self, predictions: Iterable[Prediction]) -> Iterator[Prediction]:
        """Yield the same predictions, counting them."""
        for one in predictions:
            home = Path(os.path.abspath(one.file)).parent  # noqa: PTH100
            folder = normalize("NFC", home.name)
            self.places[normalize("NFC", home.parent.name)] += 1
            self.strangers += folder not in self.classes
            if self.classes.isdisjoint(normalize("NFC", part) for part in home.parts):
                self.foreign[folder] += 1
            self.made_from += one.made_from
            if one.unsure:
                self.unsure += 1
            elif one.problem:
                self.unreadable += 1
                self.first = self.first or f"{quoted(one.file)} ({one.problem})"
            else:
                self.counts[one.class_name] += 1
                self.right += folder == one.class_name
            yield one

    @property
    def summary(self) -> list[str]:
        """The lines that say how many images each class got, and how many are right where their folders are classes."""
        read = self.counts.total()
        if not read + self.unsure:
            return []
        named = [f"{legible(name)} {count:,}" for name, count in self.counts.most_common(MOST)]
        more = len(self.counts) - len(named)
        others = [f"{more} more classes {read - sum(n for _, n in self.counts.most_common(MOST)):,}"] if more else []
        lines = [f"{read:,} image{'s' * (read != 1)}: {', '.join([*named, *others])}"] if read else []
        if self.unsure:
            lines.append(f"without a class, since none is probable enough: {self.unsure:,} of {read + self.unsure:,}")
        if not self.strangers and read:
            lines.append(f"right, by the names of their folders: {self.right:,} of {read:,}, {self.right / read:.1%}")
        if self.foreign and self.strangers < self.places.total():
            lines.append(self._unknown)
        return [*lines, *self._known_images]

    @property
    def _unknown(self) -> str:
        """Some folders are called like classes, so that the others may be classes too."""
        some = ", ".join(f"{legible(name)} {count:,}" for name, count in self.foreign.most_common(MOST))
        return (
            f"images in folders that are called like no class of this model: {some}. It answers with a class it knows, "
            "so that where those are classes too, none of their images can be right"
        )

    @property
    def _known_images(self) -> list[str]:
        """Whether the model was trained on these images: by their hashes, or else as far as names say."""
        if not self.hashed:
            return [] if self.strangers or not self.counts.total() else [self._seen]
        many = self.places.total() - self.unreadable
        if not self.made_from:
            return ["the model was made from none of these images, as far as their pixels tell"]
        return [
            f"the model was made from {self.made_from:,} of these {many:,} images: being right on those says nothing "
            "of new ones"
        ]

    @property
    def _seen(self) -> str:
        """Tell from names, as far as they say, whether the model was trained on these very images."""
        about = "being right on images that it was trained on says nothing of new ones"
        if self.domains is None:
            return f"if these are from {self.data}, which the model was trained on, mind that {about}"
        trained = sorted(place for place in self.places if place in {*self.domains} - self.targets)
        if trained:
            many = sum(self.places[place] for place in trained)
            named = ", ".join(map(legible, trained[:MOST]))
            return f"{many:,} lie in folders called like domains it was trained on ({named}): {about}"
        if self.places.keys() <= self.targets:
            return f"all lie in folders called like domains it was not trained on ({', '.join(sorted(self.places))})"
        return f"if the model was trained on these, under other names, mind that {about}"

    @property
    def trouble(self) -> str:
        """A sentence about what cannot be read, if there is any."""
        of = self.places.total()
        files = f"{self.unreadable:,} of {of:,} file{'s' * (of != 1)}"
        return f"{files} cannot be read as images, the first of them {self.first}" if self.unreadable else ""
