"""Hold any optimizer, walk through the legs, and hand it one combined direction: the drop-in.

One round starts at Theta. The legs are visited in random order; on each the parameters take ``inner_steps`` gradient
steps of size alpha (``inner_lr``). Then they go back to Theta, and the outer optimizer gets ``sum_i w_i g_i`` as its
gradient, where ``g_i`` is the sum of the gradients met on the i-th leg visited.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from domainwise.errors import InputError
from domainwise.meta.combine import Combine, arithmetic
from domainwise.meta.ranks import ALONE, Alone, Ranks, several
from domainwise.meta.refusals import (
    NO_FP16,
    check_inner,
    check_kinds,
    check_order,
    check_outer,
    check_parameters,
    check_return,
    check_round,
    check_settings,
    check_state,
    one_number,
)
from domainwise.meta.round import Buffers, Descent, Gradients, Plain, Rewind, Stateful, laid_out, total_of, weighted_sum

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

Batch = TypeVar("Batch")
InnerFactory = Callable[[list[nn.Parameter]], Optimizer]
Loss = Callable[[Batch], Tensor]
Split = Callable[[Any], Iterable[tuple[float, Any]]]


class MetaOptimizer:
    """Walk through legs of data and step an ordinary optimizer along the combined direction.

    Args:
        outer: any ``torch.optim`` optimizer that steps without a closure; its parameters are the ones that walk.
        combine: how the leg gradients become one direction; None is ``arithmetic()``.
        inner_lr: step size of the walk; 0 takes every gradient at the starting point.
        inner_steps: gradient steps on each leg. Above 1 a leg is a sequence of that many batches.
        inner: factory of a stateful optimizer for the walk, called with the parameters (``torch.optim.Adam``); its
            learning rate is set to ``inner_lr``, its state is kept from round to round, and a leg counts as the
            displacement it made, divided by ``inner_lr``. Or a :class:`~domainwise.meta.round.Plain` step, which has
            no state; a leg is then the sum of its gradients, as without ``inner``.
        shuffle: visit the legs in random order.
        generator: where that order comes from; None makes one, seeded from ``torch.initial_seed()``.
        module: the network, if its buffers (batch-norm statistics) need more care than being left as they are.
        buffers: what a round leaves in them: the "end" of the walk, the "start", or the "mean" over the legs.
        check: look at every loss (one synchronisation each) and name the leg where it is not finite.
        sync: "auto" shares every inner step with the other ranks where ``torch.distributed`` runs with more than one:
            each brings its part of every batch, and the walk is that of one process with the whole. "leg" insists on
            it; "none" leaves it to you to average ``.grad`` between :meth:`gradient` and ``outer.step()``.
        group: the process group to share with; None is the default one.
        size: how many samples a batch has, for the average over the ranks; None is the length of its first tensor. A
            batch with 0 takes part without a forward pass.
        return_after: go back to the starting point after every so many legs; None walks through all of them.

    Gradients come from ``torch.autograd.grad``: hooks of ``register_hook`` see each of them, those of
    ``register_post_accumulate_grad_hook`` are never called, and a warning says so.
    """

    def __init__(
        self,
        outer: Optimizer,
        combine: Combine | None = None,
        *,
        inner_lr: float,
        inner_steps: int = 1,
        inner: InnerFactory | Plain | None = None,
        shuffle: bool = True,
        generator: torch.Generator | None = None,
        module: nn.Module | None = None,
        buffers: Literal["end", "start", "mean"] = "end",
        check: bool = False,
        sync: Literal["auto", "leg", "none"] = "auto",
        group: ProcessGroup | None = None,
        size: Callable[[Any], float] | None = None,
        return_after: int | None = None,
    ) -> None:
        check_outer(outer)
        check_kinds(combine, inner, shuffle, generator, module, check)
        check_settings(inner_lr, inner_steps, inner, module, buffers, sync, size)
        check_return(return_after, inner)
        self.outer = outer
        self.inner: Optimizer | None = None  # made by the first round
        self.combine: Combine = arithmetic() if combine is None else combine
        self.inner_lr = inner_lr
        self.inner_steps = int(inner_steps)
        self.shuffle = shuffle
        self.generator = _generator_of_its_own() if generator is None else generator
        self.check = check
        self.split: Split | None = None  # parts of a batch to compute one by one, with their shares of its loss
        self._plain = inner if isinstance(inner, Plain) else Plain()
        self._inner_factory = None if isinstance(inner, Plain) else inner
        self._return_after = return_after
        self._module = module
        self._buffers = buffers
        self._sync = sync
        self._group = group
        self._size = size
        self._ranks: Ranks | None = None  # made by the first round that is shared

    def step(self, loss: Loss[Batch], legs: Sequence[Any], *, order: Sequence[int] | None = None) -> Tensor:
        """Take one round: :meth:`gradient`, then the outer optimizer's own step."""
        losses = self.gradient(loss, legs, order=order)
        self.outer.step()
        torch.clear_autocast_cache()
        return losses

    def gradient(self, loss: Loss[Batch], legs: Sequence[Any], *, order: Sequence[int] | None = None) -> Tensor:
        """Walk, go back, and leave the combined direction in ``.grad`` (whatever was there is replaced).

        ``order`` says which leg to visit first, second, ...; None takes what :meth:`order` draws. A CUDA graph needs
        it drawn before. Returns the loss met on arriving at each leg, on their device, in the order they were given.
        """
        with self._company() as ranks, self._order_kept_on_error():
            check_round(self.outer, legs)
            legs = self._deal(legs)
            wanted = self.order(len(legs)) if order is None else check_order(order, len(legs))
            params = self._walking()
            ranks.meet(params, legs, self.inner_lr, self._module)
            visits = ranks.ordered(wanted)
            met = self._walk(loss, legs, visits, params, ranks)
        return torch.stack([met[visits.index(i)] for i in range(len(legs))])

    def order(self, n: int) -> list[int]:
        """Draw the order of the next round's visits: the only randomness of a round, and on the host."""
        if not self.shuffle:
            return list(range(n))
        drawn: list[int] = torch.randperm(n, generator=self.generator).tolist()
        return drawn

    def _walk(
        self,
        loss: Loss[Batch],
        legs: Sequence[Sequence[Batch]],
        visits: Sequence[int],
        params: list[nn.Parameter],
        ranks: Alone,
    ) -> list[Tensor]:
        """Visit the legs and fill ``.grad``. Returns the losses in the order of the visits."""
        inner = self._inner()
        total = total_of(self.combine, len(legs), len(params))
        buffers = Buffers(self._module, self._buffers)
        met: list[Tensor] = []
        moves = inner is not None or self.inner_lr != 0
        away = self._return_after or len(legs)  # legs from one start to the next return
        with Rewind(params, self._held(), inner, buffers, moves) as home:
            mover = (
                Descent(params, self.inner_lr, total, self._plain)
                if inner is None
                else Stateful(params, inner, self.inner_lr, home.start, total)
            )
            for i, leg in enumerate(visits):
                if i and i % away == 0:
                    home.go_back()
                before_return = (i + 1) % away == 0 or i + 1 == len(legs)
                for k, batch in enumerate(legs[leg]):
                    value, gradients = ranks.mean(batch, partial(self._slope, loss, batch, leg, params))
                    if k == 0:
                        met.append(value)
                    mover.step(i, gradients, final=before_return and k == len(legs[leg]) - 1)
                    del value, gradients  # so that the next forward pass does not find them in memory
                    torch.clear_autocast_cache()  # low-precision copies of weights that have just moved
                mover.leave_leg(i)
                buffers.leave_leg()
            for p, direction in zip(params, laid_out(total.direction(), params), strict=True):
                p.grad = direction
            ranks.agree()
        ranks.follow(self._module)
        return met

    def _slope(self, loss: Loss[Batch], batch: Batch, leg: int, params: list[nn.Parameter]) -> tuple[Tensor, Gradients]:
        parts = self.split(batch) if self.split else [(1.0, batch)]
        value, gradients = weighted_sum((share, self._part(loss, part, params)) for share, part in parts)
        if self.check and not math.isfinite(value.item()):
            raise FloatingPointError(
                f"the loss of leg {leg} is {value.item()}: try a smaller inner_lr ({self.inner_lr})"
            )
        return value, gradients

    def _part(self, loss: Loss[Batch], batch: Batch, params: list[nn.Parameter]) -> tuple[Tensor, Gradients]:
        value = one_number(loss(batch))
        return value.detach(), torch.autograd.grad(value, params, allow_unused=True)

    def state_dict(self) -> dict[str, Any]:
        """Return all that continues the training exactly: outer, inner, and the generator of the order."""
        return {
            "outer": self.outer.state_dict(),
            "inner": None if self.inner is None else self.inner.state_dict(),
            "order": self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state; one that does not fit is refused and changes nothing."""
        check_state(state)
        order = state["order"].cpu()  # a map_location moves it along with the rest
        torch.Generator().set_state(order)
        outer, inner = dict(vars(self.outer)), self.inner
        try:
            self.outer.load_state_dict(state["outer"])
            self.inner = None
            if state["inner"] is not None:
                fresh = self._inner()
                if fresh is None:
                    raise InputError("this state has an inner optimizer's memory, but the walk here has no `inner`")
                fresh.load_state_dict(state["inner"])
        except BaseException:
            vars(self.outer).update(outer)  # loading puts new tables in the place of old ones and leaves those alone
            self.inner = inner
            raise
        self.generator.set_state(order)

    @property
    def _step_supports_amp_scaling(self) -> bool:
        # GradScaler.step(this) asks for this attribute first: the place to say no before it does harm.
        raise InputError(NO_FP16)

    def _company(self) -> Alone:
        """Return who takes this round's walk: one process, or several ranks."""
        if self._sync == "none" or not several(self._group, needed=self._sync == "leg"):
            return ALONE
        self._ranks = self._ranks or Ranks(self._group, self._size)
        self._ranks.device = self._held()[0].device
        return self._ranks

    def _held(self) -> list[nn.Parameter]:
        return [p for group in self.outer.param_groups for p in group["params"]]

    def _walking(self) -> list[nn.Parameter]:
        params = [p for p in self._held() if p.requires_grad]
        check_parameters(params, moves=self.inner_lr != 0)
        return params

    def _inner(self) -> Optimizer | None:
        """Return the inner optimizer over the outer one's parameters, in their order, so that a saved state fits again.

        Frozen ones wait without a gradient; those of a group added to the outer optimizer join at the end.
        """
        if self._inner_factory is None:
            return None
        if self.inner is None:
            self.inner = check_inner(self._inner_factory(self._held()))
        known = {p for group in self.inner.param_groups for p in group["params"]}
        self.inner.param_groups[0]["params"] += [p for p in self._held() if p not in known]
        for group in self.inner.param_groups:
            group["lr"] = self.inner_lr
        return self.inner

    def _deal(self, legs: Sequence[Any]) -> list[Sequence[Any]]:
        legs = list(legs)
        if not legs:
            raise InputError("a walk needs at least one leg, got none")
        if self.inner_steps == 1:
            return [[leg] for leg in legs]
        for i, leg in enumerate(legs):
            if not isinstance(leg, Sequence) or len(leg) != self.inner_steps:
                raise InputError(
                    f"leg {i} must be a sequence of {self.inner_steps} batches (inner_steps={self.inner_steps}), "
                    f"got {f'{len(leg)} of them' if isinstance(leg, Sequence) else type(leg).__name__}"
                )
        return legs

    @contextmanager
    def _order_kept_on_error(self) -> Iterator[None]:
        before = self.generator.get_state()
        try:
            yield
        except BaseException:
            self.generator.set_state(before)
            raise


def _generator_of_its_own() -> torch.Generator:
    """Make one from the global seed, so alike on every rank, and mixed, so not the stream that made the weights."""
    return torch.Generator().manual_seed((torch.initial_seed() ^ 0x5DEECE66D) & 0x7FFF_FFFF_FFFF_FFFF)
