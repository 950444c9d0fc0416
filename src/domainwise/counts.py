"""Measures that come from stored counts alone, so that a report needs neither the model nor torch.

``confusion[i][j]`` is how many images of class i were predicted to be of class j. ``calibration`` has, for each of 15
equally wide bins of confidence, how many images fell into it, the sum of their confidences and how many were right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

BINS = 15

Confusion = Sequence[Sequence[int]]
Calibration = Mapping[str, Sequence[float]]


def accuracy(confusion: Confusion) -> float:
    table = np.asarray(confusion)
    return float(np.trace(table) / table.sum())


def balanced_accuracy(confusion: Confusion) -> float:
    """The mean, over the classes that occur, of the share of their images that was recognised."""
    table = np.asarray(confusion)
    occurring = table.sum(1) > 0
    return float(np.mean(np.diag(table)[occurring] / table.sum(1)[occurring]))


def macro_f1(confusion: Confusion) -> float:
    """The mean F1 over the classes that occur or are predicted."""
    table = np.asarray(confusion)
    involved = table.sum(0) + table.sum(1)
    return float(np.mean(2 * np.diag(table)[involved > 0] / involved[involved > 0]))


def calibration_error(calibration: Calibration) -> float:
    """Expected calibration error: how far confidence is from accuracy, averaged over images."""
    confidence, correct = np.asarray(calibration["confidence"]), np.asarray(calibration["correct"])
    return float(np.abs(confidence - correct).sum() / np.sum(calibration["count"]))


def measures(part: Mapping[str, Any]) -> dict[str, float]:
    """Everything that an evaluated part says, in numbers."""
    found: dict[str, float] = {"accuracy": part["accuracy"], "loss": part["loss"]}
    if "confusion" in part:
        found["balanced_accuracy"] = balanced_accuracy(part["confusion"])
        found["macro_f1"] = macro_f1(part["confusion"])
        found["calibration_error"] = calibration_error(part["calibration"])
    return found


def tested(parts: Mapping[str, Mapping[str, Any]], test: str) -> Mapping[str, Any]:
    """What a target is tested on: its "main" part, or "all" of it, its parts as one."""
    if test == "main":
        return parts["main"]
    found = list(parts.values())
    count = sum(part["count"] for part in found)
    whole = {key: sum(part[key] * part["count"] for part in found) / count for key in ("accuracy", "loss")}
    if any("confusion" not in part for part in found):
        return {**whole, "count": count}
    bins = {key: np.sum([part["calibration"][key] for part in found], 0) for key in found[0]["calibration"]}
    return {**whole, "count": count, "confusion": np.sum([part["confusion"] for part in found], 0), "calibration": bins}


def worst(parts: Mapping[str, Mapping[str, Any]], measure: str = "accuracy") -> tuple[str, float]:
    """The domain with the lowest value of a measure that is better the larger it is, and that value."""
    values = {name: measures(part)[measure] for name, part in parts.items()}
    name = min(values, key=lambda domain: values[domain])
    return name, values[name]
