from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import torch
from torch import Tensor, nn

from domainwise.algorithms import Algorithm, algorithm, choice, hyper, log10
from domainwise.errors import InputError
from domainwise.meta.round import Buffers, Gradients, Rewind, Sum, laid_out

ADAM_EPSILON = 1e-8
_CYCLIC = {"cyclic": 'pairs="cyclic", which pairs every domain with the next', "split": ""}


@algorithm
class MLDG(Algorithm):
    """Learn from one domain so that a step on it also helps another (first order; Li et al., 2018).

    Direction: ``1/n sum_(i,j) [g_i(theta) + beta g_j(theta_i)]``, ``theta_i`` one fresh Adam step of size ``lr`` away
    on domain ``i``. The pairs come from a random order of the domains: "cyclic", each with the next; "split", each of
    the first ``n - held_out`` with one of the rest.

    DomainBed: since 2022 its pairs are ``pairs="split", held_out=2``, which with three domains leaves one unused; its
    published results are from "cyclic". It cuts the longer minibatch of a pair to the length of the shorter one.
    """

    beta: float = hyper(1.0, log10(-1, 1), domainbed="mldg_beta", least=0)
    held_out: int = hyper(1, choice(1, 2), domainbed="n_meta_test", least=1, idle=lambda mldg: _CYCLIC[mldg.pairs])
    pairs: str = hyper("cyclic", choices=("cyclic", "split"))

    def prepare(self, batches: Sequence[Any]) -> None:
        n = len(batches)
        if 1 < n <= self.held_out:
            raise InputError(f"mldg: held_out={self.held_out} of {n} source domains leaves none to learn from")
        rest = [*range(1, n), 0] if self.pairs == "cyclic" else list(range(n - self.held_out, n))
        self.paired = list(zip(range(n if self.pairs == "cyclic" else n - self.held_out), cycle(rest)))

    def visits(self, n: int) -> list[int]:
        drawn: list[int] = torch.randperm(n, generator=self.generator).tolist()
        return drawn

    def step(self, batches: Sequence[Any]) -> dict[str, Tensor]:
        if len(batches) == 1:  # there is no other domain to help
            return super().step(batches)
        params = [p for p in self.net.parameters() if p.requires_grad]
        weights = [1 / len(batches), self.beta / len(batches)] * len(self.paired)
        total, losses = Sum(weights, len(params)), list[Tensor]()

        def visit(domain: int) -> Gradients:
            loss = self.loss([batches[domain]])
            gradients = torch.autograd.grad(loss, params, allow_unused=True)
            total.add(len(losses), gradients)
            losses.append(loss.detach())
            return gradients

        with Rewind(params, list(self.net.parameters()), None, Buffers(None, "end"), moves=True) as home:
            for i, j in self.paired:
                _adam_step(params, visit(i), self.lr, self.weight_decay)
                visit(j)
                _go_back(params, home.start)
            for p, direction in zip(params, laid_out(total.direction(), params), strict=True):
                p.grad = direction
        self.optimizer.outer.step()
        return {"loss": torch.stack([w * loss for w, loss in zip(weights, losses, strict=True)]).sum()}


@torch.no_grad()
def _adam_step(params: list[nn.Parameter], gradients: Gradients, lr: float, decay: float) -> None:
    """The first step of a new Adam: both moments are the gradient's own, so it moves by its sign but for epsilon."""
    used = [(p, g) for p, g in zip(params, gradients, strict=True) if g is not None]
    slopes = torch._foreach_add([g for _, g in used], [p for p, _ in used], alpha=decay)
    sizes = torch._foreach_abs(slopes)
    torch._foreach_add_(sizes, ADAM_EPSILON)
    torch._foreach_addcdiv_([p for p, _ in used], slopes, sizes, value=-lr)
    torch.clear_autocast_cache()  # low-precision copies of weights that have just moved


@torch.no_grad()
def _go_back(params: list[nn.Parameter], start: list[Tensor]) -> None:
    torch._foreach_copy_(tuple(params), start)
    torch.clear_autocast_cache()
