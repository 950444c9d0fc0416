"""Show other metrics than accuracy over all targets and seeds, and whether confidences can be believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from domainwise.experiment.results import Outcome
from domainwise.report.grid import Grid, Group, accuracy
from domainwise.report.matplotlib_svg import Panel
from domainwise.report.page.classes import Numbers, Tallies
from domainwise.report.statistics import shown
from domainwise.report.svg_chart import Mark, curves

COLUMNS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro F1",
    "calibration_error": "calibration error",
    "worst": "worst target",
}


@dataclass(frozen=True)
class Section:
    """A table of numbers on the page, with what they are and what they say."""

    id: str
    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[tuple[str, str]]]]  # an algorithm and its cells: a number and a remark
    sentences: Sequence[str] = ()


@dataclass(frozen=True)
class Measured:
    """Means over the targets of the means over seeds, in the order of ``COLUMNS``; and which target is worst."""

    algorithm: str
    values: Sequence[float | None]
    worst: str
    often: str  # "in 2 of 3 seeds"


def measured(grid: Grid) -> list[Measured]:
    """Return the algorithms with a trial whose result has them; results of other programs have accuracies alone."""
    finished = {name: _finished(groups) for name, groups in grid.items()}
    return [
        _row(name, groups)
        for name, groups in finished.items()
        if any(len(_numbers(one)) > 1 for group in groups.values() for one in group.values())
    ]


def rows(grid: Grid) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the same as words: for every algorithm its numbers, each with a remark beside it."""
    return [(one.algorithm, [*((shown(value), "") for value in one.values), (one.worst, one.often)])
            for one in measured(grid)]  # fmt: skip


def _finished(groups: Mapping[str, Group]) -> dict[str, Group]:
    return {
        column: {seed: one for seed, one in group.items() if accuracy(one) is not None}
        for column, group in groups.items()
    }


def _numbers(outcome: Outcome) -> dict[str, Any]:
    return {**outcome.selected.get("measures", {}), "accuracy": accuracy(outcome)}


def _row(name: str, groups: Mapping[str, Group]) -> Measured:
    values = [_mean([[_numbers(one).get(key) for one in group.values()] for group in groups.values()])
              for key in list(COLUMNS)[:-1]]  # fmt: skip
    unseen = _unseen(groups)
    means = {domain: fmean(seeds.values()) for domain, seeds in unseen.items()}
    worst = min(means, key=lambda domain: (means[domain], domain), default="")
    whole = set.intersection(*(set(seeds) for seeds in unseen.values())) if unseen else set[int]()
    times = sum(min(unseen, key=lambda domain: (unseen[domain][seed], domain)) == worst for seed in whole)
    often = f"in {times} of {len(whole)} seeds" if len(unseen) > 1 and len(whole) > 1 else ""
    return Measured(name, [*values, means.get(worst)], worst, often)


def _mean(columns: Sequence[Sequence[float | None]]) -> float | None:
    """Return the mean over targets; None where one has nothing to say, as the others are not all there is."""
    known = [[value for value in column if value is not None] for column in columns]
    return fmean(map(fmean, known)) if all(known) else None


def _unseen(groups: Mapping[str, Group]) -> dict[str, dict[int, float]]:
    """Return the accuracy on every domain held out, by seed."""
    found: dict[str, dict[int, float]] = {}
    for column, group in groups.items():
        for seed, one in group.items():
            for name, value in one.selected["targets"].items():
                domain = column if len(one.trial.targets) == 1 else f"{name} of {column}"
                found.setdefault(domain, {})[seed] = value
    return found


ACCENT = "var(--accent)"


def calibration(found: Tallies) -> dict[str, list[float | None]]:
    """Return the calibration error of every algorithm: mean over seeds on each target, then over the targets."""
    rows: dict[str, list[float | None]] = {}
    for name, groups in found.items():
        row = [fmean(one.calibration_error for one in seeds) if seeds else None for seeds in groups.values()]
        known = [value for value in row if value is not None]
        if known:
            rows[name] = [*row, fmean(known) if len(known) == len(row) else None]
    return rows


def diagrams(found: Tallies) -> list[Panel]:
    """Draw accuracy against confidence for every algorithm, over all its targets and seeds."""
    sums = {name: [one.bins for seeds in groups.values() for one in seeds] for name, groups in found.items()}
    return [_diagram(name, np.sum(bins, 0)) for name, bins in sums.items() if bins]


def _diagram(name: str, bins: Numbers) -> Panel:
    """Draw a dot for every bin, its area the share of images in it; below the diagonal is overconfident."""
    places = [(100 * c / n, 100 * r / n, float(n / bins[0].sum())) for n, c, r in bins.T if n]
    dots = [Mark("dot", [(x, y)], ACCENT, size=2 + 16 * share**0.5, opacity=0.75) for x, y, share in places]
    even = Mark("line", [(0, 0), (100, 100)], "currentColor", size=0.8, opacity=0.3)
    line = Mark("line", [(x, y) for x, y, _ in places], ACCENT, size=1.2)
    return curves(name, f"Accuracy of {name} against its confidence", [even, line, *dots], "confidence, %")
