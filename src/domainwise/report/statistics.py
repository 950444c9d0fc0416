"""Statistics over seeds: the standard error of a mean, how it is printed, and tests of differences."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from math import sqrt
from statistics import fmean, stdev

import numpy as np

# How many standard errors a 95 % interval reaches to each side, by the seeds less one (Student's t).
REACH = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10)
FEW = 5  # seeds, up to which an interval is far wider than its standard error looks


def standard_error(values: Sequence[float]) -> float | None:
    """Sample standard deviation (n - 1) over the root of the count; one value has none."""
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else None


def reach(seeds: int) -> float:
    """How many standard errors a 95 % interval over so many seeds (2 or more) reaches to each side."""
    return REACH[min(seeds - 1, len(REACH)) - 1]


def percent(fraction: float) -> str:
    return f"{100 * fraction:.1f}"


def error_text(error: float) -> str:
    """An error in percent. One that would print as 0.0 is never said to be nothing."""
    return "<0.1" if percent(error) == "0.0" else percent(error)


def about_errors(seeds: int, what: str = "the standard error") -> str:
    """A sentence for below a table."""
    if seeds < 2:
        return "One seed each, so no error bars."
    few = f"; with so few, a 95 % interval reaches {reach(seeds):.1f} times as far" if seeds <= FEW else ""
    return f"± is {what} over {seeds} seeds (of a sample, n - 1){few}."


ENUMERATED = 20  # pairs: all 2^20 signs are a moment's work
SAMPLED = 99_999  # signs drawn where there are more pairs
PAIRWISE = 4  # algorithms that are all compared with each other; more are compared with the first

Values = Mapping[str, Mapping[Hashable, float]]  # algorithm -> target and seed -> value


def sign_flip(differences: Sequence[float]) -> float:
    """The two-sided p of a permutation test: how often a mean so far from 0 comes about when signs are random.

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
    """One for each two algorithms; ``relation`` says what a lower value means: "is nearer the centroid than"."""
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
