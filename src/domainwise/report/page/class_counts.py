"""What the selected models made of every class, from the counts that trials leave beside their results."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from domainwise.errors import warn
from domainwise.experiment import integrity
from domainwise.experiment.metrics import whole
from domainwise.experiment.results import Outcome
from domainwise.report.grid import Grid, accuracy

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Tally:
    """Over what the targets were tested on. ``confusion[i, j]``: images of class i that were taken for class j."""

    confusion: Numbers  # (classes, classes)
    bins: Numbers  # (3, bins): images in each bin of confidence, the sum of their confidences, how many were right

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.confusion + other.confusion, self.bins + other.bins)

    @cached_property
    def shares(self) -> Numbers:
        """``confusion`` as shares of the images of each class; nan for a class that has none."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.confusion / self.confusion.sum(1, keepdims=True))

    @property
    def calibration_error(self) -> float:
        count, confidence, correct = self.bins
        return float(np.abs(confidence - correct).sum() / count.sum())


Tallies = Mapping[str, Mapping[str, Sequence[Tally]]]  # algorithm -> target -> its seeds


def tallies(grid: Grid) -> Tallies:
    """Of the trials that have counts; those read from other programs' files have none."""
    files: dict[Path, dict[str, Any]] = {}
    return {
        name: {
            target: [found for one in group.values() if (found := _tally(one, files)) is not None]
            for target, group in groups.items()
        }
        for name, groups in grid.items()
    }


def _tally(outcome: Outcome, files: dict[Path, dict[str, Any]]) -> Tally | None:
    if outcome.folder not in files:
        files[outcome.folder] = _read(outcome.folder / "counts.json")
    counts = files[outcome.folder]
    domains: dict[str, Any] = counts.get(outcome.average or "model", {})
    if accuracy(outcome) is None:
        return None
    held = [domains[name] for name in outcome.trial.targets if name in domains]
    parts = [one[part] for one in held for part in (one if outcome.trial.test == "all" else ("main",))]
    found = [_of_part(part) for part in parts if "confusion" in part]
    return sum(found[1:], found[0]) if found else None


def _of_part(part: Mapping[str, Any]) -> Tally:
    bins = [part["calibration"][row] for row in ("count", "confidence", "correct")]
    return Tally(whole(part["confusion"]).astype(float), np.asarray(bins, float))


def pooled(seeds: Sequence[Tally]) -> Tally | None:
    return sum(seeds[1:], seeds[0]) if seeds else None


def class_names(grid: Grid, found: Tallies, target: str) -> list[str]:
    """As the folder of the trials or a saved model knows them, otherwise numbers."""
    many = max((len(one.confusion) for groups in found.values() for one in groups[target]), default=0)
    for outcome in (one for groups in grid.values() for one in groups[target].values()):
        home = outcome.folder
        told = _read(home.parent.parent / "domainwise.json").get("classes")
        known = told.get(outcome.trial.data) if isinstance(told, dict) else None
        names = known or _read(home / "best" / "config.json").get("classes", [])
        if isinstance(names, list) and len(names) == many:
            return [str(name) for name in names]
    return [str(number) for number in range(many)]


def _read(file: Path) -> dict[str, Any]:
    """Read what a file holds; nothing where there is none, or, said, where it is damaged."""
    if not os.path.lexists(file):
        return {}
    try:
        return integrity.read(file)
    except integrity.Damaged as error:
        warn(f"{error}: the report does without")
        return {}
