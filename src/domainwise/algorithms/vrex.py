from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from domainwise.algorithms import Penalized, Terms, algorithm, hyper, log10, whole
from domainwise.losses import Batch, apart, joined, risks


@algorithm
class VREx(Penalized):
    """Make the risks of the domains equal (Krueger et al., 2021).

    Loss: ``mean_e CE_e + w var_e CE_e``, the variance that of the population; ``w`` is 1 for ``anneal`` updates, then
    ``penalty``, with a fresh optimizer.
    """

    penalty: float = hyper(10.0, log10(-1, 5), domainbed="vrex_lambda", least=0)
    anneal: int = hyper(500, whole(log10(0, 4)), domainbed="vrex_penalty_anneal_iters", least=0)

    @property
    def phase(self) -> bool:
        """Whether the penalty has its full weight."""
        return self.updates >= self.anneal

    def prepare(self, batches: Sequence[Any]) -> None:
        if self.updates == self.anneal:
            self.optimizer = self.stepper()

    def terms(self, batches: Sequence[Batch]) -> Terms:
        risk = risks(apart(self.net(joined(batches)[0]), batches), batches, self.class_weights)
        return Terms(risk.mean(), risk.var(correction=0), self.penalty if self.phase else 1.0)
