"""Two algorithms on the same targets with the same seeds: how often one is below the other, and whether by chance."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from statistics import fmean

import numpy as np

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
