"""From trials to numbers: the accuracies of a row, at the selected step and beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean, pstdev, stdev
from typing import Any

from domainwise.experiment.results import Outcome
from domainwise.experiment.selection import target_accuracy
from domainwise.paper.columns import Column, Place
from domainwise.paper.rows import Row, belongs
from domainwise.report.grid import accuracy
from domainwise.report.spread import standard_error
from domainwise.report.tables import Cell

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
Score = Mapping[str, float | None]  # by view; None for a trial that came to no good end
Scores = Mapping[Place, Mapping[int, Score]]  # by seed


def scores(row: Row, outcomes: Sequence[Outcome], given: Mapping[str, Any]) -> Scores:
    """Of all trials that belong to a row and hold out one domain."""
    found: dict[Place, dict[int, Score]] = {}
    for outcome in outcomes:
        trial = outcome.trial
        if len(trial.targets) == 1 and belongs(row, outcome, given):
            by_seed = found.setdefault((trial.data, trial.targets[0]), {})
            # Beside one run there may be several averages of a kind: the row's own counts, else the one named first.
            if trial.seed not in by_seed or outcome.average == row.average:
                by_seed[trial.seed] = _score(outcome)
    return found


def _score(outcome: Outcome) -> Score:
    selected = accuracy(outcome)
    last = outcome.last.get("target")
    if selected is None:
        return dict.fromkeys(VIEWS)
    return {"selected": selected, "last": last, "late": None if outcome.averaged else _late(outcome)}


def _late(outcome: Outcome) -> float | None:
    """One step is noise of several points; the mean over many tells more of a method, and chooses nothing."""
    trial = outcome.trial
    late = [record for record in outcome.records() if 3 * record["step"] >= trial.steps]
    return fmean(target_accuracy(record, trial.targets, trial.test) for record in late) if late else None


def cell(found: Scores, column: Column, view: str, error: str) -> Cell:
    """Mean over a column's places, one set of data first; the error is over the seeds that all of them have."""
    groups = [{place: _values(found[place], view) for place in group if place in found} for group in column.groups]
    trials = sum(len(found[place]) for group in groups for place in group)
    if not trials:
        return Cell(note="not run")
    kept = [[values for values in group.values() if values] for group in groups]
    lost = sum(score["selected"] is None for group in groups for place in group for score in found[place].values())
    if not all(kept):
        return Cell(note=_lost(lost, trials), lost=lost)
    seeds = sorted(set.intersection(*(set(values) for group in kept for values in group)))
    values = {seed: fmean(fmean(each[seed] for each in group) for group in kept) for seed in seeds}
    mean = fmean(fmean(fmean(each.values()) for each in group) for group in kept)
    note = _lost(lost, trials) or _missing(sum(map(len, kept)), sum(map(len, column.groups)))
    return Cell(mean, _error(list(values.values()), error), len(values), values, note, lost=lost)


def _values(by_seed: Mapping[int, Score], view: str) -> dict[int, float]:
    return {seed: value for seed, score in by_seed.items() if (value := score[view]) is not None}


def _error(values: Sequence[float], kind: str) -> float | None:
    if len(values) < 2 or kind == "standard-error":
        return standard_error(values)
    return pstdev(values) / sqrt(len(values)) if kind == "domainbed" else stdev(values)


def _lost(lost: int, trials: int) -> str:
    return f"{lost} of {trials} failed or diverged" if lost else ""


def _missing(here: int, whole: int) -> str:
    return f"{here} of {whole} targets" if here < whole else ""


def paired(one: Scores, other: Scores, column: Column, view: str) -> list[float]:
    """Differences between trials with the same target and the same seed."""
    both = [(one[place], other[place]) for group in column.groups for place in group if place in one and place in other]
    pairs = [(_values(a, view), _values(b, view)) for a, b in both]
    return [a[seed] - b[seed] for a, b in pairs for seed in sorted(a.keys() & b.keys())]
