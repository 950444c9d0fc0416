"""Domains whose losses are bowls with known optima: where a walk heads, and where a method ends, can be computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor, nn

from domainwise.meta.combine import Weighted, arithmetic, constant, last
from domainwise.meta.optimizer import MetaOptimizer

Leg = tuple[int, ...]  # the domains whose mean loss it descends


@dataclass(frozen=True)
class Bowls:
    """Losses ``(x - c)' A (x - c) / 2``, one per domain."""

    centres: Tensor  # (domains, parameters)
    curvatures: Tensor  # (domains, parameters, parameters), each positive definite

    def __len__(self) -> int:
        return len(self.centres)

    def loss(self, place: Tensor, domain: int) -> Tensor:
        off = place - self.centres[domain]
        return off @ self.curvatures[domain] @ off / 2

    @property
    def centroid(self) -> Tensor:
        return self.centres.mean(0)

    @property
    def pooled(self) -> Tensor:
        """Where the mean loss is lowest: nearer to the optima of steeper bowls."""
        pulls = torch.einsum("dij,dj->i", self.curvatures, self.centres)
        solved: Tensor = torch.linalg.solve(self.curvatures.sum(0), pulls)
        return solved


def three_bowls() -> Bowls:
    """Optima on the corners of a triangle with sides of 4; the first bowl is steep, the last one flat and long."""
    centres = torch.tensor([[0.0, 0.0], [4.0, 0.0], [2.0, 12.0**0.5]], dtype=torch.float64)
    curvatures = torch.tensor([[2.0, 2.0], [1.0, 1.0], [0.3, 0.6]], dtype=torch.float64).diag_embed()
    return Bowls(centres, curvatures)


@dataclass(frozen=True)
class Strategy:
    """How domains in the order of a visit are dealt into legs, and how much each leg counts."""

    deal: Callable[[Sequence[int]], list[Leg]]
    combine: Weighted

    def weights(self, domains: int) -> list[float]:
        """One for each leg, the same for all its domains."""
        return self.combine.weights(len(self.deal(range(domains))))


def _together(order: Sequence[int]) -> list[Leg]:
    return [tuple(order)]


def _halved(order: Sequence[int]) -> list[Leg]:
    """To train on, then to test on, as evenly as it goes."""
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
    """What one round of plain interpolation would move ``start`` by, with the legs in the order given."""
    place = nn.Parameter(start.clone())
    meta = _meta(place, combine, inner_lr, inner_steps)
    meta.step(_loss(bowls, place), _dealt(legs, inner_steps))
    return place.detach() - start


def visited(bowls: Bowls, start: Tensor, legs: Sequence[Leg], inner_lr: float, inner_steps: int = 1) -> Tensor:
    """(legs + 1, parameters): the models of a walk, the start first."""
    ends = [start]
    for leg in legs:
        ends.append(ends[-1] + displacement(bowls, ends[-1], [leg], constant(), inner_lr, inner_steps))
    return torch.stack(ends)


def fan(bowls: Bowls, start: Tensor, inner_lr: float, inner_steps: int = 1, parts: int = 12) -> Tensor:
    """(directions, parameters): displacements for weights from 0 to 1 in steps of 1/parts that sum to one."""
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
    """(rounds + 1, parameters): plain interpolation, the domains in a new random order in every round."""
    place = nn.Parameter(start.clone())
    meta = _meta(place, strategy.combine, inner_lr, inner_steps)
    generator = torch.Generator().manual_seed(seed)
    places = [start]
    for _ in range(rounds):
        order = torch.randperm(len(bowls), generator=generator).tolist()
        meta.step(_loss(bowls, place), _dealt(strategy.deal(order), inner_steps))
        places.append(place.detach().clone())
    return torch.stack(places)


@dataclass(frozen=True)
class End:
    """Of a path, over its second half: the order of visits makes a method wander, however long it runs."""

    mean: Tensor
    off_centroid: float  # of the mean
    wander: float  # root of the mean squared distance from the mean
    distances: list[float]  # from the mean to every optimum

    @property
    def variation(self) -> float:
        """Coefficient of variation of the distances: 0 is equally far from every optimum."""
        found = torch.tensor(self.distances)
        return float(found.std(correction=0) / found.mean())


def end(bowls: Bowls, places: Tensor) -> End:
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


def _dealt(legs: Sequence[Leg], inner_steps: int) -> Sequence[object]:
    return legs if inner_steps == 1 else [[leg] * inner_steps for leg in legs]


def _fixed(row: Sequence[int], parts: int) -> Weighted:
    return Weighted(lambda n: [part / parts for part in row])
