from __future__ import annotations

from domainwise.algorithms import algorithm, hyper
from domainwise.algorithms._bases import Walk
from domainwise.meta.combine import Weighted, arithmetic


@algorithm
class Arith(Walk):
    """Walk through the domains, then head for the mean of the models visited (Wang et al., 2025).

    Direction: ``sum_i w_i g_i``, ``g_i`` met on the walk ``theta_{i+1} = theta_i - inner_lr g_i`` through the domains
    in random order, ``w = (n, n-1, ..., 1) / (n + epsilon)``: ``epsilon`` is the weight of the starting point in that
    mean. Left open, it is the one with which the weights sum to one, as in the paper's experiments.

    The authors' code: multiplies the direction by ``1 / inner_lr``, which an outer Adam does not notice.
    """

    samplewise = True

    epsilon: float | None = hyper(None, least=0, unset="n(n-1)/2", added=True)

    def weights(self) -> Weighted:
        return arithmetic(self.epsilon)
