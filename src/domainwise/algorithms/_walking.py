"""What the algorithms that walk share: the ablation switches of the paper, as fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from domainwise.algorithms._algorithm import Algorithm
from domainwise.algorithms._hyper import hyper, log10
from domainwise.errors import InputError
from domainwise.experiment.trial import INNER_LR
from domainwise.meta.combine import Weighted, constant
from domainwise.meta.optimizer import InnerFactory, MetaOptimizer

DIVERGED = "1 of 8 runs at 0.03 and 2 of 4 at 0.05"  # plain gradient descent on the walk, outer Adam at 5e-5


def _without_lr(walk: Any) -> str:
    own = walk.inner == "adam" and walk.inner_lr is None  # then the step of the walk is lr
    return 'outer="interpolate", which goes by inner_lr' if walk.outer == "interpolate" and not own else ""


@dataclass(eq=False, repr=False, kw_only=True)
class Walk(Algorithm):
    """One leg per domain; what differs between the algorithms is how the legs are weighted."""

    lr: float = hyper(5e-5, above=0, idle=_without_lr)
    inner: str = hyper("sgd", choices=("sgd", "momentum", "adam"))
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
        """The step size of the walk; left open, it depends on the inner optimizer."""
        if self.inner_lr is not None:
            return self.inner_lr
        return INNER_LR.get(self.inner, self.lr)

    def weights(self) -> Weighted:
        """How much each leg counts; here all the same, which heads for the end of the walk."""
        return constant()

    def visits(self, n: int) -> list[int]:
        drawn: list[int] = torch.randperm(n, generator=self.order).tolist()
        return drawn if self.shuffle else list(range(n))

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
            shuffle=False,  # the minibatches come in the order of the visits
            generator=self.order,
            module=None if self.buffers == "end" else self.net,
            buffers=self.buffers,  # type: ignore[arg-type]  # checked against the choices
        )

    def advice(self) -> str:
        if self.inner != "sgd":
            return f"a smaller inner_lr than {self.alpha:g}"
        return f"a smaller inner_lr than {self.alpha:g} (a pretrained ResNet-50 on PACS diverged in {DIVERGED})"

    def _inner(self) -> InnerFactory | None:
        # Interpolation has no outer optimizer to decay the weights, so the walk does it.
        decay = self.weight_decay if self.outer == "interpolate" else 0.0
        if self.inner == "adam":
            return partial(torch.optim.Adam, weight_decay=decay, fused=True, capturable=self.device.type == "cuda")
        if self.inner == "momentum":
            return partial(torch.optim.SGD, momentum=0.9, weight_decay=decay)
        return partial(torch.optim.SGD, weight_decay=decay) if decay else None
