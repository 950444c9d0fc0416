"""Whether a difference may be chance: a paired test that assumes nothing of how accuracies are distributed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
EXACT = 20  # pairs up to which all ways of flipping the signs are counted; a million of them
DRAWS = 2**17  # ways tried at random beyond that
LEVEL = 0.05


@dataclass(frozen=True)
class Difference:
    n: int  # pairs
    mean: float
    p: float

    @property
    def least(self) -> float:
        """The smallest p that so many pairs can give, whatever was measured."""
        return 2.0 ** (1 - self.n)

    @property
    def said(self) -> str:
        return "= 1" if self.p >= 0.995 else "< 0.001" if self.p < 0.001 else f"= {self.p:.2g}"


def sign_flips(differences: Sequence[float]) -> Difference:
    """Two-sided sign-flip permutation test of paired differences.

    Were there no difference, each could as well have had the other sign: p is the share of all ways of choosing the
    signs whose sum is at least as far from zero as the one observed.
    """
    found = np.asarray(differences, dtype=np.float64)
    lengths, observed = np.abs(found), abs(float(found.sum()))
    sums = _all_sums(lengths) if len(found) <= EXACT else np.append(_some_sums(lengths), observed)
    as_far = np.abs(sums) >= observed - 1e-9 * max(1.0, float(lengths.sum()))  # a tie stays one in floating point
    return Difference(len(found), fmean(differences), float(as_far.mean()))


def _all_sums(lengths: Array) -> Array:
    sums = np.zeros(1)
    for length in lengths:
        sums = np.concatenate([sums + length, sums - length])
    return sums


def _some_sums(lengths: Array) -> Array:
    signs = 1.0 - 2.0 * np.random.RandomState(0).randint(0, 2, (DRAWS, len(lengths)))
    sums: Array = signs @ lengths
    return sums
