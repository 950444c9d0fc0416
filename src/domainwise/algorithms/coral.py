from __future__ import annotations

from collections.abc import Sequence

from domainwise.algorithms import Penalized, Terms, algorithm, hyper, log10
from domainwise.losses import Batch, coral, risks


@algorithm
class CORAL(Penalized):
    """Match the feature means and covariances of every pair of domains (Sun & Saenko, 2016).

    Loss: ``mean_e CE_e + penalty mean_{i<j} [mean (mu_i - mu_j)^2 + mean (C_i - C_j)^2]``.
    """

    halves = True
    matches_features = True

    penalty: float = hyper(1.0, log10(-1, 1), domainbed="mmd_gamma", least=0)

    def terms(self, batches: Sequence[Batch]) -> Terms:
        features = [self.net.features(x) for x, _ in batches]
        risk = risks([self.net.logits(f) for f in features], batches, self.class_weights).mean()
        return Terms(risk, coral(*features), self.penalty)
