"""Keep what the selected model of a trial made of every image of the hold-outs and the targets, and read it back.

``outcomes.npz`` has the position, the label and the logits of each image, for the model and for every average of it. Of
more than 50 classes it has only the ten largest logits, that of the label, and the logarithm of the sum of all their
exponentials: the others are then taken to be equal, so that the probabilities of those that were kept are exact.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from domainwise.errors import InputError
from domainwise.experiment import integrity
from domainwise.experiment.metrics import MANY
from domainwise.experiment.results import DAMAGED, OUTCOMES, Outcome
from domainwise.files import replacing, sync

FORMAT = 1
TOP = 10  # logits that are kept of an image where there are more than MANY classes
LEAST = 1e-12  # of a probability: rounding may leave nothing, or less, for the classes that were not kept

Numbers = npt.NDArray[Any]
Columns = Mapping[str, Numbers]  # index, label, logits; and of many classes top, true and total
Table = Mapping[str, Mapping[str, Columns]]  # domain -> part -> its columns


@dataclass(frozen=True, eq=False)
class Seen:
    """Hold the images of one part of a domain, and what a model made of each of them."""

    classes: int
    columns: Columns

    def __len__(self) -> int:
        return len(self.index)

    @property
    def index(self) -> Numbers:
        """The position of every image in its domain."""
        return np.asarray(self.columns["index"], np.int64)

    @property
    def label(self) -> Numbers:
        """The class of every image, as a number."""
        return np.asarray(self.columns["label"], np.int64)

    @cached_property
    def logits(self) -> Numbers:
        """The logits of every image, a row each; the smallest of many classes are taken to be equal."""
        kept = np.asarray(self.columns["logits"], np.float64)
        if "top" not in self.columns:
            return kept
        top, rows = self.columns["top"], np.arange(len(kept))
        true, total = (np.asarray(self.columns[name], np.float64) for name in ("true", "total"))
        apart = (top != self.label[:, None]).all(1)  # the label is not among the largest
        left = 1 - np.exp(kept - total[:, None]).sum(1) - np.where(apart, np.exp(true - total), 0)
        others = np.maximum(self.classes - kept.shape[1] - apart, 1)
        rest = np.minimum(total + np.log(np.maximum(left, LEAST) / others), kept.min(1))
        whole = np.repeat(rest[:, None], self.classes, 1)
        whole[rows, self.label] = true
        whole[rows[:, None], top] = kept
        return whole

    @property
    def predicted(self) -> Numbers:
        """The class that the model takes every image for, as a number."""
        return np.asarray(np.argmax(self.logits, 1))

    def probabilities(self, temperature: float = 1.0) -> Numbers:
        """Return the probability of every class, a row for each image; a temperature above 1 makes them milder."""
        return probabilities(self.logits, temperature)


def probabilities(logits: Numbers, temperature: float = 1.0) -> Numbers:
    """Return the probabilities that logits mean, a row for each image."""
    shares = np.exp((logits - logits.max(1, keepdims=True)) / temperature)
    return np.asarray(shares / shares.sum(1, keepdims=True))


def bytes_kept(classes: int) -> int:
    """Return the bytes that are kept of one image."""
    return 8 + (4 * classes if classes <= MANY else 8 * TOP + 8)


def write(path: Path, classes: int, tables: Mapping[str, tuple[int, Table]]) -> None:
    """Write the outcomes of a trial: by "model" or the name of an average the selected step, and its table."""
    about: dict[str, Any] = {"format": FORMAT, "classes": classes, "steps": {}, "parts": []}
    arrays: dict[str, Numbers] = {}
    for which, (step, table) in tables.items():
        about["steps"][which] = step
        for domain, part, columns in _parts(table):
            arrays |= {f"{len(about['parts'])}.{name}": values for name, values in columns.items()}
            about["parts"].append([which, domain, part])
    said = np.frombuffer(json.dumps(about).encode(), np.uint8)
    integrity.make_way(path)
    with replacing(path) as temporary, temporary.open("xb") as file:
        np.savez(file, allow_pickle=False, about=said, **arrays)
        file.flush()
    sync(path)


def _parts(table: Table) -> Iterator[tuple[str, str, Columns]]:
    for domain, parts in table.items():
        for part, columns in parts.items():
            yield domain, part, columns


def read(outcome: Outcome) -> dict[str, dict[str, Seen]]:
    """Return what the selected model of a trial made of the images of every domain, by domain and part.

    An InputError says what is missing where a trial kept none, and what has changed where its file is damaged.
    """
    path, which = outcome.folder / OUTCOMES, outcome.average or "model"
    if outcome.result["status"] == DAMAGED:
        raise InputError(outcome.result["message"])
    known = outcome.result.get("files", {}).get(OUTCOMES)
    if known is None:
        raise InputError(
            f"{outcome.folder} has no {OUTCOMES}: the trial {_why(outcome)}, so that single images, and probabilities "
            "other than the ones that were counted, are not known"
        )
    integrity.verify(path, known)
    found = _tables(path).get(which)
    if found is None:
        raise InputError(f"{path} has nothing of {which}: that part of the run was made by an earlier version")
    return found


def _why(outcome: Outcome) -> str:
    if outcome.result["status"] != "finished":
        return f"has {outcome.result['status']}"
    return "was run by a version that kept no outcomes (to run it again takes another output folder)"


def _tables(path: Path) -> dict[str, dict[str, dict[str, Seen]]]:
    tables: dict[str, dict[str, dict[str, Seen]]] = {}
    try:
        with np.load(path, allow_pickle=False) as file:
            about = json.loads(file["about"].tobytes())
            if about["format"] != FORMAT:
                raise InputError(f"{path} is of a later version of domainwise than this: read it with that version")
            names: dict[int, list[str]] = {}
            for name in file.files:
                if name != "about":
                    names.setdefault(int(name.partition(".")[0]), []).append(name)
            for number, (which, domain, part) in enumerate(about["parts"]):
                columns = {name.partition(".")[2]: file[name] for name in names[number]}
                tables.setdefault(which, {}).setdefault(domain, {})[part] = _seen(about["classes"], columns)
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise integrity.Damaged(path, f"is damaged: it holds no outcomes ({error})") from error
    return tables


def _seen(classes: int, columns: dict[str, Numbers]) -> Seen:
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1 or columns["logits"].ndim != 2 or not {"index", "label"} <= columns.keys():
        raise ValueError("its columns differ in length")
    if (columns["label"] >= classes).any() or ("top" not in columns and columns["logits"].shape[1] != classes):
        raise ValueError(f"its columns are not of {classes} classes")
    return Seen(classes, columns)
