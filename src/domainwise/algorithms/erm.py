from __future__ import annotations

from domainwise.algorithms import Algorithm, algorithm


@algorithm
class ERM(Algorithm):
    """Minimise the mean loss over all source samples (Vapnik, 1998).

    Loss: ``CE`` over all samples.
    """

    samplewise = True
