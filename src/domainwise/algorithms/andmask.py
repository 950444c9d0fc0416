from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from domainwise.algorithms import Algorithm, algorithm, hyper, uniform
from domainwise.meta.combine import and_mask
from domainwise.meta.optimizer import MetaOptimizer


@algorithm
class ANDMask(Algorithm):
    """Follow only the gradient entries whose sign the domains agree on (Parascandolo et al., 2021).

    Direction: ``m * mean_e g_e / mean m`` for every parameter tensor, ``m = [|mean_e sign g_e| >= tau]``.
    """

    samplewise = True

    tau: float = hyper(1.0, uniform(0.5, 1), domainbed="tau", least=0, most=1)

    def legs(self, batches: Sequence[Any]) -> Sequence[Any]:
        return [[batch] for batch in batches]

    def stepper(self) -> MetaOptimizer:
        return MetaOptimizer(self.adam(), and_mask(self.tau), inner_lr=0.0, shuffle=False, generator=self.order)
