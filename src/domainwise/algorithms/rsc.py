from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from domainwise.algorithms import Algorithm, algorithm, hyper, uniform
from domainwise.losses import Batch, joined, risk, self_challenge


@algorithm
class RSC(Algorithm):
    """Learn without the features the prediction leans on most (Huang et al., 2020).

    Loss: ``CE(head(f * mask), y)`` over all samples. The mask drops the features with the top ``feature_drop`` of the
    gradients of the right logit, in the ``batch_drop`` of the samples that lose most confidence by it.
    """

    halves = True

    feature_drop: float = hyper(1 / 3, uniform(0, 0.5), domainbed="rsc_f_drop_factor", least=0, below=1)
    batch_drop: float = hyper(1 / 3, uniform(0, 0.5), domainbed="rsc_b_drop_factor", least=0, below=1)

    def loss(self, batches: Sequence[Batch]) -> Tensor:
        x, y = joined(batches)
        features = self.net.features(x)
        kept = self_challenge(self.net.logits, features, y, feature_drop=self.feature_drop, batch_drop=self.batch_drop)
        return risk(self.net.logits(features * kept), y, self.class_weights)
