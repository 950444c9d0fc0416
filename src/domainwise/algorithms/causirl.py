from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor

from domainwise.algorithms import Penalized, Terms, algorithm, hyper, log10
from domainwise.losses import Batch, coral_between, mmd_between, risks
from domainwise.networks.network import Network


@algorithm
class CausIRL(Penalized):
    """Match the features of two random mixtures of the domains (Chevalley et al., 2022).

    Loss: ``mean_e CE_e + penalty distance(first, second)``: each domain's minibatch is cut at a random place, ``first``
    is all that lies before the cuts, ``second`` the rest; 0 where either has fewer than two samples.
    """

    halves = True
    matches_features = True

    penalty: float = hyper(1.0, log10(-1, 1), domainbed="mmd_gamma", least=0)
    distance: str = hyper("coral", choices=("coral", "mmd"))

    def setup(self, net: Network, *, seed: int | None = None) -> Self:
        self.first: Tensor | None = None  # 1 for every sample that lies before its cut, else 0
        return super().setup(net, seed=seed)

    def prepare(self, batches: Sequence[Any]) -> None:
        sizes = [len(y) for _, y in batches]
        drawn = before(sizes, self.split_points(sizes))
        if self.first is None or len(self.first) != len(drawn):
            self.first = torch.empty_like(drawn, device=self.device)
        # Where it lies stays the same, for a graph; pinned, the host does not wait for the copy.
        self.first.copy_(drawn.pin_memory() if self.first.is_cuda else drawn, non_blocking=True)

    def split_points(self, sizes: Sequence[int]) -> Sequence[int]:
        """Draw where to cut each minibatch."""
        return [int(torch.randint(size, (), generator=self.generator)) for size in sizes]

    def terms(self, batches: Sequence[Batch]) -> Terms:
        features = [self.net.features(x) for x, _ in batches]
        risk = risks([self.net.logits(f) for f in features], batches, self.class_weights).mean()
        first, sizes = self.first, [len(f) for f in features]
        if first is None or len(first) != sum(sizes):  # of these minibatches nothing was drawn
            first = before(sizes, [size // 2 for size in sizes]).to(self.device)
        distance = {"coral": coral_between, "mmd": mmd_between}[self.distance](torch.cat(features), first)
        both = (first.sum() >= 2) & ((1 - first).sum() >= 2)
        return Terms(risk, distance * both, self.penalty)


def before(sizes: Sequence[int], cuts: Sequence[int]) -> Tensor:
    """Return 1 for every sample that lies before its cut, else 0."""
    return torch.cat([(torch.arange(size) < cut).float() for size, cut in zip(sizes, cuts, strict=True)])
