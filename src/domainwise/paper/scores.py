"""The accuracies of a row, at the selected step and at others, and the table cells made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean, pstdev, stdev
from typing import Any

from domainwise.experiment.results import Outcome
from domainwise.experiment.selection import target_accuracy
from domainwise.paper.columns import Column, Target
from domainwise.paper.rows import Row, belongs
from domainwise.report.formats import Cell
from domainwise.report.grid import accuracy
from domainwise.report.statistics import standard_error

VIEWS = {
    "selected": "at the step chosen on the source domains",
    "last": "at the last evaluation",
    "late": "mean over the evaluations of the last two thirds of training",
}
ERRORS = {
    "standard-error": "the standard error",
    "deviation": "the standard deviation",
    "domainbed": "the population standard deviation over the root of their number, as DomainBed prints it,",
}
Score = Mapping[str, float | None]  # by view; None for a trial that diverged or failed
Scores = Mapping[Target, Mapping[int, Score]]  # by seed


def scores(row: Row, outcomes: Sequence[Outcome], given: Mapping[str, Any]) -> Scores:
    """Return the accuracies of all trials that belong to a row and have one target."""
    by_target: dict[Target, dict[int, Score]] = {}
    for outcome in outcomes:
        trial = outcome.trial
        if len(trial.targets) == 1 and belongs(row, outcome, given):
            by_seed = by_target.setdefault((trial.data, trial.targets[0]), {})
            # One run may have several averages of one name: the row's own counts, else the first one listed.
            if trial.seed not in by_seed or outcome.average == row.average:
                by_seed[trial.seed] = _score(outcome)
    return by_target


def _score(outcome: Outcome) -> Score:
    selected = accuracy(outcome)
    last = outcome.last.get("target")
    if selected is None:
        return dict.fromkeys(VIEWS)
    return {"selected": selected, "last": last, "late": None if outcome.averaged else _late(outcome)}


def _late(outcome: Outcome) -> float | None:
    """One step is noise of several points; the mean over many says more about a method, and selects nothing."""
    trial = outcome.trial
    late = [record for record in outcome.records() if 3 * record["step"] >= trial.steps]
    return fmean(target_accuracy(record, trial.targets, trial.test) for record in late) if late else None


def cell(measured: Scores, column: Column, view: str, error: str) -> Cell:
    """Return the mean over a column's targets, data set by data set; its error is over the seeds they all have."""
    groups = [{t: _values(measured[t], view) for t in group if t in measured} for group in column.groups]
    trials = sum(len(measured[target]) for group in groups for target in group)
    if not trials:
        return Cell(note="not run")
    kept = [[values for values in group.values() if values] for group in groups]
    lost = sum(score["selected"] is None for group in groups for t in group for score in measured[t].values())
    if not all(kept):
        return Cell(note=_lost(lost, trials), lost=lost)
    seeds = sorted(set.intersection(*(set(values) for group in kept for values in group)))
    values = {seed: fmean(fmean(each[seed] for each in group) for group in kept) for seed in seeds}
    mean = fmean(fmean(fmean(each.values()) for each in group) for group in kept)
    note = _lost(lost, trials) or _missing(sum(map(len, kept)), sum(map(len, column.groups)))
    return Cell(mean, _error(list(values.values()), error), len(values), values, note, lost=lost)


def _values(by_seed: Mapping[int, Score], view: str) -> dict[int, float]:
    return {seed: value for seed, score in by_seed.items() if (value := score[view]) is not None}


def _error(values: Sequence[float], which: str) -> float | None:
    if len(values) < 2 or which == "standard-error":
        return standard_error(values)
    return pstdev(values) / sqrt(len(values)) if which == "domainbed" else stdev(values)


def _lost(lost: int, trials: int) -> str:
    return f"{lost} of {trials} failed or diverged" if lost else ""


def _missing(here: int, all_of_them: int) -> str:
    return f"{here} of {all_of_them} targets" if here < all_of_them else ""


def paired(one: Scores, other: Scores, column: Column, view: str) -> list[float]:
    """Return the differences between trials with the same target and the same seed."""
    both = [(one[t], other[t]) for group in column.groups for t in group if t in one and t in other]
    pairs = [(_values(a, view), _values(b, view)) for a, b in both]
    return [a[seed] - b[seed] for a, b in pairs for seed in sorted(a.keys() & b.keys())]
