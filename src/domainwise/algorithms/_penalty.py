"""What the algorithms share that add a penalty to the cross-entropy: the sum, and the penalty among the metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from domainwise.algorithms._algorithm import Algorithm
from domainwise.losses import Batch, apart, joined
from domainwise.networks.network import Network


class Terms(NamedTuple):
    """The two parts of a loss, ``risk + weight * penalty``."""

    risk: Tensor
    penalty: Tensor
    weight: float = 1.0
    noted: Tensor | None = None  # what an algorithm with a memory keeps of it

    @property
    def loss(self) -> Tensor:
        return self.risk if self.weight == 0 else self.risk + self.weight * self.penalty


@dataclass(eq=False, repr=False, kw_only=True)
class Penalized(Algorithm):
    """Override :meth:`terms` in place of ``loss``."""

    def terms(self, batches: Sequence[Batch]) -> Terms:
        raise NotImplementedError(f"{type(self).__name__} must say what the terms of its loss are")

    def loss(self, batches: Sequence[Batch]) -> Tensor:
        return self.terms(batches).loss

    def step(self, batches: Sequence[Any]) -> dict[str, Tensor]:
        met: list[Terms] = []

        def loss(leg: Sequence[Batch]) -> Tensor:
            terms = self.terms(leg)
            met.append(terms._replace(risk=terms.risk.detach(), penalty=terms.penalty.detach()))
            return terms.loss

        losses = self.optimizer.step(loss, self.legs(batches))
        (terms,) = met  # all domains are one leg
        self.remember(terms)
        return {"loss": losses.mean(), "penalty": terms.penalty}

    def remember(self, terms: Terms) -> None:
        """Take what was noted into the memory, after the step."""


def at_head(net: Network, batches: Sequence[Batch]) -> tuple[list[Tensor], list[Tensor]]:
    """What a linear head takes, with a one appended where it has a bias, and what it gives; one of each per domain.

    With it the head is a single matrix, and its gradients and Hessians are products of these two.
    """
    features = net.features(joined(batches)[0])
    logits = net.logits(features)
    if net.head.bias is not None:
        features = torch.cat([features, features.new_ones(len(features), 1)], 1)
    return apart(features, batches), apart(logits, batches)
