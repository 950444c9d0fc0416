"""Training by name and by a formula restated with loops and plain autograd, side by side in float64."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import grad
from torch.nn import functional as F

from domainwise import Network
from domainwise.algorithms import create

LR, DECAY, CLASSES = 1e-2, 1e-3, 3
Batches = list[tuple[Tensor, Tensor]]
Memory = dict[str, Any]
Rule = Callable[[Network, Batches, Memory], "Tensor | list[Tensor]"]


class Adam:
    """Restated: L2 inside the gradient, bias-corrected moments, epsilon outside the root."""

    def __init__(self, params: list[Tensor]) -> None:
        self.params, self.t = params, 0
        self.m, self.v = ([torch.zeros_like(p) for p in params] for _ in range(2))

    @torch.no_grad()
    def step(self, gradients: list[Tensor], lr: float = LR) -> None:
        self.t += 1
        for p, g, m, v in zip(self.params, gradients, self.m, self.v, strict=True):
            g = g + DECAY * p
            m += 0.1 * (g - m)
            v += 0.001 * (g * g - v)
            p -= lr * (m / (1 - 0.9**self.t)) / ((v / (1 - 0.999**self.t)).sqrt() + 1e-8)


def network(channels: int = 1) -> Network:
    torch.manual_seed(1)
    featurizer = nn.Sequential(nn.Conv2d(channels, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(18, 6), nn.Softplus())
    return Network(featurizer, nn.Linear(6, CLASSES)).double()


def batches(step: int, sizes: list[int]) -> Batches:
    generator = torch.Generator().manual_seed(step)
    return [
        (
            torch.randn(size, 1, 5, 5, generator=generator, dtype=torch.float64) * (1 + i),
            torch.randint(CLASSES, (size,), generator=generator),
        )
        for i, size in enumerate(sizes)
    ]


def follow(
    rule: Rule, text: str, *, sizes: tuple[int, ...] = (8, 8, 8), steps: int = 3, net: Network | None = None
) -> None:
    """Train by name and by rule from the same start; the rule gives a loss or gradients, and may ask for a new Adam."""
    net = network() if net is None else net
    ours = create(text, lr=LR, weight_decay=DECAY).setup(net, seed=3)
    start = [p.detach().clone() for p in ours.net.parameters()]
    twin, memory = copy.deepcopy(ours.net), Memory(step=0, ours=ours)
    adam = Adam(list(twin.parameters()))
    for step in range(steps):
        data = batches(step, list(sizes))
        metrics = ours.update(data)
        told = rule(twin, data, memory)
        if memory.pop("reset", False):
            adam = Adam(adam.params)
        adam.step(list(grad(told, adam.params)) if isinstance(told, Tensor) else told)
        memory["step"] += 1
        assert_same(ours.net, twin)
        if isinstance(told, Tensor):
            assert metrics["loss"].item() == pytest.approx(told.item(), rel=1e-9)
        if "penalty" in memory:
            assert metrics["penalty"].item() == pytest.approx(torch.as_tensor(memory["penalty"]).item(), rel=1e-9)
    assert not any(torch.equal(p, q) for p, q in zip(start, ours.net.parameters(), strict=True))


def assert_same(net: nn.Module, twin: nn.Module) -> None:
    for (name, p), q in zip(net.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q, atol=1e-9, rtol=0, msg=lambda text, name=name: f"{name}: {text}")


def mean(values) -> Tensor:
    values = list(values)
    return sum(values) / len(values)


def domain_risks(net: Network, data: Batches) -> list[Tensor]:
    return [F.cross_entropy(net(x), y) for x, y in data]


UNEQUAL = (8, 3, 5)
