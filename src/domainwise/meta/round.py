"""Take a round apart: return to the start, steps on a leg, the sum of the legs, and the network's buffers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from domainwise.errors import InputError
from domainwise.meta.combine import Combine, Weighted

Gradients = Sequence[Tensor | None]  # one per parameter; None where the loss does not depend on it


class Rewind:
    """Bring the parameters back at the end of a round, and everything else a failed round touched.

    ``start`` holds one copy of the parameters, or nothing where the round does not move them. ``held`` are all that
    the outer optimizer holds: a frozen one must not keep the gradient it once had, or the optimizers would follow it.
    """

    def __init__(
        self,
        params: list[nn.Parameter],
        held: list[nn.Parameter],
        inner: Optimizer | None,
        buffers: Buffers,
        moves: bool,
    ) -> None:
        self.params, self.held, self.inner, self.buffers, self.moves = params, held, inner, buffers, moves

    def __enter__(self) -> Rewind:
        self.start = [p.detach().clone() for p in self.params] if self.moves else []
        self.gradients = [p.grad for p in self.held]
        self.state = {} if self.inner is None else {p: _copied(state) for p, state in self.inner.state.items()}
        for p in self.held:
            p.grad = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.go_back()
        if kind is None:
            self.buffers.finish()
            return
        for p, gradient in zip(self.held, self.gradients, strict=True):
            p.grad = gradient
        if self.inner is not None:
            self.inner.state.clear()
            self.inner.state.update(self.state)
        self.buffers.restore()

    @torch.no_grad()
    def go_back(self) -> None:
        """Give the parameters the values they had at the start."""
        if self.moves:
            torch._foreach_copy_(tuple(self.params), self.start)
        torch.clear_autocast_cache()


def _copied(state: dict[str, object]) -> dict[str, object]:
    return {key: value.clone() if isinstance(value, Tensor) else value for key, value in state.items()}


class Buffers:
    """Follow batch-norm statistics and the like along a walk; without a module they stay where it leaves them."""

    def __init__(self, module: nn.Module | None, policy: str) -> None:
        self.module, self.policy, self.legs = module, policy, 0
        self.start = [b.clone() for b in self._live()]
        self.sums = [torch.zeros_like(b) for b in self._mixed()]

    def _live(self) -> list[Tensor]:
        # Asked for anew each time: a forward pass may put another tensor in a buffer's place.
        return [] if self.module is None else list(self.module.buffers())

    def _mixed(self) -> list[Tensor]:
        # A mean of counters (num_batches_tracked) means nothing: integers stay at the end of the walk.
        return [b for b in self._live() if self.policy == "mean" and b.is_floating_point()]

    @torch.no_grad()
    def leave_leg(self) -> None:
        self.legs += 1
        for total, buffer in zip(self.sums, self._mixed(), strict=True):
            total.add_(buffer)

    @torch.no_grad()
    def finish(self) -> None:
        if self.policy == "start":
            self.restore()
        for total, buffer in zip(self.sums, self._mixed(), strict=True):
            buffer.copy_(total / self.legs)

    @torch.no_grad()
    def restore(self) -> None:
        for buffer, start in zip(self._live(), self.start, strict=True):
            buffer.copy_(start)


class Total(Protocol):
    """Add up the legs. ``i`` counts the visits."""

    def add(self, i: int, gradients: Gradients) -> None: ...
    def reach(self, i: int, offset: Gradients) -> None: ...
    def direction(self) -> list[Tensor | None]: ...


def total_of(combine: Combine, legs: int, params: int) -> Total:
    """Return what adds up the legs for a combine."""
    return Sum(combine.weights(legs), params) if isinstance(combine, Weighted) else Stack(combine, legs, params)


class Sum:
    """Sum by weights, in one copy of the parameters however many legs there are."""

    def __init__(self, weights: Sequence[float], params: int) -> None:
        self.weights = [*weights, 0.0]
        self.total: list[Tensor | None] = [None] * params

    def add(self, i: int, gradients: Gradients) -> None:
        _accumulate(self.total, gradients, self.weights[i])

    def reach(self, i: int, offset: Gradients) -> None:
        """Count a leg that is known by where it ended: ``offset`` is the start minus the model after leg i.

        A leg is the difference of two of them, so an offset counts for its own weight and against the next one. For
        arithmetic weights that is the plain mean of the models.
        """
        _accumulate(self.total, offset, self.weights[i] - self.weights[i + 1])

    def direction(self) -> list[Tensor | None]:
        return self.total


class Stack:
    """Keep every leg, for combines that have to see them side by side."""

    def __init__(self, combine: Combine, legs: int, params: int) -> None:
        assert not isinstance(combine, Weighted)
        self.combine = combine
        self.legs: list[list[Tensor | None]] = [[None] * params for _ in range(legs)]

    def add(self, i: int, gradients: Gradients) -> None:
        _accumulate(self.legs[i], gradients, 1.0)

    def reach(self, i: int, offset: Gradients) -> None:
        _accumulate(self.legs[i], offset, 1.0)
        if i + 1 < len(self.legs):
            _accumulate(self.legs[i + 1], offset, -1.0)

    def direction(self) -> list[Tensor | None]:
        return [self._combined(gradients) for gradients in zip(*self.legs, strict=True)]

    def _combined(self, gradients: Gradients) -> Tensor | None:
        known = next((g for g in gradients if g is not None), None)
        if known is None:
            return None
        combined = self.combine(torch.stack([torch.zeros_like(known) if g is None else g for g in gradients]))
        if combined.shape != known.shape:
            raise InputError(
                f"a combine must make one gradient of shape {tuple(known.shape)} out of {len(gradients)} of them, "
                f"got one of shape {tuple(combined.shape)}"
            )
        return combined


def _accumulate(total: list[Tensor | None], gradients: Gradients, weight: float) -> None:
    """Add ``weight * gradients`` to the total.

    The first of them is never taken over as it is: autograd may hand out the same tensor for two parameters, or one
    expanded from a scalar.
    """
    if weight == 0:
        return
    old = [(t, g) for t, g in zip(total, gradients, strict=True) if t is not None and g is not None]
    new = [(j, g) for j, g in enumerate(gradients) if g is not None and total[j] is None]
    if old:
        torch._foreach_add_([t for t, _ in old], [g for _, g in old], alpha=weight)
    if new:
        for (j, _), g in zip(new, torch._foreach_mul([g for _, g in new], weight), strict=True):
            total[j] = g


def laid_out(gradients: Gradients, params: list[nn.Parameter]) -> list[Tensor | None]:
    """Lay gradients out as ``backward`` would leave them: each in memory of its own, like its parameter's.

    A fused optimizer reads both from end to end and would silently mix up the entries of a gradient that is transposed
    or expanded; one that works in place would add to a gradient twice that two parameters share.
    """
    taken: set[int] = set()
    result: list[Tensor | None] = []
    for g, p in zip(gradients, params, strict=True):
        if g is not None and g.layout == torch.strided:
            if g.stride() != p.stride() or g.data_ptr() in taken:
                g = torch.empty_like(p).copy_(g)
            taken.add(g.data_ptr())
        result.append(g)
    return result


def weighted_sum(parts: Iterable[tuple[float, tuple[Tensor, Gradients]]]) -> tuple[Tensor, Gradients]:
    """Return the loss and the gradients of a whole from those of its parts, each of which has a share of it.

    A whole that comes alone is returned as it is; otherwise no more than one part is held beside the sum.
    """
    total: Tensor = torch.zeros(())
    sums: list[Tensor | None] = []
    for n, (share, (value, gradients)) in enumerate(parts):
        if share == 1:
            return value, gradients
        if n == 0:
            total, sums = value * share, [None if g is None else g * share for g in gradients]
        else:
            total = total + value * share
            sums = [_plus(s, g, share) for s, g in zip(sums, gradients, strict=True)]
    return total, sums


def _plus(total: Tensor | None, gradient: Tensor | None, share: float) -> Tensor | None:
    if total is None or gradient is None:
        return total if gradient is None else gradient * share
    return torch.add(total, gradient, alpha=share)


class Plain:
    """Take a plain gradient step; a subclass is another step that keeps nothing from one to the next."""

    def __call__(self, params: list[Tensor], gradients: list[Tensor], lr: float) -> None:
        """Move the parameters in place."""
        torch._foreach_add_(params, gradients, alpha=-lr)


class Descent:
    """Step without a memory: a leg is the sum of its raw gradients, exact, and nothing is kept between rounds."""

    def __init__(self, params: list[nn.Parameter], lr: float, total: Total, plain: Plain) -> None:
        self.params, self.lr, self.total, self.plain = params, lr, total, plain

    @torch.no_grad()
    def step(self, i: int, gradients: Gradients, final: bool) -> None:
        self.total.add(i, gradients)
        # Nobody looks at the very end of a walk: its gradients are already taken.
        if self.lr != 0 and not final:
            used = [(p, g) for p, g in zip(self.params, gradients, strict=True) if g is not None]
            if used:
                self.plain([p for p, _ in used], [g for _, g in used], self.lr)

    def leave_leg(self, i: int) -> None:
        pass


class Stateful:
    """Walk by an optimizer with a memory: a leg is the displacement it made, in units of its learning rate."""

    def __init__(
        self, params: list[nn.Parameter], inner: Optimizer, lr: float, start: list[Tensor], total: Total
    ) -> None:
        self.params, self.inner, self.lr, self.start, self.total = params, inner, lr, start, total
        self.used = [False] * len(params)

    def step(self, i: int, gradients: Gradients, final: bool) -> None:
        for j, (p, g) in enumerate(zip(self.params, laid_out(gradients, self.params), strict=True)):
            p.grad = g
            self.used[j] |= g is not None
        self.inner.step()
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def leave_leg(self, i: int) -> None:
        offset = torch._foreach_sub(self.start, tuple(self.params))
        torch._foreach_div_(offset, self.lr)
        self.total.reach(i, [o if used else None for o, used in zip(offset, self.used, strict=True)])
