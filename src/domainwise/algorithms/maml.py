from __future__ import annotations

from domainwise.algorithms import algorithm
from domainwise.algorithms._bases import Walk
from domainwise.meta.combine import Weighted, last


@algorithm
class MAML(Walk):
    """Walk through the domains, then follow the gradient met at the end (first order; Finn et al., 2017).

    Direction: ``g_n``, the last one met on the walk ``theta_{i+1} = theta_i - inner_lr g_i`` through the domains in
    random order.
    """

    samplewise = True

    def weights(self) -> Weighted:
        return last()
