from __future__ import annotations

from domainwise.algorithms import algorithm
from domainwise.algorithms._walk import Walk
from domainwise.combine import Weighted, last


@algorithm
class MAML(Walk):
    """Walk through the domains, then follow the gradient met at the end (first order; Finn et al., 2017)."""

    def weights(self) -> Weighted:
        return last()
