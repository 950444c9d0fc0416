"""Compare the algorithms of a study: differences with intervals, and what its seeds could have shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from statistics import fmean
from typing import TYPE_CHECKING

from domainwise.errors import InputError, closest, is_whole, legible, typed
from domainwise.experiment.results import Outcome
from domainwise.report.formats import text_table
from domainwise.report.grid import SELECTED, Numbers, Statistic, Window, arrange, numbers_of, statistics_of
from domainwise.report.results import Results
from domainwise.report.statistics import Differences, Estimate, estimate, holm, whole_seeds

if TYPE_CHECKING:
    import pandas as pd

NAMED = 4  # algorithms that a sentence tells one by one
SHOWN = {"above": "better", "below": "worse", "same": "the same within {}", "open": "nothing"}
FALSE = 0.05  # of what is claimed without being so


@dataclass(frozen=True)
class Gap:
    """How far one algorithm is above another by one statistic, in percentage points."""

    algorithm: str
    baseline: str
    statistic: Statistic
    differences: Differences  # target -> seed -> difference
    lost: int  # pairs of which one trial has no number
    p: float | None = None  # of no difference; corrected, and only of the statistic that leads
    p_same: float | None = None  # of a difference as large as the one that matters, likewise

    @property
    def estimate(self) -> Estimate | None:
        return estimate(self.differences)

    @property
    def mean(self) -> float | None:
        """Return the mean difference, every target counting the same; None where a target has no pair."""
        found = [fmean(by_seed.values()) for by_seed in self.differences.values() if by_seed]
        return fmean(found) if found and len(found) == len(self.differences) else None

    @property
    def pairs(self) -> int:
        return sum(map(len, self.differences.values()))

    @property
    def verdict(self) -> str:
        """Return what is shown: "above", "below", "same" (closer than the difference that matters), or "open"."""
        if self.p is not None and self.p < FALSE:
            return "above" if (self.mean or 0.0) > 0 else "below"
        return "same" if self.p_same is not None and self.p_same < FALSE else "open"


def gap_between(name: str, baseline: str, statistic: Statistic, numbers: Mapping[str, Numbers]) -> Gap:
    """Return the differences of two rows, paired by target and seed."""
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


@dataclass(frozen=True)
class Power:
    """Say what a comparison tells about its algorithms: ``print`` it, or take ``sentences``, ``gaps`` or ``frame()``.

    ``gaps`` has a row for each algorithm against the baseline by each statistic, those with the least noise first.
    Only the first statistic is tested; its p are corrected by Holm's method for all claims of the table.
    """

    gaps: tuple[Gap, ...]
    difference: float  # the smallest that matters, in points
    waiting: int = 0  # trials that were asked for and have not ended
    baseline: str = ""
    unpaired: tuple[str, ...] = ()  # algorithms that have no finished trial of the baseline's seeds on some target

    @property
    def leading(self) -> list[Gap]:
        """Return the rows of the statistic that leads."""
        return [gap for gap in self.gaps if gap.statistic == self.gaps[0].statistic]

    @property
    def sentences(self) -> list[str]:
        """Say what is shown, and what could have been, in plain words."""
        if self.waiting:
            many = f"{self.waiting} trial{'s have' if self.waiting > 1 else ' has'}"
            return [f"{many} not ended: algorithms are compared when all have."]
        apart = ", ".join(map(legible, self.unpaired))
        without = "for want of finished trials of the same seeds on every target"
        unpaired = [f"Not compared with {legible(self.baseline)}, {without}: {apart}."] if apart else []
        if not self.gaps:
            return unpaired
        known = [gap for gap in self.leading if gap.estimate]
        if not known:
            few = "So few pairs as have finished" if any(gap.lost for gap in self.leading) else "One seed"
            return [f"{few} cannot tell a difference from chance: run at least three.", *unpaired]
        return [_intervals(known), *_verdicts(known, self.difference), *self._reach(known), *unpaired]

    def _reach(self, known: Sequence[Gap]) -> list[str]:
        """Say what these seeds can find, and how many it takes for the difference that matters."""
        gap = max(known, key=lambda gap: found.detectable() if (found := gap.estimate) else 0.0)
        other = next(one for one in self.gaps if one.statistic == SELECTED and one.algorithm == gap.algorithm)
        one, selected = gap.estimate, other.estimate
        assert one is not None
        if not one.sd:
            return []  # the same difference in every trial, mostly none
        by_selected = f" ({selected.detectable():.1f} at the selected step alone)" if selected else ""
        needed, least, most = map(whole_seeds, one.seeds_for(self.difference))
        return [
            f"{round(one.seeds)} seeds find a true difference of {one.detectable():.1f} points{by_selected} in 80 of "
            f"100 studies; {points(self.difference)} takes about {needed} seeds ({least} to {most})."
        ]

    def frame(self) -> pd.DataFrame:
        """Return one row per algorithm and statistic, with everything that is known of the difference."""
        import pandas as pd

        return pd.DataFrame([_row(gap, self.difference) for gap in self.gaps])

    def __str__(self) -> str:
        parts = [" ".join(self.sentences), text_table(*self.table()) if self.gaps else ""]
        return "\n\n".join(part for part in parts if part) or "There are no two algorithms to compare."

    @property
    def method(self) -> str:
        """Say how the intervals come about."""
        found = next((one for gap in self.gaps if (one := gap.estimate)), None)
        if found is None:
            return ""
        if not found.independent:
            return "Means of whole seeds are compared, which is right whatever the targets of a seed have in common."
        return (
            "With so few seeds, the variance is taken within each target, degrees of freedom by Satterthwaite; the "
            "intervals are too narrow where the targets of a seed go up and down together."
        )

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the heads of the columns and the rows, as words."""
        head = ["algorithm", "statistic", "difference", "95 % interval", "p", "shown", "can find"]
        return [*head, f"seeds for {points(self.difference)}"], [_words(gap, self.difference) for gap in self.gaps]


def _intervals(known: Sequence[Gap]) -> str:
    named = sorted(known, key=lambda gap: gap.p or 0.0)[:NAMED]
    shown = ", ".join(f"{legible(gap.algorithm)} {_spread(gap)}" for gap in known if gap in named)
    more = f"; {len(known) - len(named)} others are in the report" if len(known) > len(named) else ""
    base, words = legible(known[0].baseline), known[0].statistic.words
    return f"Against {base}, by the {words}, in points with 95 % intervals: {shown}{more}."


def _spread(gap: Gap) -> str:
    found = gap.estimate
    assert found is not None
    low, high = found.interval()
    return f"{signed(found.mean)} ({signed(low)} to {signed(high)})"


def _verdicts(known: Sequence[Gap], difference: float) -> list[str]:
    """Write one sentence for all algorithms of which the same is shown."""
    base, apart = legible(known[0].baseline), " after correction for all claims" if len(known) > 1 else ""
    said = {
        "above": f"Better than {base}{apart}: {{}}.",
        "below": f"Worse than {base}{apart}: {{}}.",
        "same": f"Within {points(difference)} of {base}{apart}: {{}}.",
        "open": f"Not told apart from {base} by these seeds: {{}}.",
    }
    groups = {verdict: [legible(gap.algorithm) for gap in known if gap.verdict == verdict] for verdict in said}
    return [said[verdict].format(", ".join(names)) for verdict, names in groups.items() if names]


def signed(number: float) -> str:
    """Write a difference with its sign; what rounds to nothing has none."""
    text = f"{number:+.1f}"
    return "0.0" if float(text) == 0 else text


def points(number: float) -> str:
    """Write a number of percentage points."""
    return f"{number:g} point{'s' * (number != 1)}"


def _words(gap: Gap, difference: float) -> list[str]:
    one, mean = gap.estimate, gap.mean
    first = [gap.algorithm, gap.statistic.name, "" if mean is None else signed(mean)]
    if one is None:
        return [*first, *[""] * 5]
    low, high = one.interval()
    needed, least, most = map(whole_seeds, one.seeds_for(difference))
    claim = gap.p_same if gap.verdict == "same" else gap.p
    p = "" if claim is None else f"{claim:.3f}" if claim >= 0.001 else "<0.001"
    shown = SHOWN[gap.verdict].format(points(difference)) if p else ""
    seeds = f"{needed} ({least} to {most})"
    return [*first, f"{signed(low)} to {signed(high)}", p, shown, f"{one.detectable():.1f}", seeds]


def _row(gap: Gap, difference: float) -> dict[str, object]:
    found: dict[str, object] = {
        "algorithm": gap.algorithm,
        "baseline": gap.baseline,
        "statistic": gap.statistic.name,
        "difference": gap.mean,
        "pairs": gap.pairs,
        "lost": gap.lost,
    }
    if (one := gap.estimate) is None:
        return found
    (low, high), (needed, least, most) = one.interval(), one.seeds_for(difference)
    about = {"sd": one.sd, "df": one.df, "independent": one.independent, "detectable": one.detectable()}
    tested = {"p": gap.p, "p_same": gap.p_same, "verdict": gap.verdict if gap.p is not None else None}
    return {**found, "low": low, "high": high, **tested, **about, "seeds": needed, "seeds_low": least,
            "seeds_high": most}  # fmt: skip


@typed
def power(
    results: Results, difference: float = 1.0, *, baseline: str | None = None, window: Window | None = None
) -> Power:
    """Compare every algorithm with the baseline, and say what the seeds of a comparison can show.

    ``difference`` is the smallest that matters, in percentage points: how many seeds it takes to find it is told, and
    algorithms that are shown to be closer than that count as the same. ``baseline`` is "erm" where it was run, else the
    first row. ``window`` has the mean over the evaluations from one update to another lead, such as ``(400, 1000)``.
    """
    return power_of(results.outcomes, difference, baseline=baseline, window=window, waiting=results.waiting)


def power_of(
    outcomes: Sequence[Outcome],
    difference: float = 1.0,
    *,
    baseline: str | None = None,
    window: Window | None = None,
    waiting: int = 0,
) -> Power:
    """Compare the algorithms of outcomes as :func:`power` does; while trials are waited for, nothing is compared."""
    _check(difference, window)
    models = [outcome for outcome in outcomes if not outcome.averaged]
    grid = arrange(models)
    if baseline is None:
        baseline = next(iter(grid), "")
    elif baseline not in grid:
        raise InputError(f'there is no algorithm "{baseline}" in these results: {closest(baseline, grid)}')
    if waiting:
        return Power((), difference, waiting)
    numbers = numbers_of(grid, statistics_of(models, window))
    others = [name for name in grid if name != baseline]
    gaps = [gap_between(name, baseline, one, rows) for one, rows in numbers.items() for name in others]
    there = [gap for gap in gaps if gap.mean is not None]
    if window and others and not any(gap.statistic.window for gap in there):
        raise InputError(f"there are no evaluations at updates {window[0]} to {window[1]} to compare algorithms by")
    unpaired = tuple(name for name in others if not any(gap.algorithm == name for gap in there))
    return Power(tuple(_tested(there, difference)), difference, 0, baseline, unpaired)


def _check(difference: float, window: Window | None) -> None:
    if not (isfinite(difference) and difference > 0):
        raise InputError(f"difference is in percentage points, above 0, got {difference!r}")
    if window is not None and not (len(window) == 2 and all(map(is_whole, window)) and 0 <= window[0] <= window[1]):
        raise InputError(f"window is from one update to a later one, such as (400, 1000), got {window!r}")


def _tested(gaps: Sequence[Gap], difference: float) -> list[Gap]:
    """Give the gaps of the first statistic their p: of no difference, and of one as large as matters."""
    found = {i: one for i, gap in enumerate(gaps) if gap.statistic == gaps[0].statistic and (one := gap.estimate)}
    values = [p for one in found.values() for p in (one.p, one.p_within(difference))]
    corrected = holm(values, [i for i in found for _ in range(2)])
    pairs = dict(zip(found, zip(corrected[::2], corrected[1::2], strict=True), strict=True))
    return [replace(gap, p=pairs[i][0], p_same=pairs[i][1]) if i in pairs else gap for i, gap in enumerate(gaps)]
