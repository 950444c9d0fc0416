"""Predictions as text, CSV and JSON, a line at a time, however many they are; and what is to say of all of them."""

from __future__ import annotations

import csv
import io
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from unicodedata import normalize

from domainwise.data.sources.listing import quoted
from domainwise.errors import csv_row, defused, legible
from domainwise.experiment.records import finite
from domainwise.saved_models.predict import Prediction

COLUMNS = ("file", "class", "probability", "problem")
HEAD = ",".join(COLUMNS)
BEGINNING = rf'{HEAD}(\n|,"?probability )|\[\n\{{"file": '.encode()  # of what is written here
MOST = 20  # classes that are named in a summary

Lines = Callable[[Iterable[Prediction], Sequence[str]], Iterator[str]]


def as_csv(predictions: Iterable[Prediction], classes: Sequence[str] = ()) -> Iterator[str]:
    """``classes`` are those whose probabilities get a column each."""
    yield _csv_line([*COLUMNS, *(f"probability {name}" for name in classes)])
    for one in predictions:
        file = one.file if defused(one.file) == one.file else f"./{one.file}"  # the same file, and no formula
        yield _csv_line(csv_row(file, one.kind, one.probability, one.problem, *_all(one, classes)))


def _csv_line(cells: Sequence[object]) -> str:
    """A field is quoted where it has a character that ends a line, and names have any: so all of these end it here."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue().removesuffix("\r\n") + "\n"


def as_json(predictions: Iterable[Prediction], classes: Sequence[str] = ()) -> Iterator[str]:
    between = "[\n"
    for one in predictions:
        about: dict[str, object] = {"file": one.file, "class": one.kind or None, "probability": one.probability}
        about["problem"] = one.problem or None
        if classes:
            values = _all(one, classes)
            about["probabilities"] = None if one.problem else dict(zip(classes, values, strict=True))
        yield between + json.dumps(finite(about), allow_nan=False)
        between = ",\n"
    yield "\n]\n"


def as_text(files: Sequence[str], kinds: Sequence[str]) -> Lines:
    """Aligned columns: as wide as these files and all classes of the model need."""
    wide = max(len(legible(file)) for file in files), max(len(legible(kind)) for kind in ("class", *kinds))

    def lines(predictions: Iterable[Prediction], classes: Sequence[str] = ()) -> Iterator[str]:
        yield _padded(["file", "class"], wide, ["%", *map(legible, classes)], classes)
        for one in predictions:
            values = [] if one.problem else [one.probability, *_all(one, classes)]
            numbers = [one.problem] if one.problem else [f"{100 * (value or 0):.1f}" for value in values]
            yield _padded([legible(one.file), legible(one.kind)], wide, numbers, classes)

    return lines


def _padded(names: Sequence[str], wide: Sequence[int], numbers: Sequence[str], classes: Sequence[str]) -> str:
    left = [name.ljust(width) for name, width in zip(names, wide, strict=True)]
    widths = [5, *(max(5, len(legible(kind))) for kind in classes)]
    return "  ".join([*left, *(number.rjust(width) for number, width in zip(numbers, widths, strict=False))]) + "\n"


def _all(one: Prediction, classes: Sequence[str]) -> list[float | None]:
    if not classes:
        return []
    return [None] * len(classes) if one.probabilities is None else one.probabilities.tolist()


class Tally:
    """Counts what passes by.

    ``domains`` are those that the model knows, None where it does not say, and ``unseen`` those it was not trained on.
    """

    def __init__(
        self, classes: Sequence[str], domains: Sequence[str] | None = None, unseen: Sequence[str] = (), data: str = ""
    ) -> None:
        self.classes = frozenset(classes)
        self.domains, self.unseen, self.data = domains, frozenset(unseen), data
        self.places: Counter[str] = Counter()  # images by the folder that their class's folder lies in
        self.counts: Counter[str] = Counter()
        self.right = self.strangers = self.unreadable = 0
        self.first = ""  # of those that cannot be read

    def watch(self, predictions: Iterable[Prediction]) -> Iterator[Prediction]:
        for one in predictions:
            home = Path(os.path.abspath(one.file)).parent  # noqa: PTH100
            folder = normalize("NFC", home.name)
            self.places[normalize("NFC", home.parent.name)] += 1
            self.strangers += folder not in self.classes
            if one.problem:
                self.unreadable += 1
                self.first = self.first or f"{quoted(one.file)} ({one.problem})"
            else:
                self.counts[one.kind] += 1
                self.right += folder == one.kind
            yield one

    @property
    def summary(self) -> list[str]:
        """How many of each class; and how many are right, where every image lies in a folder named after a class."""
        read = self.counts.total()
        if not read:
            return []
        named = [f"{legible(kind)} {count:,}" for kind, count in self.counts.most_common(MOST)]
        more = len(self.counts) - len(named)
        others = [f"{more} more classes {read - sum(n for _, n in self.counts.most_common(MOST)):,}"] if more else []
        lines = [f"{read:,} image{'s' * (read != 1)}: {', '.join([*named, *others])}"]
        if not self.strangers:
            lines.append(f"right, by the names of their folders: {self.right:,} of {read:,}, {self.right / read:.1%}")
            lines.append(self._seen)
        return lines

    @property
    def _seen(self) -> str:
        """Tell from names, as far as they say, whether the model was trained on these very images."""
        about = "being right on images that it was trained on says nothing of new ones"
        if self.domains is None:
            return f"if these are from {self.data}, which the model was trained on, mind that {about}"
        trained = sorted(place for place in self.places if place in {*self.domains} - self.unseen)
        if trained:
            many = sum(self.places[place] for place in trained)
            named = ", ".join(map(legible, trained[:MOST]))
            return f"{many:,} lie in folders called like domains it was trained on ({named}): {about}"
        if self.places.keys() <= self.unseen:
            return f"all lie in folders called like domains it was not trained on ({', '.join(sorted(self.places))})"
        return f"if the model was trained on these, under other names, mind that {about}"

    @property
    def trouble(self) -> str:
        """A sentence about what cannot be read, if there is any."""
        of = self.unreadable + self.counts.total()
        files = f"{self.unreadable:,} of {of:,} file{'s' * (of != 1)}"
        return f"{files} cannot be read as images, the first of them {self.first}" if self.unreadable else ""
