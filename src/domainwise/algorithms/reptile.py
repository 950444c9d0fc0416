from __future__ import annotations

from domainwise.algorithms import algorithm, hyper
from domainwise.algorithms._walk import Walk


@algorithm
class Reptile(Walk):
    """The walk of Fish over minibatches drawn from all source domains together (Nichol et al., 2018)."""

    domainwise: bool = hyper(False)
