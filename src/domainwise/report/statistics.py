"""Compute statistics over seeds: standard errors and how they are printed, intervals and tests of differences."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, inf, sqrt
from statistics import fmean, stdev

import numpy as np

# How many standard errors a 95 % interval reaches to each side, by the seeds less one (Student's t).
REACH = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10)
FEW = 5  # seeds, up to which an interval is far wider than its standard error looks


def standard_error(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation (n - 1) over the root of the count; one value has none."""
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else None


def reach(seeds: int) -> float:
    """Return how many standard errors a 95 % interval over so many seeds (2 or more) reaches to each side."""
    return REACH[min(seeds - 1, len(REACH)) - 1]


def percent(fraction: float) -> str:
    return f"{100 * fraction:.1f}"


def shown(fraction: float | None) -> str:
    """Write a share in percent, or a dash where there is none."""
    return "\N{EN DASH}" if fraction is None else percent(fraction)


def error_text(error: float) -> str:
    """Write an error in percent. One that would print as 0.0 is never said to be nothing."""
    return "<0.1" if percent(error) == "0.0" else percent(error)


def about_errors(seeds: int, what: str = "the standard error") -> str:
    """Write the sentence below a table that says what ± is."""
    if seeds < 2:
        return "One seed each, so no error bars."
    few = f"; with so few, a 95 % interval reaches {reach(seeds):.1f} times as far" if seeds <= FEW else ""
    return f"± is {what} over {seeds} seeds (of a sample, n - 1){few}."


ENUMERATED = 20  # pairs: all 2^20 signs are a moment's work
SAMPLED = 99_999  # signs drawn where there are more pairs
PAIRWISE = 4  # algorithms that are all compared with each other; more are compared with the first

Values = Mapping[str, Mapping[Hashable, float]]  # algorithm -> target and seed -> value


def sign_flip(differences: Sequence[float]) -> float:
    """Return the two-sided p of a permutation test: how often random signs give a mean so far from 0.

    Exact for up to 20 differences; for more, signs are drawn, the same ones every time.
    """
    given = np.asarray(differences, dtype=np.float64)
    least = abs(given.sum()) - 1e-9 * np.abs(given).sum()  # sums of equal terms differ by their order
    if len(given) <= ENUMERATED:
        sums = np.zeros(1)
        for one in given:
            sums = np.concatenate([sums + one, sums - one])
        return float((np.abs(sums) >= least).mean())
    signs = np.random.RandomState(0).choice([-1.0, 1.0], (SAMPLED, len(given)))
    return float((1 + (np.abs(signs @ given) >= least).sum()) / (1 + SAMPLED))


def sentences(values: Values, relation: str) -> list[str]:
    """Write one sentence for each two algorithms; ``relation`` is what a lower value means, as "is nearer than"."""
    names = list(values)
    pairs = combinations(names, 2) if len(names) <= PAIRWISE else [(name, names[0]) for name in names[1:]]
    return [said for one, other in pairs if (said := _sentence(one, other, values, relation))]


def _sentence(one: str, other: str, values: Values, relation: str) -> str:
    shared = [key for key in values[one] if key in values[other]]
    if not shared:
        return ""
    differences = [values[one][key] - values[other][key] for key in shared]
    below = sum(difference < 0 for difference in differences)
    how = "exact" if len(shared) <= ENUMERATED else "sampled"
    return (
        f"{one} {relation} {other} in {below} of {len(shared)} trials with the same target and seed: "
        f"mean difference {fmean(differences):+.3g}, {how} sign-flip permutation p = {sign_flip(differences):.2g}."
    )


LEVEL = 0.95  # of an interval
POWER = 0.8  # share of studies that would find a true difference
MOST = 100_000  # seeds, beyond which nobody goes
ENOUGH = 5  # seeds, from which the means of whole seeds are compared

# target -> seed -> difference
Differences = Mapping[str, Mapping[int, float]]


@dataclass(frozen=True)
class Estimate:
    """The mean of paired differences over targets and seeds, and how sure it is.

    Targets are fixed, each counts the same, and seeds are random. ``sd`` is the standard deviation of one seed's
    difference, the mean over the targets. ``freedom`` is how many degrees of freedom each seed beyond the first adds.
    """

    mean: float
    sd: float
    seeds: float  # per target; a mean where some targets have fewer
    freedom: float
    independent: bool  # whether the targets of one seed were taken to vary independently of each other

    @property
    def error(self) -> float:
        return self.sd / sqrt(self.seeds)

    @property
    def df(self) -> float:
        return self.freedom * (self.seeds - 1)

    @property
    def p(self) -> float:
        """Return the two-sided p of a t-test of no difference."""
        from scipy.special import stdtr

        if self.error == 0:
            return 1.0 if self.mean == 0 else 0.0
        return float(2 * stdtr(self.df, -abs(self.mean) / self.error))

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the ends of the interval that covers the true difference in this share of studies."""
        reach = self.error * _reach(self.df, level)
        return self.mean - reach, self.mean + reach

    def p_within(self, margin: float) -> float:
        """Return the p of a difference as large as the margin: the larger of two one-sided t-tests."""
        from scipy.special import stdtr

        if self.error == 0:
            return 0.0 if abs(self.mean) < margin else 1.0
        return float(stdtr(self.df, (abs(self.mean) - margin) / self.error))

    def within(self, margin: float) -> bool:
        """Return whether both are equivalent, at 5 %: the 90 % interval lies within the margin."""
        return self.p_within(margin) < 1 - LEVEL

    def detectable(self, seeds: float | None = None) -> float:
        """Return the smallest true difference that so many seeds find in 80 of 100 studies, at 5 % two-sided."""
        n = self.seeds if seeds is None else seeds
        return self._sd(0.5) / sqrt(n) * _shift(self.freedom * (n - 1))

    def seeds_for(self, difference: float) -> tuple[float, float, float]:
        """Return how many seeds find a true difference of this size in 80 of 100 studies: as estimated, from, to.

        The range is a 95 % interval: few seeds do not tell well how much seeds vary. It may have no end.
        """
        estimated, least, most = (self._sd(tail) for tail in (0.5, (1 + LEVEL) / 2, (1 - LEVEL) / 2))
        found = [self._seeds(sd, difference) for sd in (estimated, least, most)]
        return found[0], found[1], found[2]

    def _sd(self, tail: float) -> float:
        """Return the standard deviation that is exceeded with this probability.

        The one exceeded by half is as often too large as too small. The one that was measured is more often too small,
        with few seeds by a good deal.
        """
        from scipy.special import chdtri

        quantile = chdtri(self.df, 1 - tail)
        return float(self.sd * sqrt(self.df / quantile)) if quantile > 0 else inf

    def _seeds(self, sd: float, difference: float) -> float:
        def found(n: int) -> bool:
            return sd / sqrt(n) * _shift(self.freedom * (n - 1)) <= difference

        high = 2
        while not found(high):
            high *= 2
            if high > MOST:
                return inf
        low = max(2, high // 2)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if found(middle) else (middle + 1, high)
        return high


def estimate(differences: Differences, *, independent: bool | None = None) -> Estimate | None:
    """Return the mean difference with its spread, or None where there are not two seeds of each target.

    ``independent=True`` takes the variance within each target, with Satterthwaite's degrees of freedom. That is right
    where the targets of one seed vary independently of each other. ``False`` compares the means of whole seeds, which
    is right in any case and needs more seeds. None decides by the number of seeds: whole seeds from five on.
    """
    columns = [list(by_seed.values()) for by_seed in differences.values()]
    if not columns or min(map(len, columns)) < 2:
        return None
    shared = set.intersection(*(set(by_seed) for by_seed in differences.values()))
    if independent is None:
        independent = len(shared) < ENOUGH
    if independent:
        return _within_targets(columns)
    if len(shared) < 2:
        return None
    means = [fmean(by_seed[seed] for by_seed in differences.values()) for seed in sorted(shared)]
    return Estimate(fmean(means), float(np.std(means, ddof=1)), len(means), 1.0, independent=False)


def _within_targets(columns: Sequence[Sequence[float]]) -> Estimate:
    parts = [float(np.var(column, ddof=1)) / len(column) for column in columns]
    total = sum(parts)
    error = sqrt(total) / len(columns)
    seeds = fmean(map(len, columns))
    lost = sum(part**2 / (len(column) - 1) for part, column in zip(parts, columns, strict=True))
    df = total**2 / lost if lost else sum(len(column) - 1 for column in columns)
    mean = fmean(map(fmean, columns))
    return Estimate(mean, error * sqrt(seeds), seeds, df / (seeds - 1), independent=True)


def holm(values: Sequence[float], about: Sequence[Hashable] | None = None) -> list[float]:
    """Return each p corrected by Holm's method for how many there are: below 0.05 where any is claimed at 5 %.

    ``about`` names what each p is about. Of hypotheses about the same thing no two are true at once, such as that two
    algorithms do not differ and that they differ by a point, so that they count once (Shaffer, 1986).
    """
    names = range(len(values)) if about is None else about
    order = sorted(range(len(values)), key=values.__getitem__)
    corrected, largest = [0.0] * len(values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, len({names[j] for j in order[rank:]}) * values[i]))
        corrected[i] = largest
    return corrected


def _reach(df: float, level: float) -> float:
    """Return how many standard errors an interval reaches to each side."""
    from scipy.special import stdtrit

    return float(stdtrit(df, (1 + level) / 2))


def _shift(df: float) -> float:
    """Return how many standard errors away a difference must be for a t-test to find it with the power asked for."""
    from scipy.special import nctdtrinc

    return float(nctdtrinc(df, 1 - POWER, _reach(df, LEVEL)))


def whole_seeds(number: float) -> str:
    """Write a number of seeds; one that nobody can run is said to be more than that."""
    return f"over {MOST:,}" if number > MOST else f"{ceil(number):,}"
