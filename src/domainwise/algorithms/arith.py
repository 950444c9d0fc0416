from __future__ import annotations

from domainwise.algorithms import algorithm
from domainwise.algorithms._walk import Walk
from domainwise.combine import Weighted, arithmetic


@algorithm
class Arith(Walk):
    """Walk through the domains, then head for the mean of the models visited (Wang et al., 2025)."""

    def weights(self) -> Weighted:
        return arithmetic()
