from __future__ import annotations

from domainwise.algorithms import algorithm, hyper
from domainwise.algorithms._bases import Walk


@algorithm
class Reptile(Walk):
    """Take the walk of Fish over minibatches drawn from all source domains together (Nichol et al., 2018).

    Direction: ``1/n sum_i g_i``, ``g_i`` met on the walk ``theta_{i+1} = theta_i - inner_lr g_i``.
    """

    samplewise = True

    domainwise: bool = hyper(False)
