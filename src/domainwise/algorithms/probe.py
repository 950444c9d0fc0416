from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from domainwise.algorithms import Algorithm, algorithm, hyper
from domainwise.losses import Batch, joined, risk


@algorithm
class Probe(Algorithm):
    """Train the head alone, on features of a network that stays as it is (Alain & Bengio, 2016).

    Loss: ``CE(head(f), y)`` over all samples, ``f`` the features of images as they are, which trials compute once. Of a
    table the columns are the features. ``lr`` and ``weight_decay`` (the L2 of the head) are its own: no preset changes
    them.
    """

    samplewise = True

    halves = True

    lr: float = hyper(1e-3, above=0)
    weight_decay: float = hyper(1e-2, least=0)

    def adam(
        self, parameters: Iterable[Tensor] | None = None, *, lr: float | None = None, weight_decay: float | None = None
    ) -> torch.optim.Optimizer:
        parameters = self.net.head.parameters() if parameters is None else parameters
        return super().adam(parameters, lr=lr, weight_decay=weight_decay)

    def prepare(self, batches: Sequence[Any]) -> None:
        self.net.featurizer.eval()

    def loss(self, batches: Sequence[Batch]) -> Tensor:
        x, y = joined(batches)
        with torch.no_grad():
            features = self.net.features(x)
        return risk(self.net.logits(features), y, self.class_weights)
