from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor

from domainwise.algorithms import Penalized, Terms, algorithm, hyper, log10
from domainwise.algorithms._bases import at_head
from domainwise.losses import (
    Batch,
    distance_to,
    head_gradient,
    head_hessian_diagonal,
    head_hessian_product,
    mean_of,
    risks,
)
from domainwise.networks.network import Network

Head = tuple[Tensor, Tensor]  # what a domain puts into the head, and what comes out


@algorithm
class Hutchinson(Penalized):
    """Match gradients and Hessian diagonals of the head between the domains (Hemati et al., 2023).

    Loss: ``mean_e [CE_e + alpha |D_e - D|^2 + beta |g_e - g|^2]``, ``g`` and ``D`` of the mean risk, held fixed. The
    diagonals ``D_e`` are exact, or with ``draws`` above 0 the mean of that many ``z * H_e z``, ``z`` random signs.

    The authors' code: always samples, 300 draws, whose noise adds to the penalty; ``draws=300`` does so too.
    """

    linear = True

    alpha: float = hyper(1e-3, log10(-3, -1), domainbed="penalty_alpha", least=0)
    beta: float = hyper(5e-3, log10(-4, -2), domainbed="penalty_beta", least=0)
    draws: int = hyper(0, least=0)  # not another name for `fresh` here

    @property
    def uncapturable(self) -> str:
        return "it draws random signs in every step" if self.draws else ""

    def setup(self, net: Network, *, seed: int | None = None) -> Self:
        self.seed = 0
        return super().setup(net, seed=seed)

    def prepare(self, batches: Sequence[Any]) -> None:
        self.seed = int(torch.randint(2**31, (), generator=self.generator))

    def terms(self, batches: Sequence[Batch]) -> Terms:
        inputs, logits = at_head(self.net, batches)
        heads = list(zip(inputs, logits, strict=True))
        gradients = torch.stack([head_gradient(*head, y) for head, (_, y) in zip(heads, batches, strict=True)])
        diagonals, center = self._sampled(heads) if self.draws else _exact(heads)
        penalty = self.alpha * distance_to(center, diagonals) + self.beta * distance_to(gradients.mean(0), gradients)
        return Terms(risks(logits, batches, self.class_weights).mean(), penalty)

    def _sampled(self, heads: Sequence[Head]) -> tuple[Tensor, Tensor]:
        generator = torch.Generator(heads[0][0].device).manual_seed(self.seed)
        diagonals = torch.stack([_estimate([head], self.draws, generator) for head in heads])
        with torch.no_grad():
            return diagonals, _estimate(heads, self.draws, generator)


def _exact(heads: Sequence[Head]) -> tuple[Tensor, Tensor]:
    """Return the diagonal of every domain, and that of the mean risk."""
    diagonals = torch.stack([head_hessian_diagonal(*head) for head in heads])
    return diagonals, diagonals.mean(0)


def _estimate(heads: Sequence[Head], draws: int, generator: torch.Generator) -> Tensor:
    """Estimate the diagonal of the mean of the heads' Hessians, as Hutchinson does."""
    inputs, logits = heads[0]
    shape = (draws, logits.shape[1], inputs.shape[1])
    signs = 2.0 * torch.randint(2, shape, generator=generator, device=inputs.device, dtype=inputs.dtype) - 1.0
    return (signs * mean_of(head_hessian_product(*head, signs) for head in heads)).mean(0)
