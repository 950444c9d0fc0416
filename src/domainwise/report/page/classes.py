"""Which classes the selected models recognise, and which they take for each other, from what trials counted."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from domainwise.errors import warn
from domainwise.experiment import integrity
from domainwise.experiment.metrics import whole
from domainwise.experiment.results import Outcome
from domainwise.report.drawing.matplotlib_svg import FAMILY, Panel
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


MOST = 20  # classes that a table or a matrix has room for
PAIRS = 12


@dataclass(frozen=True)
class Heat:
    """A table of shares to be coloured; None where there is nothing to say."""

    columns: Sequence[str]
    rows: Mapping[str, Sequence[float | None]]
    left_out: int = 0  # columns


def recognised(found: Tallies, names: Mapping[str, Sequence[str]]) -> dict[str, Heat]:
    """For every target: the share of each class that each algorithm recognises, mean over seeds.

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
    """For every target with too many classes for a matrix: the pairs most often confused, in shares of the first."""
    heats = {}
    for target, classes in names.items():
        rows = {name: _mean([one.shares for one in groups[target]]) for name, groups in found.items()}
        known = {name: _apart(row).ravel() for name, row in rows.items() if row is not None}
        if known and len(classes) > MOST:
            shown = _lowest(-np.asarray(_mean(list(known.values()))), PAIRS)
            pairs = [f"{classes[i // len(classes)]} → {classes[i % len(classes)]}" for i in shown]
            heats[target] = Heat(pairs, _picked(known, shown), len(known))
    return heats


def matrices(found: Tallies, names: Mapping[str, Sequence[str]]) -> dict[str, list[Panel]]:
    """For every target with few enough classes: a confusion matrix per algorithm, over all seeds together."""
    drawn = {}
    for target, classes in names.items():
        sums = {name: pooled(groups[target]) for name, groups in found.items()}
        panels = [
            Panel(name, _matrix(one.shares, classes, f"Confusion of {name} on {target}"))
            for name, one in sums.items()
            if one is not None
        ]
        if panels and len(classes) <= MOST:
            drawn[target] = panels
    return drawn


def _mean(rows: Sequence[Numbers]) -> Numbers | None:
    """Without the classes that a seed has no image of; nan where no seed has one."""
    if not rows:
        return None
    stacked = np.stack(rows)
    known = (~np.isnan(stacked)).sum(0)
    return np.where(known > 0, np.nansum(stacked, 0) / np.maximum(known, 1), np.nan)


def _apart(shares: Numbers) -> Numbers:
    """What went wrong: without the diagonal."""
    return np.where(np.eye(len(shares), dtype=bool), 0.0, shares)


def _lowest(values: Numbers | None, most: int) -> list[int]:
    """Positions of the lowest values, in their own order if all of them are shown."""
    assert values is not None
    if len(values) <= most:
        return list(range(len(values)))
    order = np.argsort(np.where(np.isnan(values), np.inf, values), kind="stable")
    return [int(i) for i in order[:most]]


def _picked(rows: Mapping[str, Numbers], shown: Sequence[int]) -> dict[str, list[float | None]]:
    return {name: [None if np.isnan(row[i]) else float(row[i]) for i in shown] for name, row in rows.items()}


def _matrix(shares: Numbers, classes: Sequence[str], described: str) -> str:
    """One unit per class; row: what an image is, column: what it is taken for."""
    n = len(classes)
    words = [name if len(name) <= 9 else name[:8] + "…" for name in classes]
    size = 0.62 if n <= 12 else 0.8
    margin = 0.5 + 0.58 * size * max(map(len, words))
    # a power below one, so that rare errors show
    cells = "".join(
        f'<rect class="{"right" if i == j else "wrong"}" x="{j}" y="{i}" width="1" height="1" '
        f'fill-opacity="{share**0.7:.2f}"/>'
        for (i, j), share in np.ndenumerate(shares)
        if share >= 0.005  # nan is not either
    )
    rows = "".join(f'<text x="-.25" y="{i + 0.5:g}" text-anchor="end">{escape(w)}</text>' for i, w in enumerate(words))
    columns = "".join(
        f'<text transform="translate({j + 0.5:g} -.3) rotate(-90)">{escape(w)}</text>'
        if margin > 1.5
        else f'<text x="{j + 0.5:g}" y="-.45" text-anchor="middle">{escape(w)}</text>'
        for j, w in enumerate(words)
    )
    box = f"{-margin:.2f} {-margin:.2f} {n + margin + 0.1:.2f} {n + margin + 0.1:.2f}"
    return (
        f'<svg viewBox="{box}" role="img" aria-label="{escape(described)}" xmlns="http://www.w3.org/2000/svg" '
        f'font-family="{FAMILY}" font-size="{size}" fill="currentColor" dominant-baseline="central">'
        f'<rect width="{n}" height="{n}" fill="none" stroke="currentColor" stroke-opacity=".25" stroke-width=".05"/>'
        f"{cells}{rows}{columns}</svg>"
    )
