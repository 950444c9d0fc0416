from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch

from domainwise.algorithms import Penalized, Terms, algorithm, hyper, log10
from domainwise.losses import Batch, coral, mmd, risks
from domainwise.network import Network


@algorithm
class CausIRL(Penalized):
    """Match the features of two random mixtures of the domains (Chevalley et al., 2022).

    Loss: ``mean_e CE_e + penalty distance(first, second)``: each domain's minibatch is cut at a random place, ``first``
    is all that lies before the cuts, ``second`` the rest; 0 where either has fewer than two samples.
    """

    halves = True

    penalty: float = hyper(1.0, log10(-1, 1), domainbed="mmd_gamma", least=0)
    distance: str = hyper("coral", choices=("coral", "mmd"))

    @property
    def uncapturable(self) -> str:
        return "it cuts every minibatch at another place"

    def setup(self, net: Network, *, seed: int | None = None) -> Self:
        self.splits: Sequence[int] = ()
        return super().setup(net, seed=seed)

    def prepare(self, batches: Sequence[Any]) -> None:
        self.splits = self.split_points([len(y) for _, y in batches])

    def split_points(self, sizes: Sequence[int]) -> Sequence[int]:
        return [int(torch.randint(size, (), generator=self.generator)) for size in sizes]

    def terms(self, batches: Sequence[Batch]) -> Terms:
        features = [self.net.features(x) for x, _ in batches]
        risk = risks([self.net.logits(f) for f in features], batches).mean()
        cuts = self.splits or [len(f) // 2 for f in features]  # nothing is drawn before the first update
        first = torch.cat([f[:cut] for f, cut in zip(features, cuts, strict=True)])
        second = torch.cat([f[cut:] for f, cut in zip(features, cuts, strict=True)])
        if min(len(first), len(second)) < 2:
            return Terms(risk, risk.new_zeros(()), self.penalty)
        return Terms(risk, {"coral": coral, "mmd": mmd}[self.distance](first, second), self.penalty)
