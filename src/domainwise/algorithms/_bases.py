"""Base algorithms with something in common: a penalty beside the cross-entropy, or a walk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from domainwise.algorithms._algorithm import Algorithm
from domainwise.algorithms._hyper import hyper, log10
from domainwise.averaging import swapped_in
from domainwise.errors import InputError
from domainwise.experiment.trial import INNER_LR
from domainwise.losses import Batch, apart, joined
from domainwise.meta.combine import Weighted, constant
from domainwise.meta.optimizer import InnerFactory, MetaOptimizer
from domainwise.networks.network import Network

DIVERGED = "1 of 8 runs at 0.03 and 2 of 4 at 0.05"  # plain gradient descent on the walk, outer Adam at 5e-5


class Terms(NamedTuple):
    """Hold the two parts of a loss, ``risk + weight * penalty``."""

    risk: Tensor
    penalty: Tensor
    weight: float = 1.0
    noted: Tensor | None = None  # for an algorithm with a memory: what to keep of this update

    @property
    def loss(self) -> Tensor:
        """Return the sum of the parts."""
        return self.risk if self.weight == 0 else self.risk + self.weight * self.penalty


@dataclass(eq=False, repr=False, kw_only=True)
class Penalized(Algorithm):
    """Base of algorithms that add a penalty to the risk: override :meth:`terms` in place of ``loss``."""

    def terms(self, batches: Sequence[Batch]) -> Terms:
        """Return the two terms of the loss, without changing anything."""
        raise NotImplementedError(f"{type(self).__name__} must say what the terms of its loss are")

    def loss(self, batches: Sequence[Batch]) -> Tensor:
        return self.terms(batches).loss

    def step(self, batches: Sequence[Any]) -> dict[str, Tensor]:
        met: list[Terms] = []

        def loss(leg: Sequence[Batch]) -> Tensor:
            terms = self.terms(leg)
            met.append(terms._replace(risk=terms.risk.detach(), penalty=terms.penalty.detach()))
            return terms.loss

        losses = self.optimizer.step(loss, self.legs(batches), order=[0])
        (terms,) = met  # all domains are one leg
        self.remember(terms)
        return {"loss": losses.mean(), "penalty": terms.penalty}

    def remember(self, terms: Terms) -> None:
        """Update the memory with what was noted, after the step."""


def at_head(net: Network, batches: Sequence[Batch]) -> tuple[list[Tensor], list[Tensor]]:
    """Return the inputs and the outputs of a linear head, one of each per domain.

    Where the head has a bias, a one is appended to its inputs: then the head is a single matrix, and its gradients and
    Hessians are products of these two.
    """
    features = net.features(joined(batches)[0])
    logits = net.logits(features)
    if net.head.bias is not None:
        features = torch.cat([features, features.new_ones(len(features), 1)], 1)
    return apart(features, batches), apart(logits, batches)


def _without_lr(walk: Any) -> str:
    own = walk.inner in ("adam", "amsgrad") and walk.inner_lr is None  # then the step of the walk is lr
    return 'outer="interpolate", which goes by inner_lr' if walk.outer == "interpolate" and not own else ""


@dataclass(eq=False, repr=False, kw_only=True)
class Walk(Algorithm):
    """Base of algorithms that walk, one leg per domain: they differ in the weights of the legs.

    Its fields are the ablations of the paper.
    """

    lr: float = hyper(5e-5, above=0, idle=_without_lr)
    inner: str = hyper("sgd", choices=("sgd", "momentum", "adam", "amsgrad"))
    inner_lr: float | None = hyper(None, log10(-2.5, -1.5), least=0, unset="0.01 (sgd), 0.001 (momentum), lr (adam)")
    inner_steps: int = hyper(1, least=1)
    outer: str = hyper("adam", choices=("adam", "interpolate"))
    scale: float = hyper(1.0, above=0)
    shuffle: bool = hyper(True)
    domainwise: bool = hyper(True)
    buffers: str = hyper("end", choices=("end", "start", "mean"), added=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha == 0 and self.outer == "interpolate":
            raise InputError(f'{self.name}: outer="interpolate" moves by the walk itself, so inner_lr must be above 0')
        if self.alpha == 0 and self.inner != "sgd":
            raise InputError(f'{self.name}: with inner_lr=0 inner="{self.inner}" would never move: leave inner out')

    @property
    def fresh(self) -> int:
        return self.inner_steps

    @property
    def pooled(self) -> bool:
        return not self.domainwise

    @property
    def uncapturable(self) -> str:
        return "" if self.buffers == "end" else f'buffers="{self.buffers}" was never tried in a CUDA graph'

    @property
    def alpha(self) -> float:
        """Return the step size of the walk; left open, it depends on the inner optimizer."""
        if self.inner_lr is not None:
            return self.inner_lr
        return INNER_LR.get(self.inner, self.lr)

    def weights(self) -> Weighted:
        """Return how much each leg counts; here all the same, which heads for the end of the walk."""
        return constant()

    def legs(self, batches: Sequence[Any]) -> Sequence[Any]:
        if self.inner_steps == 1:
            return [[batch] for batch in batches]
        return [[[batch] for batch in fresh] for fresh in batches]

    def stepper(self) -> MetaOptimizer:
        outer: torch.optim.Optimizer = self.adam()
        if self.outer == "interpolate":
            outer = torch.optim.SGD(self.net.parameters(), lr=self.alpha)
        return MetaOptimizer(
            outer,
            self.weights().scaled(self.scale),
            inner_lr=self.alpha,
            inner_steps=self.inner_steps,
            inner=self._inner(),
            shuffle=self.shuffle,
            generator=self.order,
            module=None if self.buffers == "end" else self.net,
            buffers=self.buffers,  # type: ignore[arg-type]  # checked against the choices
        )

    def _inner(self) -> InnerFactory | None:
        # Interpolation has no outer optimizer to decay the weights, so the walk does it.
        decay = self.weight_decay if self.outer == "interpolate" else 0.0
        if self.inner in ("adam", "amsgrad"):
            about: dict[str, Any] = {"fused": True, "capturable": self.device.type == "cuda"}
            return partial(torch.optim.Adam, weight_decay=decay, amsgrad=self.inner == "amsgrad", **about)
        if self.inner == "momentum":
            return partial(torch.optim.SGD, momentum=0.9, weight_decay=decay)
        return partial(torch.optim.SGD, weight_decay=decay) if decay else None


def walk_health(algorithm: Algorithm, batches: Sequence[Any], domains: Sequence[int] = ()) -> dict[str, float]:
    """Walk once more and go back: how far that is, beside the last outer step, and the share of steps that went wrong.

    ``domains`` are the numbers of those that the batches are from; without them they are the first ones.

    A step of plain gradient descent goes wrong where it raises the loss of the very minibatch that it descends. Nothing
    is returned of other walks, whose steps depend on what their optimizer remembers. Nothing in the training changes.
    """
    if not isinstance(algorithm, Walk) or algorithm.inner != "sgd" or algorithm.alpha == 0:
        return {}
    params = [p for p in algorithm.net.parameters() if p.requires_grad]
    start = [p.detach().clone() for p in params]
    rose: list[bool] = []
    algorithm.domains = tuple(domains or range(len(batches)))
    gpu = algorithm.device.type == "cuda"
    with (
        torch.random.fork_rng(devices=[algorithm.device] if gpu else []),
        swapped_in(params, start, algorithm.net.buffers()),
    ):
        legs = algorithm.legs(batches)
        for batch in legs if algorithm.inner_steps == 1 else [one for leg in legs for one in leg]:
            before = _same_dropout(algorithm, batch)
            gradients = torch.autograd.grad(before, params, allow_unused=True)
            with torch.no_grad():
                for p, g in zip(params, gradients, strict=True):
                    if g is not None:
                        p.sub_(g, alpha=algorithm.alpha)
                rose.append(bool(_same_dropout(algorithm, batch) > before))
        length = _norm([p.detach() - s for p, s in zip(params, start, strict=True)])
    found = {"length": length, "rose": sum(rose) / len(rose)}
    outer = algorithm.optimizer.outer  # of a plain Adam alone does the state tell the last step
    adam = type(outer) is torch.optim.Adam and not outer.defaults["amsgrad"]
    return {**found, "outer": last_step(outer)} if adam else found


def _same_dropout(algorithm: Algorithm, batch: Any) -> Tensor:
    torch.manual_seed(0)  # or two losses would differ by what was dropped
    return algorithm.loss(batch)


def last_step(adam: torch.optim.Optimizer) -> float:
    """Return the length of the step that an Adam made last, which its state still tells."""
    steps = []
    for group in adam.param_groups:
        (first, second), eps, lr = group["betas"], group["eps"], float(group["lr"])
        for state in (adam.state[p] for p in group["params"] if adam.state[p]):
            made = float(state["step"])
            mean, square = state["exp_avg"] / (1 - first**made), state["exp_avg_sq"] / (1 - second**made)
            steps.append(lr * mean / (square.sqrt() + eps))
    return _norm(steps)


def _norm(tensors: Sequence[Tensor]) -> float:
    return float(torch.stack([t.float().square().sum() for t in tensors]).sum().sqrt()) if tensors else 0.0


def advice(algorithm: Algorithm) -> str:
    """Say what to try when the loss diverges, to follow the word "try"."""
    if not isinstance(algorithm, Walk):
        return f"a smaller lr than {algorithm.lr:g}"
    known = f" (a pretrained ResNet-50 on PACS diverged in {DIVERGED})" if algorithm.inner == "sgd" else ""
    return f"a smaller inner_lr than {algorithm.alpha:g}{known}"
