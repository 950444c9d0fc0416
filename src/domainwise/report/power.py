"""Differences between the algorithms of a comparison, with intervals, and what its seeds could have shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from statistics import fmean
from typing import TYPE_CHECKING

from domainwise.errors import InputError, closest
from domainwise.experiment.results import Outcome
from domainwise.experiment.selection import target_accuracy, validation
from domainwise.report.grid import Grid, Group, arrange
from domainwise.report.statistics import Differences, Estimate, estimate, holm

if TYPE_CHECKING:
    import pandas as pd

LATE = 1 / 3  # the share of a training after which an evaluation counts as late
Window = tuple[int, int]


@dataclass(frozen=True)
class Statistic:
    """One number of a trial: how it is called, and what it is in words."""

    name: str
    words: str

    def of(self, outcome: Outcome, window: Window | None) -> float | None:
        """Return the trial's number in percent, or None where it has none."""
        result = outcome.result
        if result["status"] != "finished" or not outcome.trial.targets:
            return None
        if self.name == "steady":
            return _steady(outcome)
        if self.name in ("late", "window"):
            return _mean(outcome, window if self.name == "window" else None)
        beside = {name: models["last"] for name, models in result["averages"].items()}
        found = {"selected": result["selected"], "last": result["last"], **beside}.get(self.name)
        return None if found is None or found["target"] is None else 100 * found["target"]


def _mean(outcome: Outcome, window: Window | None) -> float | None:
    """The mean target accuracy over the evaluations in a window, or over those after the first third of training."""
    trial = outcome.trial
    low, high = window or (trial.steps * LATE, trial.steps)
    records = [record for record in outcome.records() if low <= record["step"] <= high]
    values = [100 * target_accuracy(record, trial.targets, trial.test) for record in records]
    return fmean(values) if values else None


NEAR = 0.01  # of validation accuracy: so near the best, an evaluation could as well have been selected


def _steady(outcome: Outcome) -> float | None:
    """The mean target accuracy over the evaluations that validate about as well as the selected one."""
    trial, selected = outcome.trial, outcome.selected
    best = selected.get("validation")
    records = outcome.records() if best is not None else []
    near = [record for record in records if validation(record, trial.targets) >= (best or 0.0) - NEAR]
    values = [100 * target_accuracy(record, trial.targets, trial.test) for record in near]
    found = selected.get("target")
    return fmean(values) if values else None if found is None else 100 * found


STEADY = Statistic("steady", "mean over the evaluations that validate within a point of the selected one")
SELECTED = Statistic("selected", "at the step chosen on the source domains")
LAST = Statistic("last", "at the last step")
LATE_MEAN = Statistic("late", "mean over the evaluations in the last two thirds of training")


@dataclass(frozen=True)
class Gap:
    """How far one algorithm is above another by one statistic, in percentage points."""

    algorithm: str
    baseline: str
    statistic: Statistic
    differences: Differences  # target -> seed -> difference
    lost: int  # pairs of which one trial has no number
    p: float | None = None  # corrected for the other claims; only of the statistic that leads

    @property
    def estimate(self) -> Estimate | None:
        return estimate(self.differences)

    @property
    def mean(self) -> float | None:
        found = [fmean(by_seed.values()) for by_seed in self.differences.values() if by_seed]
        return fmean(found) if found and len(found) == len(self.differences) else None


@dataclass(frozen=True)
class Power:
    """What a comparison tells about its algorithms: ``print`` it, or take ``frame()``.

    ``gaps`` has a row for each algorithm against the baseline by each statistic, those with the least noise first.
    Only the first statistic is tested; p is corrected by Holm's method for the number of algorithms.
    """

    gaps: tuple[Gap, ...]
    difference: float
    margin: float | None
    ended: int
    asked: int

    @property
    def complete(self) -> bool:
        return self.ended >= self.asked

    @property
    def leading(self) -> list[Gap]:
        """The rows of the statistic that leads."""
        return [gap for gap in self.gaps if gap.statistic == self.gaps[0].statistic]


def power_of(
    outcomes: Sequence[Outcome],
    *,
    difference: float = 1.0,
    baseline: str | None = None,
    window: Window | None = None,
    margin: float | None = None,
    asked: int = 0,
) -> Power:
    """Compare every algorithm with the baseline: "erm" where it is there, else the first.

    ``asked`` is how many trials there will be; before all have ended no p and no interval is computed.
    """
    _check(difference, window, margin)
    models = [outcome for outcome in outcomes if not outcome.averaged]
    grid = arrange(models)
    names = list(grid)
    if baseline is None:
        baseline = names[0] if names else ""
    elif baseline not in names:
        raise InputError(f'there is no algorithm "{baseline}" in these results: {closest(baseline, names)}')
    gaps = []
    for statistic in _statistics(models, window):
        numbers = {name: _numbers(groups, statistic, window) for name, groups in grid.items()}
        rows = [_gap(name, baseline, statistic, numbers) for name in names if name != baseline]
        gaps += [row for row in rows if row.mean is not None]
    ended = len(models)
    complete = ended >= asked
    return Power(tuple(_tested(gaps) if complete else gaps), difference, margin, ended, max(asked, ended))


def _statistics(outcomes: Sequence[Outcome], window: Window | None) -> list[Statistic]:
    """Those of low noise first: means over evaluations, averages of weights, then single evaluations."""
    averages = dict.fromkeys(name for one in outcomes for name in one.result["averages"])
    own = [Statistic("window", f"mean over the evaluations at updates {window[0]} to {window[1]}")] if window else []
    beside = [Statistic(name, f"averaged weights ({name}) at the end of training") for name in averages]
    return [*own, LATE_MEAN, *beside, LAST, SELECTED]


Numbers = Mapping[str, Mapping[int, float | None]]  # target -> seed -> the number of a trial


def _numbers(groups: Mapping[str, Group], statistic: Statistic, window: Window | None) -> Numbers:
    return {
        column: {seed: statistic.of(outcome, window) for seed, outcome in group.items()}
        for column, group in groups.items()
    }


def gap_of(grid: Grid, name: str, baseline: str, statistic: Statistic) -> Gap:
    """Compare two rows of a table by one statistic."""
    return _gap(name, baseline, statistic, {row: _numbers(grid[row], statistic, None) for row in (name, baseline)})


def _gap(name: str, baseline: str, statistic: Statistic, numbers: Mapping[str, Numbers]) -> Gap:
    differences: dict[str, dict[int, float]] = {}
    lost = 0
    for column, by_seed in numbers[name].items():
        differences[column] = {}
        for seed in sorted(by_seed.keys() & numbers[baseline][column].keys()):
            own, other = by_seed[seed], numbers[baseline][column][seed]
            if own is None or other is None:
                lost += 1
            else:
                differences[column][seed] = own - other
    return Gap(name, baseline, statistic, differences, lost)


def _tested(gaps: Sequence[Gap]) -> list[Gap]:
    """The same, those of the first statistic with a p that is corrected for their number."""
    claims = [(i, one.p) for i, gap in enumerate(gaps) if gap.statistic == gaps[0].statistic and (one := gap.estimate)]
    corrected = dict(zip([i for i, _ in claims], holm([p for _, p in claims]), strict=True))
    return [replace(gap, p=corrected.get(i)) for i, gap in enumerate(gaps)]


def _check(difference: float, window: Window | None, margin: float | None) -> None:
    if not (isfinite(difference) and difference > 0):
        raise InputError(f"difference is in percentage points, above 0, got {difference!r}")
    if margin is not None and not (isfinite(margin) and margin > 0):
        raise InputError(f"margin is in percentage points, above 0, got {margin!r}")
    if window is not None and not 0 <= window[0] <= window[1]:
        raise InputError(f"window is from one update to a later one, such as (400, 1000), got {window!r}")


def frame(power: Power) -> pd.DataFrame:
    """One row per algorithm and statistic, with everything that is known of the difference."""
    import pandas as pd

    return pd.DataFrame([_row(gap, power) for gap in power.gaps])


def _row(gap: Gap, power: Power) -> dict[str, object]:
    found: dict[str, object] = {
        "algorithm": gap.algorithm,
        "baseline": gap.baseline,
        "statistic": gap.statistic.name,
        "difference": gap.mean,
        "pairs": sum(map(len, gap.differences.values())),
        "lost": gap.lost,
    }
    one = gap.estimate if power.complete else None
    if one is None:
        return found
    seeds, least, most = one.seeds_for(power.difference)
    low, high = one.interval()
    return found | {
        "low": low,
        "high": high,
        "p": gap.p,
        "sd": one.sd,
        "df": one.df,
        "independent": one.independent,
        "detectable": one.detectable(),
        "seeds": seeds,
        "seeds_low": least,
        "seeds_high": most,
        **({} if power.margin is None else {"equivalent": one.within(power.margin)}),
    }
