from __future__ import annotations

from domainwise.algorithms import algorithm
from domainwise.algorithms._bases import Walk
from domainwise.meta.combine import Weighted, arithmetic


@algorithm
class Arith(Walk):
    """Walk through the domains, then head for the mean of the models visited (Wang et al., 2025).

    Direction: ``sum_i w_i g_i``, ``g_i`` met on the walk ``theta_{i+1} = theta_i - inner_lr g_i`` through the domains
    in random order, ``w = (n, n-1, ..., 1)`` over its sum.

    The authors' code: multiplies the direction by ``1 / inner_lr``, which an outer Adam does not notice.
    """

    def weights(self) -> Weighted:
        return arithmetic()
