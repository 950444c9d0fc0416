"""Everything beside accuracy that a result says, in one table over all targets and seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from domainwise.experiment.results import Outcome
from domainwise.report.grid import Grid, Group, accuracy

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
