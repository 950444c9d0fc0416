from __future__ import annotations

from domainwise.algorithms import algorithm
from domainwise.algorithms._bases import Walk


@algorithm
class Fish(Walk):
    """Walk through the domains, then head for the end of the walk (Shi et al., 2022).

    Direction: ``1/n sum_i g_i``, ``g_i`` met on the walk ``theta_{i+1} = theta_i - inner_lr g_i`` through the domains
    in random order.

    DomainBed: walks by Adam in fixed order and moves half of the way, without an outer optimizer; for ``n`` domains
    that is ``fish(inner="adam", inner_lr=lr, outer="interpolate", scale=0.5 * n, shuffle=False)``.
    """

    samplewise = True
