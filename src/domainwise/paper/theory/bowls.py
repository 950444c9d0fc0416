"""Toy domains whose losses are bowls with known optima, so that the path of every method can be computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor, nn

from domainwise.meta.combine import Weighted, arithmetic, constant, last
from domainwise.meta.optimizer import MetaOptimizer

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
