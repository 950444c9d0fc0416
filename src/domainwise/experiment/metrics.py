"""Compute measures from stored counts alone, so that a report needs neither the model nor torch.

``confusion[i][j]`` is how many images of class i were predicted to be of class j; of more than 50 classes only what is
not zero is kept, as {"classes": 1000, "true": [i, ...], "predicted": [j, ...], "images": [n, ...]}, which :func:`whole`
makes a table again. ``calibration`` has, for each of 15 equally wide bins of confidence, how many images fell into it,
the sum of their confidences and how many were right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from domainwise.errors import InputError, closest
from domainwise.experiment.records import Calibration, Confusion, Scores
from domainwise.user_files import OWN, function_of, name_of

BINS = 15

MANY = 50  # classes of which a whole table, mostly zeros, would be long

Numbers = npt.NDArray[np.int64]
Shares = npt.NDArray[np.floating]


def kept(table: Numbers) -> Confusion:
    """Return a confusion table in the form in which it is kept."""
    if len(table) <= MANY:
        return table.tolist()  # type: ignore[no-any-return]
    true, predicted = np.nonzero(table)
    cells = {"true": true, "predicted": predicted, "images": table[true, predicted]}
    return {"classes": len(table), **{name: numbers.tolist() for name, numbers in cells.items()}}


def whole(confusion: Confusion) -> Numbers:
    """Return the whole confusion table from the form in which it was kept."""
    if not isinstance(confusion, Mapping):
        return np.asarray(confusion, np.int64)
    table = np.zeros((confusion["classes"],) * 2, np.int64)
    table[confusion["true"], confusion["predicted"]] = confusion["images"]
    return table


def _right_true_predicted(confusion: Confusion) -> tuple[Numbers, Numbers, Numbers]:
    """How many images of every class were recognised, how many there are, and how many were taken for it."""
    table = whole(confusion)
    return np.diag(table), table.sum(1), table.sum(0)


def accuracy(confusion: Confusion) -> float:
    right, true, _ = _right_true_predicted(confusion)
    return float(right.sum() / true.sum())


def balanced_accuracy(confusion: Confusion) -> float:
    """Return the mean, over the classes that occur, of the share of their images that was recognised."""
    right, true, _ = _right_true_predicted(confusion)
    return float(np.mean(right[true > 0] / true[true > 0]))


def macro_f1(confusion: Confusion) -> float:
    """Return the mean F1 over the classes that occur or are predicted."""
    right, true, predicted = _right_true_predicted(confusion)
    involved = true + predicted
    return float(np.mean(2 * right[involved > 0] / involved[involved > 0]))


def calibration_error(calibration: Calibration) -> float:
    """Return the expected calibration error: how far confidence is from accuracy, averaged over images."""
    confidence, correct = np.asarray(calibration["confidence"]), np.asarray(calibration["correct"])
    return float(np.abs(confidence - correct).sum() / np.sum(calibration["count"]))


def per_class(confusion: Confusion) -> list[tuple[float | None, float | None, float]]:
    """Return recall, precision and F1 of every class: None where it has no image, or nothing is taken for it."""
    right, true, predicted = _right_true_predicted(confusion)
    return [
        (r / t if t else None, r / p if p else None, 2 * r / (t + p) if t + p else 0.0)
        for r, t, p in zip(right.tolist(), true.tolist(), predicted.tolist(), strict=True)
    ]


def counted(labels: Numbers, probabilities: Shares) -> Scores:
    """Return the scores of images with their counts, from their labels and the probabilities of every class."""
    classes = probabilities.shape[1]
    confidence, predicted = probabilities.max(1), probabilities.argmax(1)
    right = predicted == labels
    confusion = np.bincount(labels * classes + predicted, minlength=classes * classes).reshape(classes, classes)
    bins = np.clip((confidence * BINS).astype(np.int64), 0, BINS - 1)
    sums = {"count": None, "confidence": confidence, "correct": right}
    calibration = {name: np.bincount(bins, weights, BINS).tolist() for name, weights in sums.items()}
    true = np.maximum(probabilities[np.arange(len(labels)), labels], np.finfo(np.float32).tiny)
    return {
        "accuracy": float(right.mean()),
        "loss": float(-np.log(true).mean()),
        "count": len(labels),
        "confusion": kept(confusion),
        "calibration": calibration,
    }


def interval(share: float, count: int, z: float = 1.96) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share that was counted: images drawn anew would hardly leave it."""
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    reach = z / (1 + z * z / count) * (share * (1 - share) / count + (z / (2 * count)) ** 2) ** 0.5
    return max(0.0, middle - reach), min(1.0, middle + reach)


def auroc(labels: Numbers, probabilities: Shares) -> float:
    """Return the area under the ROC curve, mean over the classes that occur, each against the rest; nan of one class.

    It is how probably an image of the class is given a higher probability of it than an image of another.
    """
    areas = [_area(labels == c, probabilities[:, c]) for c in np.unique(labels)]
    return float(np.mean(areas))


def _area(own: npt.NDArray[np.bool_], shares: Shares) -> float:
    """Return the share of pairs in which the own image has more; of equal ones half counts."""
    values, at = np.unique(shares, return_inverse=True)
    ours, others = (np.bincount(at[rows], minlength=len(values)) for rows in (own, ~own))
    pairs = int(ours.sum()) * int(others.sum())
    return float((ours * (np.cumsum(others) - others / 2)).sum() / pairs) if pairs else float("nan")


class Metric(NamedTuple):
    """One number of some images: its name in tables, and how it follows from labels and probabilities."""

    title: str
    of: Callable[[Numbers, Shares], float]


def _counting(measure: Callable[[Confusion], float]) -> Callable[[Numbers, Shares], float]:
    return lambda labels, probabilities: measure(counted(labels, probabilities)["confusion"])


METRICS = {
    "accuracy": Metric("accuracy", _counting(accuracy)),
    "balanced_accuracy": Metric("balanced accuracy", _counting(balanced_accuracy)),
    "macro_f1": Metric("macro F1", _counting(macro_f1)),
    "auroc": Metric("AUROC", auroc),
}


def metric(name: str, source: str = "") -> Metric:
    """Return a metric by its name, or one of somebody's own by its place: ``my_metric.py:score``.

    That is a function of labels (N,) and probabilities (N, classes) that returns a number, larger where it is better.
    With ``source`` its file must have that hash.
    """
    if name in METRICS:
        return METRICS[name]
    written = OWN.fullmatch(name)
    if not written:
        raise InputError(f'there is no metric "{name}": {closest(name, METRICS)}; one of your own is FILE.py:FUNCTION')
    if not Path(written["file"]).is_file():
        raise InputError(f'the metric "{name}" is in no file: there is no {written["file"]}')
    title = name_of(written)
    return Metric(title, partial(_checked, function_of(written, source), title))


def measured(one: Metric, labels: Numbers, probabilities: Shares, where: str) -> float:
    """Return a metric of some images; where it has none, say where that was."""
    try:
        value = one.of(labels, probabilities)
        if math.isnan(value):
            raise InputError(f"{one.title} is not defined for images of one class")
    except InputError as error:
        raise InputError(f"{error}, {where}") from error
    return value


def _checked(score: Callable[..., Any], name: str, labels: Numbers, probabilities: Shares) -> float:
    """Return what somebody's own metric gives, if that is a number."""
    try:
        value = float(score(labels.copy(), probabilities.copy()))
    except Exception as error:
        raise InputError(f"the metric {name} raised {type(error).__name__}: {error}") from error
    if not math.isfinite(value):
        raise InputError(f"the metric {name} gave {value} for {len(labels):,} labels: let it give a finite number")
    return value


def measures(part: Scores) -> dict[str, float]:
    """Return every measure of an evaluated part of a domain."""
    found: dict[str, float] = {"accuracy": part["accuracy"], "loss": part["loss"]}
    if "confusion" in part:
        found["balanced_accuracy"] = balanced_accuracy(part["confusion"])
        found["macro_f1"] = macro_f1(part["confusion"])
        found["calibration_error"] = calibration_error(part["calibration"])
    return found


def tested(parts: Mapping[str, Scores], test: str) -> Scores:
    """Return the part of a target that it is tested on: "main", or "all", which is its parts as one."""
    if test == "main":
        return parts["main"]
    found = list(parts.values())
    count = sum(part["count"] for part in found)
    scores: Scores = {
        "accuracy": sum(part["accuracy"] * part["count"] for part in found) / count,
        "loss": sum(part["loss"] * part["count"] for part in found) / count,
        "count": count,
    }
    if any("confusion" not in part for part in found):
        return scores
    bins = {key: np.sum([part["calibration"][key] for part in found], 0) for key in found[0]["calibration"]}
    confusion = np.sum([whole(part["confusion"]) for part in found], 0)
    return {**scores, "confusion": confusion, "calibration": bins}


def worst(parts: Mapping[str, Scores]) -> tuple[str, float]:
    """Return the domain with the lowest accuracy, and that accuracy."""
    name = min(parts, key=lambda domain: parts[domain]["accuracy"])
    return name, parts[name]["accuracy"]
