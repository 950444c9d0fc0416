"""Three updates of every algorithm that combines gradients, against its published formula."""

from __future__ import annotations

import copy

import pytest
import torch
from made_updates import (
    DECAY,
    LR,
    UNEQUAL,
    Adam,
    Batches,
    Memory,
    assert_same,
    batches,
    domain_risks,
    follow,
    mean,
    network,
)
from torch import Tensor
from torch.autograd import grad
from torch.nn import functional as F

from domainwise import Network
from domainwise.algorithms import create


def domain_gradients(net: Network, data: Batches) -> list[Tensor]:
    """Per parameter, the gradients of all domains stacked."""
    each = [grad(risk, list(net.parameters())) for risk in domain_risks(net, data)]
    return [torch.stack(gradients) for gradients in zip(*each, strict=True)]


def masked(gradients: Tensor, mask: Tensor) -> Tensor:
    return mask * gradients.mean(0) / (1e-10 + mask.sum() / mask.numel())


@pytest.mark.parametrize("tau", [0.2, 1.0])
def test_andmask(tau) -> None:
    def rule(net: Network, data: Batches, memory: Memory) -> list[Tensor]:
        stacks = domain_gradients(net, data)
        return [masked(g, ((g.sign().sum(0) / len(g)).abs() >= tau).double()) for g in stacks]

    follow(rule, f"andmask(tau={tau})", sizes=UNEQUAL)


@pytest.mark.parametrize(("tau", "k"), [(0.5, 10.0), (0.2, 1e-3)])
def test_sandmask(tau, k) -> None:
    def rule(net: Network, data: Batches, memory: Memory) -> list[Tensor]:
        directions = []
        for g in domain_gradients(net, data):
            variance = ((g - g.mean(0)) ** 2).sum(0) / (len(g) - 1)
            agreement = (g.sign().sum(0) / len(g)).abs()
            directions.append(masked(g, torch.tanh(k / variance * (agreement - tau)).clamp(min=0)))
        return directions

    follow(rule, f"sandmask(tau={tau}, k={k})", sizes=UNEQUAL)


def test_domainbeds_default_of_sandmask_trains_nothing() -> None:
    net = network()
    before = copy.deepcopy(net)
    create("sandmask", tau=1.0, lr=LR).setup(net).update(batches(0, [8, 8, 8]))
    assert_same(net, before)


@pytest.mark.parametrize(
    ("settings", "pairs"),
    [
        ("", [(2, 0), (0, 1), (1, 2)]),
        ("pairs='split'", [(2, 1), (0, 1)]),
        ("pairs='split', held_out=2", [(2, 0)]),
    ],
)
def test_mldg(settings, pairs, monkeypatch) -> None:
    def rule(net: Network, data: Batches, memory: Memory) -> list[Tensor]:
        total = [torch.zeros_like(p) for p in net.parameters()]
        for i, j in pairs:
            clone = copy.deepcopy(net)
            params = list(clone.parameters())
            first = grad(domain_risks(clone, data)[i], params)
            Adam(params).step(list(first))
            second = grad(domain_risks(clone, data)[j], params)
            total = [t + (a + 0.7 * b) / len(data) for t, a, b in zip(total, first, second, strict=True)]
        return total

    monkeypatch.setattr("domainwise.meta.optimizer.MetaOptimizer.order", lambda self, n: [2, 0, 1])
    follow(rule, f"mldg(beta=0.7, {settings})", sizes=UNEQUAL)


@pytest.mark.parametrize("sizes", [(8, 3), UNEQUAL, (4, 5, 2, 6), (3, 4, 5, 2, 6)])
def test_mldg_in_halves_takes_two_even_steps_of_the_domains_put_together(sizes, monkeypatch) -> None:
    order, beta = [*range(1, len(sizes)), 0], 0.7
    learn, help_ = order[: (len(order) + 1) // 2], order[(len(order) + 1) // 2 :]

    def slope(net: Network, data: Batches, domains: list[int]) -> list[Tensor]:
        total = sum(F.cross_entropy(net(data[i][0]), data[i][1], reduction="sum") for i in domains)
        return list(grad(total / sum(len(data[i][1]) for i in domains), list(net.parameters())))

    monkeypatch.setattr("domainwise.meta.optimizer.MetaOptimizer.order", lambda self, n: order)
    mldg = create("mldg", pairs="halves", beta=beta, lr=LR, weight_decay=DECAY).setup(network())
    twin = copy.deepcopy(mldg.net)
    adam = Adam(list(twin.parameters()))
    for step in range(3):
        data = batches(step, list(sizes))
        mldg.update(data)
        first, moved = slope(twin, data, learn), copy.deepcopy(twin)
        Adam(list(moved.parameters())).step(first)
        second = slope(moved, data, help_)
        adam.step([a + beta * b for a, b in zip(first, second, strict=True)])
        for p, q in zip(mldg.net.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(p, q, atol=1e-12, rtol=0)


def test_mldg_reports_the_weighted_losses_it_met(monkeypatch) -> None:
    mldg = create("mldg", lr=1e-12, beta=0.5).setup(network())
    data = batches(0, [8, 8, 8])
    expected = 1.5 * mean(domain_risks(mldg.net, data)).item()
    assert mldg.update(data)["loss"].item() == pytest.approx(expected, rel=1e-6)


def test_mldg_draws_every_order_of_the_domains() -> None:
    mldg = create("mldg").setup(network(), seed=0)
    assert len({tuple(mldg.optimizer.order(3)) for _ in range(60)}) == 6
