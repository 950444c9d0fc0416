"""Show which classes the selected models recognise, and which they take for each other, as trials counted."""

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
    """Counts over what the targets were tested on; ``confusion[i, j]`` are images of class i taken for class j."""

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
    """Return the counts of the trials that have them; those read from other programs' files have none."""
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
    found = [tally_of(part) for part in parts if "confusion" in part]
    return sum(found[1:], found[0]) if found else None


def tally_of(part: Mapping[str, Any]) -> Tally:
    """Return the counts of one evaluated part of a domain."""
    bins = [part["calibration"][row] for row in ("count", "confidence", "correct")]
    return Tally(whole(part["confusion"]).astype(float), np.asarray(bins, float))


def pooled(seeds: Sequence[Tally]) -> Tally | None:
    return sum(seeds[1:], seeds[0]) if seeds else None


def class_names(grid: Grid, found: Tallies, target: str) -> list[str]:
    """Return the names that the folder of the trials or a saved model knows, otherwise numbers."""
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


MOST = 20  # classes that a table or a matrix has room for
PAIRS = 12


@dataclass(frozen=True)
class Heat:
    """A table of shares to be coloured; a cell is None where there is nothing to say."""

    columns: Sequence[str]
    rows: Mapping[str, Sequence[float | None]]
    left_out: int = 0  # columns


@dataclass(frozen=True)
class Matrix:
    """The confusion of one algorithm as a table: a row for what an image is, a column for what it is taken for."""

    algorithm: str
    classes: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Share]]]


@dataclass(frozen=True)
class Share:
    """One cell of a matrix: the share of its row, as a number and as words to hover over."""

    percent: str
    told: str
    right: bool


def recognised(found: Tallies, names: Mapping[str, Sequence[str]]) -> dict[str, Heat]:
    """Return for every target the share of each class that each algorithm recognises, mean over seeds.

    Of many classes only the hardest, those with the lowest mean over the algorithms.
    """
    heats = {}
    for target, classes in names.items():
        rows = {name: _mean([np.diag(one.shares) for one in groups[target]]) for name, groups in found.items()}
        known = {name: row for name, row in rows.items() if row is not None}
        if known:
            shown = _lowest(_mean(list(known.values())), MOST)
            heats[target] = Heat([classes[i] for i in shown], _picked(known, shown), len(classes) - len(shown))
    return heats


def confused(found: Tallies, names: Mapping[str, Sequence[str]]) -> dict[str, Heat]:
    """Return for every target with too many classes for a matrix the pairs confused most, in shares of the first."""
    heats = {}
    for target, classes in names.items():
        rows = {name: _mean([one.shares for one in groups[target]]) for name, groups in found.items()}
        known = {name: _apart(row).ravel() for name, row in rows.items() if row is not None}
        if known and len(classes) > MOST:
            shown = _lowest(-np.asarray(_mean(list(known.values()))), PAIRS)
            pairs = [f"{classes[i // len(classes)]} → {classes[i % len(classes)]}" for i in shown]
            heats[target] = Heat(pairs, _picked(known, shown), len(known))
    return heats


def matrices(found: Tallies, names: Mapping[str, Sequence[str]]) -> dict[str, list[Matrix]]:
    """Return for every target with few enough classes a confusion matrix per algorithm, over all seeds together."""
    drawn = {}
    for target, classes in names.items():
        sums = {name: pooled(groups[target]) for name, groups in found.items()}
        made = [matrix(name, one, classes) for name, one in sums.items() if one is not None]
        if made and len(classes) <= MOST:
            drawn[target] = made
    return drawn


def _mean(rows: Sequence[Numbers]) -> Numbers | None:
    """Return the mean without the classes that a seed has no image of; nan where no seed has one."""
    if not rows:
        return None
    stacked = np.stack(rows)
    known = (~np.isnan(stacked)).sum(0)
    return np.where(known > 0, np.nansum(stacked, 0) / np.maximum(known, 1), np.nan)


def _apart(shares: Numbers) -> Numbers:
    """Return the shares that went wrong, with zeros on the diagonal."""
    return np.where(np.eye(len(shares), dtype=bool), 0.0, shares)


def _lowest(values: Numbers | None, most: int) -> list[int]:
    """Return the positions of the lowest values, in their own order if all of them are shown."""
    assert values is not None
    if len(values) <= most:
        return list(range(len(values)))
    order = np.argsort(np.where(np.isnan(values), np.inf, values), kind="stable")
    return [int(i) for i in order[:most]]


def _picked(rows: Mapping[str, Numbers], shown: Sequence[int]) -> dict[str, list[float | None]]:
    return {name: [None if np.isnan(row[i]) else float(row[i]) for i in shown] for name, row in rows.items()}


def matrix(algorithm: str, one: Tally, classes: Sequence[str]) -> Matrix:
    """Return the confusion that was counted as a table of shares."""
    rows = [(name, [_share(one, classes, i, j) for j in range(len(classes))]) for i, name in enumerate(classes)]
    return Matrix(algorithm, classes, rows)


def _share(one: Tally, classes: Sequence[str], i: int, j: int) -> Share:
    count, images = one.confusion[i, j], one.confusion[i].sum()
    if not images:
        return Share("", f"no image of {classes[i]}", i == j)
    verdict = "recognised" if i == j else f"taken for {classes[j]}"
    told = f"{count:.0f} of {images:.0f} images of {classes[i]} {verdict} ({100 * count / images:.1f} %)"
    return Share(f"{100 * count / images:.0f}", told, i == j)
