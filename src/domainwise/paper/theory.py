"""Compute exactly what the paper argues: walks between bowls with known optima, and the memory of an Adam."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from domainwise.errors import InputError
from domainwise.losses import Batch
from domainwise.meta.combine import Weighted, arithmetic, constant, last
from domainwise.meta.optimizer import MetaOptimizer

if TYPE_CHECKING:
    pass


Leg = tuple[int, ...]  # the domains whose mean loss it follows


@dataclass(frozen=True)
class Bowls:
    """Losses ``(x - c)' A (x - c) / 2``, one per domain."""

    centres: Tensor  # (domains, parameters)
    curvatures: Tensor  # (domains, parameters, parameters), each positive definite

    def __len__(self) -> int:
        return len(self.centres)

    def loss(self, place: Tensor, domain: int) -> Tensor:
        """Return the loss of one domain at a point."""
        off = place - self.centres[domain]
        return off @ self.curvatures[domain] @ off / 2

    @property
    def centroid(self) -> Tensor:
        """The mean of the optima."""
        return self.centres.mean(0)

    @property
    def pooled(self) -> Tensor:
        """The point where the mean loss is lowest: nearer to the optima of steeper bowls."""
        pulls = torch.einsum("dij,dj->i", self.curvatures, self.centres)
        solved: Tensor = torch.linalg.solve(self.curvatures.sum(0), pulls)
        return solved


def three_bowls() -> Bowls:
    """Return three bowls on the corners of a triangle with sides of 4: the first is steep, the last flat and long."""
    centres = torch.tensor([[0.0, 0.0], [4.0, 0.0], [2.0, 12.0**0.5]], dtype=torch.float64)
    curvatures = torch.tensor([[2.0, 2.0], [1.0, 1.0], [0.3, 0.6]], dtype=torch.float64).diag_embed()
    return Bowls(centres, curvatures)


def ternary_bowls() -> Bowls:
    """Return three bowls of three parameters, the optimum of each on an axis of its own, 4 from the origin."""
    curvatures = torch.tensor([[1.0, 2.0, 2.0], [2.0, 1.0, 2.0], [2.0, 2.0, 1.0]], dtype=torch.float64)
    return Bowls(4 * torch.eye(3, dtype=torch.float64), curvatures.diag_embed())


@dataclass(frozen=True)
class Strategy:
    """A method: how it groups the domains of a round into legs, and how much each leg counts."""

    legs: Callable[[Sequence[int]], list[Leg]]
    combine: Weighted

    def weights(self, domains: int) -> list[float]:
        """Return one weight for each leg; all domains of a leg share it."""
        return self.combine.weights(len(self.legs(range(domains))))


def _together(order: Sequence[int]) -> list[Leg]:
    return [tuple(order)]


def _halved(order: Sequence[int]) -> list[Leg]:
    """Half to train on, half to test on; the first is larger where the number is odd."""
    half = (len(order) + 1) // 2
    return [tuple(order[:half]), tuple(order[half:])]


def _each(order: Sequence[int]) -> list[Leg]:
    return [(domain,) for domain in order]


STRATEGIES: Mapping[str, Strategy] = {
    "ERM": Strategy(_together, constant()),
    "MLDG": Strategy(_halved, constant()),
    "MAML": Strategy(_each, last()),
    "Fish": Strategy(_each, constant()),
    "Arith": Strategy(_each, arithmetic()),
}


def displacement(
    bowls: Bowls, start: Tensor, legs: Sequence[Leg], combine: Weighted, inner_lr: float, inner_steps: int = 1
) -> Tensor:
    """Return how far one round of plain interpolation moves ``start``, with the legs in the order given."""
    place = nn.Parameter(start.clone())
    meta = _meta(place, combine, inner_lr, inner_steps)
    meta.step(_loss(bowls, place), _batches(legs, inner_steps))
    return place.detach() - start


def visited(bowls: Bowls, start: Tensor, legs: Sequence[Leg], inner_lr: float, inner_steps: int = 1) -> Tensor:
    """Return the models of a walk, the start first: (legs + 1, parameters)."""
    ends = [start]
    for leg in legs:
        ends.append(ends[-1] + displacement(bowls, ends[-1], [leg], constant(), inner_lr, inner_steps))
    return torch.stack(ends)


def fan(bowls: Bowls, start: Tensor, inner_lr: float, inner_steps: int = 1, parts: int = 12) -> Tensor:
    """Return the displacements for all weights in steps of 1/parts that sum to one: (directions, parameters)."""
    n = len(bowls)
    rows = [row for row in product(range(parts + 1), repeat=n) if sum(row) == parts]
    legs = _each(range(n))
    return torch.stack([displacement(bowls, start, legs, _fixed(row, parts), inner_lr, inner_steps) for row in rows])


def path(
    bowls: Bowls,
    start: Tensor,
    strategy: Strategy,
    *,
    inner_lr: float,
    inner_steps: int = 1,
    rounds: int = 200,
    seed: int = 0,
) -> Tensor:
    """Run plain interpolation, with a new random order of domains in every round: (rounds + 1, parameters)."""
    place = nn.Parameter(start.clone())
    meta = _meta(place, strategy.combine, inner_lr, inner_steps)
    generator = torch.Generator().manual_seed(seed)
    places = [start]
    for _ in range(rounds):
        order = torch.randperm(len(bowls), generator=generator).tolist()
        meta.step(_loss(bowls, place), _batches(strategy.legs(order), inner_steps))
        places.append(place.detach().clone())
    return torch.stack(places)


@dataclass(frozen=True)
class End:
    """The end of a path, averaged over its second half: the random order makes a method wander however long it runs."""

    mean: Tensor
    off_centroid: float  # distance of the mean from the centroid
    wander: float  # root of the mean squared distance from the mean
    distances: list[float]  # from the mean to every optimum

    @property
    def variation(self) -> float:
        """The coefficient of variation of the distances: 0 is equally far from every optimum."""
        distances = torch.tensor(self.distances)
        return float(distances.std(correction=0) / distances.mean())


def end(bowls: Bowls, places: Tensor) -> End:
    """Summarise where a path ends."""
    settled = places[len(places) // 2 :]
    mean = settled.mean(0)
    return End(
        mean,
        float((mean - bowls.centroid).norm()),
        float((settled - mean).square().sum(1).mean().sqrt()),
        (bowls.centres - mean).norm(dim=1).tolist(),
    )


def _meta(place: nn.Parameter, combine: Weighted, inner_lr: float, inner_steps: int) -> MetaOptimizer:
    outer = torch.optim.SGD([place], lr=inner_lr)
    return MetaOptimizer(outer, combine, inner_lr=inner_lr, inner_steps=inner_steps, shuffle=False, sync="none")


def _loss(bowls: Bowls, place: Tensor) -> Callable[[Leg], Tensor]:
    return lambda leg: torch.stack([bowls.loss(place, domain) for domain in leg]).mean()


def _batches(legs: Sequence[Leg], inner_steps: int) -> Sequence[object]:
    return legs if inner_steps == 1 else [[leg] * inner_steps for leg in legs]


def _fixed(row: Sequence[int], parts: int) -> Weighted:
    return Weighted(lambda n: [part / parts for part in row])


Shares = list[list[float]]  # after every step, of every domain; each row sums to one


def expected(steps: int, domains: int = 3, beta: float = 0.9, inner_steps: int = 1) -> Shares:
    """Return the shares of domains with equally long gradients, visited in turn for ``inner_steps`` steps each."""
    if not 0 <= beta < 1 or min(steps, domains, inner_steps) < 1:
        raise InputError("beta must be from 0 up and below 1; steps, domains and inner_steps must be 1 or more")
    parts, rows = [0.0] * domains, []
    for step in range(steps):
        parts = [beta * part for part in parts]
        parts[step // inner_steps % domains] += 1.0
        rows.append([part / sum(parts) for part in parts])
    return rows


@dataclass(frozen=True)
class Followed:
    """The shares measured along a walk, and how exact they are."""

    shares: Shares  # of the lengths of the domains' parts
    error: float  # the largest difference between the parts' sum and the optimizer's own memory, relative to the latter


class _Follower:
    """Watches an Adam step by step and keeps what each domain has contributed to ``exp_avg``."""

    def __init__(self, domains: int, inner_steps: int, beta: float) -> None:
        self.domains, self.inner_steps, self.beta = domains, inner_steps, beta
        self.parts: Tensor | None = None  # (domains, parameters)
        self.shares: Shares = []
        self.error = 0.0

    def adam(self, params: list[nn.Parameter]) -> torch.optim.Adam:
        optimizer = torch.optim.Adam(params, betas=(self.beta, 0.999))
        optimizer.register_step_post_hook(self.after)
        return optimizer

    def after(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        used = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        gradient = torch.cat([p.grad.flatten() for p in used if p.grad is not None])
        memory = torch.cat([optimizer.state[p]["exp_avg"].flatten() for p in used])
        if self.parts is None:
            self.parts = torch.zeros(self.domains, len(gradient), dtype=gradient.dtype, device=gradient.device)
        turn = len(self.shares) // self.inner_steps % self.domains
        self.parts *= self.beta
        self.parts[turn] += (1 - self.beta) * gradient
        lengths = self.parts.norm(dim=1)
        self.shares.append((lengths / lengths.sum()).tolist())
        self.error = max(self.error, float((self.parts.sum(0) - memory).norm() / memory.norm()))


def followed(
    params: Sequence[nn.Parameter],
    loss: Callable[[Batch], Tensor],
    rounds: Sequence[Sequence[Any]],
    *,
    beta: float = 0.9,
    inner_steps: int = 1,
    lr: float = 1e-3,
) -> Followed:
    """Walk with an Adam that keeps its memory, in the order given, and measure each domain's part of it.

    ``rounds`` holds the legs of each :meth:`MetaOptimizer.step`; the parameters move as they do in training.
    """
    follower = _Follower(len(rounds[0]), inner_steps, beta)
    outer = torch.optim.Adam(params, lr=lr)
    meta = MetaOptimizer(outer, inner_lr=lr, inner_steps=inner_steps, inner=follower.adam, shuffle=False, sync="none")
    for legs in rounds:
        meta.step(loss, legs)
    return Followed(follower.shares, follower.error)
