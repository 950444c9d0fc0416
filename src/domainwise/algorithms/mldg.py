from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import torch
from torch import Tensor

from domainwise.algorithms import Algorithm, algorithm, choice, hyper, log10
from domainwise.errors import InputError
from domainwise.meta.combine import weighted
from domainwise.meta.optimizer import MetaOptimizer
from domainwise.meta.round import Plain

ADAM_EPSILON = 1e-8
_WITHOUT_HELD_OUT = {
    "cyclic": 'pairs="cyclic", which pairs every domain with the next',
    "halves": 'pairs="halves", which holds out half of the domains',
    "split": "",
}


@algorithm
class MLDG(Algorithm):
    """Learn from some domains so that a step on them also helps others (first order; Li et al., 2018).

    Direction: ``1/p sum_(i,j) [g_i(theta) + beta g_j(theta_i)]`` over ``p`` pairs, ``theta_i`` one fresh Adam step of
    size ``lr`` away on ``i``. The pairs come from a random order of the domains: "cyclic", each with the next; "split",
    each of the first ``n - held_out`` with one of the rest, and ``p = n`` all the same; "halves", the first half with
    the second as two large minibatches, as section 2.1 of the paper of Arith describes MLDG. Of an odd number of
    domains the first half takes one more.

    DomainBed: since 2022 its pairs are ``pairs="split", held_out=2``, which with three domains leaves one unused; its
    published results are from "cyclic". It cuts the longer minibatch of a pair to the length of the shorter one.
    """

    samplewise = True

    beta: float = hyper(1.0, log10(-1, 1), domainbed="mldg_beta", least=0)
    held_out: int = hyper(
        1, choice(1, 2), domainbed="n_meta_test", least=1, idle=lambda mldg: _WITHOUT_HELD_OUT[mldg.pairs]
    )
    pairs: str = hyper("cyclic", choices=("cyclic", "split", "halves"))

    def prepare(self, batches: Sequence[Any]) -> None:
        if self.pairs != "halves" and 1 < len(batches) <= self.held_out:
            raise InputError(
                f"mldg: held_out={self.held_out} of {len(batches)} source domains leaves none to learn from"
            )

    def legs(self, batches: Sequence[Any]) -> Sequence[Any]:
        n = len(batches)
        if n == 1:  # there is no other domain to help
            return [batches]
        if self.pairs == "halves":
            return [batches[: (n + 1) // 2], batches[(n + 1) // 2 :]]
        first = range(n if self.pairs == "cyclic" else n - self.held_out)
        second = [*range(1, n), 0] if self.pairs == "cyclic" else range(n - self.held_out, n)
        return [[batches[i]] for pair in zip(first, cycle(second)) for i in pair]

    def weights(self, legs: int) -> list[float]:
        """Return how much each leg counts: the first of a pair once, the second ``beta`` times."""
        if legs == 1:
            return [1.0]
        pairs = legs // 2
        share = pairs + self.held_out if self.pairs == "split" else pairs
        return [1 / share, self.beta / share] * pairs

    def stepper(self) -> MetaOptimizer:
        return MetaOptimizer(
            self.adam(),
            weighted(self.weights),
            inner_lr=self.lr,
            inner=FreshAdam(self.weight_decay),
            return_after=2,
            generator=self.generator,
        )

    def step(self, batches: Sequence[Any]) -> dict[str, Tensor]:
        legs = self.legs(batches)
        losses = self.optimizer.step(self.loss, legs, order=range(len(legs)))
        weights = self.weights(len(legs))
        return {"loss": torch.stack([w * loss for w, loss in zip(weights, losses, strict=True)]).sum()}


@dataclass(frozen=True)
class FreshAdam(Plain):
    """Take the first step of a new Adam: both moments are the gradient's, so it moves by its sign but for epsilon."""

    weight_decay: float

    def __call__(self, params: list[Tensor], gradients: list[Tensor], lr: float) -> None:
        slopes = torch._foreach_add(gradients, params, alpha=self.weight_decay)
        sizes = torch._foreach_abs(slopes)
        torch._foreach_add_(sizes, ADAM_EPSILON)
        torch._foreach_addcdiv_(params, slopes, sizes, value=-lr)
