"""Combine the gradients of the legs of a walk into one direction.

A combine is either :class:`Weighted`, one number per leg in the order of the visits, which is summed up on the fly, or
any function from the stacked leg gradients of one parameter, shape ``(n, *parameter.shape)``, to one of the
parameter's shape, which needs all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from domainwise.errors import InputError, typed


@dataclass(frozen=True)
class Weighted:
    """Sum the leg gradients, the i-th leg visited counting ``rule(n)[i]``."""

    rule: Callable[[int], Sequence[float]]
    scale: float = 1.0

    def weights(self, n: int) -> list[float]:
        """Return the weights of a walk over ``n`` legs."""
        weights = [self.scale * float(w) for w in self.rule(n)]
        if len(weights) != n:
            raise InputError(f"the weights of a walk over {n} legs must be {n} numbers, got {len(weights)}: {weights}")
        return weights

    def scaled(self, scale: float) -> Weighted:
        """Return the same combine, its direction times ``scale``."""
        return Weighted(self.rule, self.scale * scale)


Combine = Weighted | Callable[[Tensor], Tensor]


@typed
def arithmetic(epsilon: float | None = None) -> Weighted:
    """Head for the mean of the models visited (Eq. 6 of Arith): ``(n, n-1, ..., 1) / (n + epsilon)``.

    ``epsilon`` is the weight of the starting point in that mean. None makes the weights sum to one.
    """
    return Weighted(partial(_arithmetic, epsilon))


def _arithmetic(epsilon: float | None, n: int) -> list[float]:
    total = n * (n + 1) / 2 if epsilon is None else n + epsilon
    if total <= 0:
        raise InputError(f"arithmetic(epsilon={epsilon}): n + epsilon must be positive, and n is {n}")
    return [(n - i) / total for i in range(n)]


@typed
def constant() -> Weighted:
    """Head for the end of the walk (Fish, Reptile): ``1/n`` each."""
    return Weighted(_constant)


def _constant(n: int) -> list[float]:
    return [1.0 / n] * n


@typed
def last() -> Weighted:
    """Follow only the gradient met at the end of the walk (first-order MAML): ``(0, ..., 0, 1)``."""
    return Weighted(_last)


def _last(n: int) -> list[float]:
    return [0.0] * (n - 1) + [1.0]


@typed
def weighted(weights: Callable[[int], Sequence[float]]) -> Weighted:
    """Weigh the legs by a function from their number to one number per leg, in the order of the visits."""
    return Weighted(weights)


@typed
def and_mask(tau: float) -> Callable[[Tensor], Tensor]:
    """Keep the entries whose sign agrees in the legs to at least ``tau``; the rest is zero (Parascandolo et al., 2021).

    What is left is divided by the share of entries kept, separately for every parameter tensor.
    """
    return partial(_and_mask, tau)


def _and_mask(tau: float, gradients: Tensor) -> Tensor:
    mask = (gradients.sign().mean(0).abs() >= tau).to(gradients.dtype)
    return mask * gradients.mean(0) / (1e-10 + mask.mean())


@typed
def sand_mask(tau: float, k: float) -> Callable[[Tensor], Tensor]:
    """Mask smoothly, sharper where the legs differ little: ``relu(tanh(k/var * (agreement - tau)))``.

    Shahtalebi et al., 2021. The variance over the legs is the unbiased one.
    """
    return partial(_sand_mask, tau, k)


def _sand_mask(tau: float, k: float, gradients: Tensor) -> Tensor:
    agreement = gradients.sign().mean(0).abs()
    # One leg has no variance; upstream's stand-in for it is 1e-17.
    variance = gradients.var(0) if len(gradients) > 1 else torch.full_like(agreement, 1e-17)
    # 0/0 where the legs are equal to the last bit and agree exactly to tau: no reason to keep such an entry.
    mask = torch.relu(torch.tanh(torch.nan_to_num(k * (agreement - tau) / variance, nan=0.0)))
    return mask * gradients.mean(0) / (1e-10 + mask.mean())


MAKERS: tuple[Callable[..., Combine], ...] = (arithmetic, constant, last, weighted, and_mask, sand_mask)
