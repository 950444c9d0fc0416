from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from domainwise.algorithms import Algorithm, algorithm, hyper, log10, uniform
from domainwise.meta.combine import sand_mask
from domainwise.meta.optimizer import MetaOptimizer


@algorithm
class SANDMask(Algorithm):
    """Mask smoothly like the AND-mask, sharper where the domains' gradients differ little (Shahtalebi et al., 2021).

    Direction: ``m * mean_e g_e / mean m`` for every parameter tensor,
    ``m = relu(tanh(k / var_e g_e * (|mean_e sign g_e| - tau)))``.

    DomainBed: its default ``tau=1`` makes the mask zero everywhere, so that nothing trains; here it is 0.5, and
    ``tau=1.0`` trains nothing either.
    """

    samplewise = True

    tau: float = hyper(0.5, uniform(0, 1), domainbed="tau", least=0, most=1)
    k: float = hyper(10.0, log10(-3, 5), domainbed="k", above=0)

    def legs(self, batches: Sequence[Any]) -> Sequence[Any]:
        return [[batch] for batch in batches]

    def stepper(self) -> MetaOptimizer:
        return MetaOptimizer(
            self.adam(), sand_mask(self.tau, self.k), inner_lr=0.0, shuffle=False, generator=self.order
        )
