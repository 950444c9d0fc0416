from __future__ import annotations

from collections.abc import Sequence

from domainwise.algorithms import Penalized, Terms, algorithm, hyper, log10
from domainwise.losses import Batch, mmd, risks


@algorithm
class MMD(Penalized):
    """Match the feature distributions of every pair of domains under Gaussian kernels (Li et al., 2018).

    Loss: ``mean_e CE_e + penalty mean_{i<j} [k(i, i) + k(j, j) - 2 k(i, j)]``, ``k(i, j)`` the mean over all pairs of
    samples of ``sum_g exp(-g |f - f'|^2)``, ``g`` from 0.001 to 1000 in powers of ten.
    """

    halves = True
    matches_features = True

    penalty: float = hyper(1.0, log10(-1, 1), domainbed="mmd_gamma", least=0)

    def terms(self, batches: Sequence[Batch]) -> Terms:
        features = [self.net.features(x) for x, _ in batches]
        risk = risks([self.net.logits(f) for f in features], batches, self.class_weights).mean()
        return Terms(risk, mmd(*features), self.penalty)
