"""Everything beside accuracy that a result says, in one table over all targets and seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from domainwise.report.grid import Grid, Group, accuracy
from domainwise.results import Outcome

COLUMNS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro F1",
    "calibration_error": "calibration error",
    "worst_accuracy": "worst domain",
}


@dataclass(frozen=True)
class Measured:
    """Means over targets and seeds, in the order of ``COLUMNS``; and the domain that was the worst most often."""

    algorithm: str
    values: Sequence[float | None]
    worst: str
    often: str  # "4 of 18"


def measured(grid: Grid) -> list[Measured]:
    """Of the algorithms with a trial whose result has them; results of other programs have accuracies alone."""
    rows = [(name, [_numbers(one) for one in _finished(groups)]) for name, groups in grid.items()]
    return [_row(name, found) for name, found in rows if any(len(one) > 1 for one in found)]


def _finished(groups: Mapping[str, Group]) -> list[Outcome]:
    return [one for group in groups.values() for one in group.values() if accuracy(one) is not None]


def _numbers(outcome: Outcome) -> dict[str, Any]:
    return {"accuracy": accuracy(outcome), **(outcome.result["selected"].get("measures") or {})}


def _row(name: str, found: Sequence[Mapping[str, Any]]) -> Measured:
    values = [[one[key] for one in found if one.get(key) is not None] for key in COLUMNS]
    named = [str(one["worst_domain"]) for one in found if "worst_domain" in one]
    # the first by name of those that are equally often the worst: the order of trials must not matter
    worst, times = min(Counter(named).items(), key=lambda one: (-one[1], one[0]), default=("", 0))
    return Measured(name, [fmean(some) if some else None for some in values], worst, f"{times} of {len(named)}")
