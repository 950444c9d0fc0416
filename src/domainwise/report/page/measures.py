"""Everything beside accuracy that a result says, in one table over all targets and seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import fmean
from typing import Any

import numpy as np

from domainwise.experiment.results import Outcome
from domainwise.report.drawing.matplotlib_svg import FAMILY, Panel
from domainwise.report.grid import Grid, Group, accuracy
from domainwise.report.page.classes import Numbers, Tallies

COLUMNS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro F1",
    "calibration_error": "calibration error",
    "worst": "worst unseen domain",
}


@dataclass(frozen=True)
class Measured:
    """Means over the targets of the means over seeds, in the order of ``COLUMNS``; and which unseen domain is worst."""

    algorithm: str
    values: Sequence[float | None]
    worst: str
    often: str  # "in 2 of 3 seeds"


def measured(grid: Grid) -> list[Measured]:
    """Of the algorithms with a trial whose result has them; results of other programs have accuracies alone."""
    finished = {name: _finished(groups) for name, groups in grid.items()}
    return [
        _row(name, groups)
        for name, groups in finished.items()
        if any(len(_numbers(one)) > 1 for group in groups.values() for one in group.values())
    ]


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
    """None where a target has nothing to say: a mean over the others would be of something else than its neighbours."""
    known = [[value for value in column if value is not None] for column in columns]
    return fmean(map(fmean, known)) if all(known) else None


def _unseen(groups: Mapping[str, Group]) -> dict[str, dict[int, float]]:
    """The accuracy on every domain held out, by seed."""
    found: dict[str, dict[int, float]] = {}
    for column, group in groups.items():
        for seed, one in group.items():
            for name, value in one.selected["targets"].items():
                domain = column if len(one.trial.targets) == 1 else f"{name} of {column}"
                found.setdefault(domain, {})[seed] = value
    return found


WIDTH, HEIGHT, LEFT, BOTTOM = 120, 120, 26, 22  # of a diagram and its margins


def calibration(found: Tallies) -> dict[str, list[float | None]]:
    """Expected calibration error of every algorithm: mean over seeds on each target, then the mean over the targets."""
    rows: dict[str, list[float | None]] = {}
    for name, groups in found.items():
        row = [fmean(one.calibration_error for one in seeds) if seeds else None for seeds in groups.values()]
        known = [value for value in row if value is not None]
        if known:
            rows[name] = [*row, fmean(known) if len(known) == len(row) else None]
    return rows


def diagrams(found: Tallies) -> list[Panel]:
    """For every algorithm, over all its targets and seeds: accuracy against confidence."""
    sums = {name: [one.bins for seeds in groups.values() for one in seeds] for name, groups in found.items()}
    return [
        Panel(name, _diagram(np.sum(bins, 0), f"Accuracy of {name} against its confidence"))
        for name, bins in sums.items()
        if bins
    ]


def _diagram(bins: Numbers, described: str) -> str:
    """A dot for every bin, its area the share of images in it; above the diagonal is modest, below it overconfident."""
    count, confidence, correct = bins
    points = [
        (LEFT + WIDTH * c / n, HEIGHT - HEIGHT * r / n, 1.2 + 9 * (n / count.sum()) ** 0.5)
        for n, c, r in zip(count, confidence, correct, strict=True)
        if n
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}"/>' for x, y, r in points)
    ticks = "".join(
        f'<text x="{LEFT + WIDTH * share:g}" y="{HEIGHT + 12}" text-anchor="middle">{100 * share:g}</text>'
        f'<text x="{LEFT - 5}" y="{HEIGHT - HEIGHT * share + 3:g}" text-anchor="end">{100 * share:g}</text>'
        for share in (0, 0.5, 1)
    )
    return (
        f'<svg viewBox="0 -6 {LEFT + WIDTH + 12} {HEIGHT + BOTTOM}" role="img" aria-label="{escape(described)}" '
        f'xmlns="http://www.w3.org/2000/svg" font-family="{FAMILY}" font-size="9" fill="currentColor">'
        f'<path d="M{LEFT} {HEIGHT}V0M{LEFT} {HEIGHT}h{WIDTH}M{LEFT} {HEIGHT}L{LEFT + WIDTH} 0" fill="none" '
        'stroke="currentColor" stroke-opacity=".3" stroke-width=".8"/>'
        f'<g class="reliability"><polyline points="{line}"/>{dots}</g>{ticks}</svg>'
    )
