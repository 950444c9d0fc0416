"""The paper's equations, met by the walk itself."""

from __future__ import annotations

from itertools import pairwise, permutations
from math import prod

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st
from torch import Tensor, nn
from torch.optim import SGD

from domainwise import MetaOptimizer, arithmetic, constant, last, weighted

few = settings(
    max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
CORNERS = torch.tensor([[0.0, 0.0], [4.0, 0.0], [2.0, 12.0**0.5]], dtype=torch.float64)  # all 4 apart


def interpolation(params, combine, alpha, **settings):
    """The plain form of the outer loop: no optimizer but a move along the combined displacements."""
    return MetaOptimizer(SGD(params, lr=alpha), combine, inner_lr=alpha, shuffle=False, **settings)


def grad_of(problem, batch) -> Tensor:
    return torch.cat([g.flatten() for g in torch.autograd.grad(problem.loss(batch), list(problem.net.parameters()))])


@few
@given(
    n=st.integers(1, 6),
    k=st.integers(1, 3),
    epsilon=st.floats(0, 20),
    alpha=st.floats(1e-4, 0.5),
    seed=st.integers(0, 99),
)
def test_arithmetic_weights_head_for_the_mean_of_the_models_visited_eq_5_and_6(problem, n, k, epsilon, alpha, seed):
    task = problem(n, seed)
    legs = [task.batches(k) for _ in range(n)]
    models, _ = task.walked(alpha, legs)
    meta = interpolation(task.net.parameters(), arithmetic(epsilon), alpha, inner_steps=k)
    meta.step(task.loss, task.as_given(legs))
    mean = (epsilon * models[0] + sum(models[1:])) / (n + epsilon)
    torch.testing.assert_close(task.vector(), mean, rtol=0, atol=1e-12)


@few
@given(
    weights=st.lists(st.floats(-2, 2), min_size=1, max_size=5),
    k=st.integers(1, 3),
    alpha=st.floats(0, 0.5),
)
def test_the_direction_is_the_weighted_sum_of_the_legs_eq_4(problem, weights, k, alpha):
    task = problem()
    legs = [task.batches(k) for _ in weights]
    _, gradients = task.walked(alpha, legs)
    meta = MetaOptimizer(
        SGD(task.net.parameters()), weighted(lambda n: weights), inner_lr=alpha, inner_steps=k, shuffle=False
    )
    task.net.zero_grad()
    meta.gradient(task.loss, task.as_given(legs))
    got = torch.zeros_like(gradients[0]) if not any(weights) else task.grad()
    torch.testing.assert_close(got, sum(w * g for w, g in zip(weights, gradients, strict=True)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "combine",
    [arithmetic(), constant(), last(), weighted(lambda n: [0.3, -1.2, 2.0, 0.7])],
    ids=["arithmetic", "constant", "last", "arbitrary"],
)
def test_any_weights_match_gradients_the_remainder_of_eq_3_is_of_second_order(problem, combine):
    task = problem(4)
    weights = torch.tensor(combine.weights(4), dtype=torch.float64)
    gradients = torch.stack([grad_of(task, leg) for leg in task.legs])
    at_start = torch.stack([task.loss(leg) for leg in task.legs]).detach()
    products = (gradients @ gradients.T).tril(-1).sum(1)  # with every leg visited before

    def remainder(alpha: float) -> Tensor:
        met = interpolation(task.net.parameters(), combine, alpha).gradient(task.loss, task.legs)
        return (weights * (met - at_start + alpha * products)).sum()

    remainders = [remainder(alpha) for alpha in (4e-2, 2e-2, 1e-2, 5e-3)]
    for whole, half in pairwise(remainders):
        assert whole / half == pytest.approx(4, rel=0.05)


def test_over_all_orders_arith_is_fish_with_a_shorter_step_to_first_order(problem):
    """Three domains, one step on each, the mean over all orders: what differs is of second order in the step."""
    task = problem(3)

    def expected(combine, alpha: float) -> Tensor:
        directions = []
        for order in permutations(range(3)):
            meta = interpolation(task.net.parameters(), combine, alpha)
            meta.gradient(task.loss, [task.legs[i] for i in order])
            directions.append(task.grad().clone())
        return torch.stack(directions).mean(0)

    def apart(alpha: float) -> list[float]:
        arith = expected(arithmetic(), alpha)
        others = [(constant(), 2 / 3 * alpha), (last(), alpha / 3), (constant(), 1e-12)]  # Fish, MAML, ERM
        return [float((arith - expected(combine, step)).norm()) for combine, step in others]

    (fish, maml, erm), (less_fish, less_maml, less_erm) = apart(1e-2), apart(5e-3)
    assert (fish / less_fish, maml / less_maml) == pytest.approx((4, 4), rel=0.05)
    assert erm / less_erm == pytest.approx(2, rel=0.05)
    assert max(fish, maml) < erm / 20


class Valleys:
    """A quadratic loss per domain, with known optima; domain i pulls with its own strength."""

    def __init__(self, optima: Tensor, strengths: tuple[float, ...] = (1.0, 1.0, 1.0)) -> None:
        self.optima, self.strengths = optima, strengths
        self.theta = nn.Parameter(torch.tensor([-3.0, 5.0], dtype=torch.float64))

    def loss(self, i: int) -> Tensor:
        return self.strengths[i] / 2 * (self.theta - self.optima[i]).square().sum()

    def distances(self) -> Tensor:
        return (self.theta.detach() - self.optima).norm(dim=1)


@pytest.mark.parametrize("visited", [1, 2, 3])
@pytest.mark.parametrize("k", [1, 4])
def test_every_model_visited_is_the_average_of_start_and_optima_of_eq_11(visited, k):
    valleys, alpha = Valleys(CORNERS, strengths=(0.5, 2.0, 1.0)), 0.1
    start = valleys.theta.detach().clone()
    etas = [1 - (1 - alpha * c) ** k for c in valleys.strengths[:visited]]
    expected = prod(1 - eta for eta in etas) * start
    for j, eta in enumerate(etas):
        expected = expected + prod(1 - later for later in etas[j + 1 :]) * eta * CORNERS[j]
    meta = interpolation([valleys.theta], constant().scaled(visited), alpha, inner_steps=k)
    meta.step(valleys.loss, [[i] * k if k > 1 else i for i in range(visited)])
    torch.testing.assert_close(valleys.theta.detach(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 3.0])
def test_many_steps_on_a_leg_head_for_the_centroid_of_the_optima_eq_13(epsilon):
    valleys = Valleys(CORNERS)
    expected = (epsilon * valleys.theta.detach() + CORNERS.sum(0)) / (3 + epsilon)
    meta = interpolation([valleys.theta], arithmetic(epsilon), 0.5, inner_steps=60)
    meta.step(valleys.loss, [[i] * 60 for i in range(3)])
    torch.testing.assert_close(valleys.theta.detach(), expected, rtol=0, atol=1e-12)


def converged(combine) -> Tensor:
    valleys = Valleys(CORNERS)
    meta = interpolation([valleys.theta], combine, 0.3, inner_steps=30)
    for _ in range(30):
        meta.step(valleys.loss, [[i] * 30 for i in range(3)])
    return valleys.distances()


def test_constant_weights_end_at_the_last_domain_visited_arithmetic_ones_between_all():
    fish, arith = converged(constant()), converged(arithmetic())
    assert fish[2] < 1e-3 < 3.9 < fish[:2].min()
    torch.testing.assert_close(arith, arith.mean().expand(3), rtol=0, atol=1e-3)
    assert arith.max() < fish.max()
