"""Whether a difference may be chance: a paired test that assumes nothing of how accuracies are distributed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from domainwise.report.statistics import sign_flip

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
    """Two-sided sign-flip permutation test of paired differences."""
    return Difference(len(differences), fmean(differences), sign_flip(differences))
