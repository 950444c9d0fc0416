"""Compute measures from stored counts alone, so that a report needs neither the model nor torch.

``confusion[i][j]`` is how many images of class i were predicted to be of class j; of more than 50 classes only what is
not zero is kept, as {"classes": 1000, "true": [i, ...], "predicted": [j, ...], "images": [n, ...]}, which :func:`whole`
makes a table again. ``calibration`` has, for each of 15 equally wide bins of confidence, how many images fell into it,
the sum of their confidences and how many were right.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from domainwise.experiment.records import Calibration, Confusion, Scores

BINS = 15

MANY = 50  # classes of which a whole table, mostly zeros, would be long

Numbers = npt.NDArray[np.int64]


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
