from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from domainwise.algorithms import Penalized, Terms, algorithm, hyper, log10, whole
from domainwise.losses import Batch, apart, irm, joined, mean_of, risks


@algorithm
class IRM(Penalized):
    """Learn features on which one head is the best for every domain at once (Arjovsky et al., 2019).

    Loss: ``mean_e CE_e + w mean_e (d/ds CE_e(s logits) at s = 1)^2``, the square as a product of two halves of the
    minibatch; ``w`` is 1 for ``anneal`` updates, then ``penalty``, with a fresh optimizer.
    """

    penalty: float = hyper(100.0, log10(-1, 5), domainbed="irm_lambda", least=0)
    anneal: int = hyper(500, whole(log10(0, 4)), domainbed="irm_penalty_anneal_iters", least=0)

    @property
    def phase(self) -> bool:
        """Whether the penalty has its full weight."""
        return self.updates >= self.anneal

    def prepare(self, batches: Sequence[Any]) -> None:
        if self.updates == self.anneal:
            self.optimizer = self.stepper()

    def terms(self, batches: Sequence[Batch]) -> Terms:
        logits = apart(self.net(joined(batches)[0]), batches)
        penalty = mean_of(irm(z, y) for z, (_, y) in zip(logits, batches, strict=True))
        return Terms(risks(logits, batches, self.class_weights).mean(), penalty, self.penalty if self.phase else 1.0)
