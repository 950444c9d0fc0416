"""Three updates of every algorithm against its published formula, restated here with loops and plain autograd."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
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


def follow(rule: Rule, text: str, *, sizes: tuple[int, ...] = (8, 8, 8), steps: int = 3, net: Network | None = None):
    """Train by name and by rule from the same start; the rule gives a loss or gradients, and may ask for a new Adam."""
    net = network() if net is None else net
    ours = create(text, lr=LR, weight_decay=DECAY).setup(net, seed=3)
    start, twin, memory = (
        [p.detach().clone() for p in ours.net.parameters()],
        copy.deepcopy(ours.net),
        Memory(step=0, ours=ours),
    )
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
    return ours


def assert_same(net: nn.Module, twin: nn.Module) -> None:
    for (name, p), q in zip(net.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q, atol=1e-9, rtol=0, msg=lambda text, name=name: f"{name}: {text}")


def mean(values) -> Tensor:
    values = list(values)
    return sum(values) / len(values)


def domain_risks(net: Network, data: Batches) -> list[Tensor]:
    return [F.cross_entropy(net(x), y) for x, y in data]


UNEQUAL = (8, 3, 5)


@pytest.mark.parametrize("sizes", [(8, 8, 8), UNEQUAL])
def test_erm(sizes) -> None:
    follow(
        lambda net, data, _: sum(F.cross_entropy(net(x), y, reduction="sum") for x, y in data) / sum(sizes),
        "erm",
        sizes=sizes,
    )


@pytest.mark.parametrize("anneal", [0, 1, 2, 9])
@pytest.mark.parametrize("sizes", [(8, 8, 8), UNEQUAL])
def test_irm(anneal, sizes) -> None:
    def rule(net: Network, data: Batches, memory: Memory) -> Tensor:
        risk, penalty = [], []
        for x, y in data:
            scale = torch.ones((), dtype=torch.float64, requires_grad=True)
            logits = net(x)
            risk.append(F.cross_entropy(logits, y))
            halves = [F.cross_entropy(logits[k::2] * scale, y[k::2]) for k in (0, 1)]
            first, second = (grad(half, scale, create_graph=True)[0] for half in halves)
            penalty.append(first * second)
        memory["reset"] = memory["step"] == anneal
        memory["penalty"] = mean(penalty)
        return mean(risk) + (100.0 if memory["step"] >= anneal else 1.0) * mean(penalty)

    follow(rule, f"irm(anneal={anneal})", sizes=sizes)


@pytest.mark.parametrize("anneal", [0, 1, 2, 9])
def test_vrex(anneal) -> None:
    def rule(net: Network, data: Batches, memory: Memory) -> Tensor:
        risk = domain_risks(net, data)
        memory["reset"] = memory["step"] == anneal
        memory["penalty"] = mean((r - mean(risk)) ** 2 for r in risk)
        return mean(risk) + (10.0 if memory["step"] >= anneal else 1.0) * memory["penalty"]

    follow(rule, f"vrex(anneal={anneal})", sizes=UNEQUAL)


def coral_distance(a: Tensor, b: Tensor) -> Tensor:
    def covariance(f: Tensor) -> Tensor:
        center = mean(f)
        return sum(torch.outer(row - center, row - center) for row in f) / (len(f) - 1)

    return ((mean(a) - mean(b)) ** 2).mean() + ((covariance(a) - covariance(b)) ** 2).mean()


def mmd_distance(a: Tensor, b: Tensor) -> Tensor:
    def kernel(left: Tensor, right: Tensor) -> Tensor:
        return mean(
            sum(torch.exp(-(10.0**k) * ((p - q) ** 2).sum()) for k in range(-3, 4)) for p in left for q in right
        )

    return kernel(a, a) + kernel(b, b) - 2 * kernel(a, b)


DISTANCES = {"coral": coral_distance, "mmd": mmd_distance}


@pytest.mark.parametrize("name", ["coral", "mmd"])
@pytest.mark.parametrize("sizes", [UNEQUAL, (6,)], ids=["three domains", "one domain"])
def test_coral_and_mmd(name, sizes) -> None:
    def rule(net: Network, data: Batches, memory: Memory) -> Tensor:
        features = [net.featurizer(x) for x, _ in data]
        pairs = [DISTANCES[name](a, b) for a, b in combinations(features, 2)]
        memory["penalty"] = mean(pairs) if pairs else 0.0
        return mean(domain_risks(net, data)) + 2.5 * memory["penalty"]

    follow(rule, f"{name}(penalty=2.5)", sizes=sizes)


@pytest.mark.parametrize("name", ["coral", "mmd"])
def test_causirl(name) -> None:
    def rule(net: Network, data: Batches, memory: Memory) -> Tensor:
        cuts = memory["ours"].splits
        assert all(0 <= cut < len(y) for cut, (_, y) in zip(cuts, data, strict=True))
        features = [net.featurizer(x) for x, _ in data]
        first = [row for f, cut in zip(features, cuts, strict=True) for row in f[:cut]]
        second = [row for f, cut in zip(features, cuts, strict=True) for row in f[cut:]]
        memory["penalty"] = DISTANCES[name](torch.stack(first), torch.stack(second))
        return mean(domain_risks(net, data)) + 2.5 * memory["penalty"]

    follow(rule, f"causirl(distance='{name}', penalty=2.5)", sizes=UNEQUAL)


@pytest.mark.parametrize("cuts", [(0, 0, 0), (1, 0, 0), (0, 0, 2)])
def test_causirl_with_fewer_than_two_samples_on_a_side_has_no_penalty(cuts, monkeypatch) -> None:
    causirl = create("causirl", penalty=1e6).setup(network())
    monkeypatch.setattr(causirl, "split_points", lambda sizes: cuts)
    data = batches(0, [8, 3, 5])
    loss = mean(domain_risks(causirl.net, data)).item()
    metrics = causirl.update(data)
    assert (metrics["penalty"].item() == 0) == (sum(cuts) < 2)
    assert (metrics["loss"].item() == pytest.approx(loss)) == (sum(cuts) < 2)


def test_causirl_cuts_anywhere_but_at_the_end() -> None:
    causirl = create("causirl").setup(network(), seed=0)
    assert {causirl.split_points([4])[0] for _ in range(100)} == {0, 1, 2, 3}


@pytest.mark.parametrize(("feature_drop", "batch_drop"), [(1 / 3, 1 / 3), (0.5, 0.2), (0.0, 0.0)])
def test_rsc(feature_drop, batch_drop) -> None:
    def rule(net: Network, data: Batches, memory: Memory) -> Tensor:
        x, y = torch.cat([x for x, _ in data]), torch.cat([y for _, y in data])
        features = net.featurizer(x)
        muted, changes = [], []
        for f, label in zip(features.detach(), y, strict=True):
            slope = net.head.weight[label].detach().numpy()
            muted.append(torch.tensor(slope < np.percentile(slope, 100 * (1 - feature_drop))))
            before, after = (net.head(z).softmax(0)[label].item() for z in (f, f * muted[-1]))
            changes.append(before - after)
        limit = np.percentile(changes, 100 * (1 - batch_drop))
        mask = torch.stack(
            [kept if change >= limit else torch.ones_like(kept) for kept, change in zip(muted, changes, strict=True)]
        )
        return F.cross_entropy(net.head(features * mask), y)

    follow(rule, f"rsc(feature_drop={feature_drop}, batch_drop={batch_drop})", sizes=UNEQUAL)


def test_arm_trains_its_context_network_with_the_rest() -> None:
    def rule(net: Network, data: Batches, memory: Memory) -> Tensor:
        context = net.context(torch.cat([x for x, _ in data]))
        start, losses = 0, []
        for x, y in data:
            shared = sum(context[start : start + len(x)]) / len(x)
            start += len(x)
            widened = torch.stack([torch.cat([image, shared]) for image in x])
            losses.append(F.cross_entropy(net.inner(widened), y, reduction="sum"))
        return sum(losses) / start

    follow(rule, "arm", sizes=UNEQUAL, net=network(channels=2))


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

    monkeypatch.setattr("domainwise.algorithms.mldg.MLDG.visits", lambda self, n: [2, 0, 1])
    follow(rule, f"mldg(beta=0.7, {settings})", sizes=UNEQUAL)


def test_mldg_reports_the_weighted_losses_it_met(monkeypatch) -> None:
    mldg = create("mldg", lr=1e-12, beta=0.5).setup(network())
    data = batches(0, [8, 8, 8])
    expected = 1.5 * mean(domain_risks(mldg.net, data)).item()
    assert mldg.update(data)["loss"].item() == pytest.approx(expected, rel=1e-6)


def test_mldg_draws_every_order_of_the_domains() -> None:
    mldg = create("mldg").setup(network(), seed=0)
    assert len({tuple(mldg.visits(3)) for _ in range(60)}) == 6


def head_of(net: Network) -> list[Tensor]:
    return [net.head.weight, net.head.bias]


def flat(tensors) -> Tensor:
    return torch.cat([t.flatten() for t in tensors])


@pytest.mark.parametrize("anneal", [0, 1, 2, 9])
@pytest.mark.parametrize("ema", [0.95, 0.0])
def test_fishr(anneal, ema) -> None:
    def rule(net: Network, data: Batches, memory: Memory) -> Tensor:
        logits = [net(x) for x, _ in data]
        corrected = []
        for e, (z, (_, y)) in enumerate(zip(logits, data, strict=True)):
            samples = torch.stack(
                [
                    flat(grad(F.cross_entropy(row, label), head_of(net), create_graph=True))
                    for row, label in zip(z, y, strict=True)
                ]
            )
            variance = ((samples - samples.mean(0)) ** 2).mean(0)
            moving = ema * memory.get(e, torch.zeros_like(variance)) + (1 - ema) * variance
            memory[e] = moving.detach()
            corrected.append(moving / (1 - ema))
        memory["reset"] = memory["step"] == anneal != 0
        memory["penalty"] = mean(((u - mean(corrected)) ** 2).mean() for u in corrected)
        risk = F.cross_entropy(torch.cat(logits), torch.cat([y for _, y in data]))
        return risk + (1000.0 if memory["step"] >= anneal else 0.0) * memory["penalty"]

    follow(rule, f"fishr(anneal={anneal}, ema={ema})", sizes=UNEQUAL)


def alignment(net: Network, data: Batches, curvature: Callable[[Tensor, Network], Tensor], alpha: float, beta: float):
    """Mean risk, and the mean squared distances of every domain's gradient and curvature to those of the mean risk."""
    risk = domain_risks(net, data)

    def gradient(loss: Tensor) -> Tensor:
        return flat(grad(loss, head_of(net), create_graph=True))

    center, bend = gradient(mean(risk)).detach(), curvature(gradient(mean(risk)), net).detach()
    penalty = mean(
        alpha * ((curvature(gradient(r), net) - bend) ** 2).sum() + beta * ((gradient(r) - center) ** 2).sum()
        for r in risk
    )
    return mean(risk), penalty


def hessian_gradient_product(gradient: Tensor, net: Network) -> Tensor:
    norm = (gradient.square().sum() + 1e-16).sqrt()
    return norm * flat(grad(norm, head_of(net), create_graph=True))


def hessian_diagonal(gradient: Tensor, net: Network) -> Tensor:
    rows = [flat(grad(entry, head_of(net), create_graph=True)) for entry in gradient]
    return torch.stack([row[i] for i, row in enumerate(rows)])


@pytest.mark.parametrize(("name", "curvature"), [("hgp", hessian_gradient_product), ("hutchinson", hessian_diagonal)])
def test_hgp_and_hutchinson(name, curvature) -> None:
    def rule(net: Network, data: Batches, memory: Memory) -> Tensor:
        risk, memory["penalty"] = alignment(net, data, curvature, alpha=0.3, beta=0.2)
        return risk + memory["penalty"]

    follow(rule, f"{name}(alpha=0.3, beta=0.2)", sizes=UNEQUAL)


def test_sampling_the_diagonal_adds_noise_to_the_penalty_that_draws_take_away() -> None:
    data = batches(0, [8, 8, 8])

    def penalty(draws: int) -> float:
        return create("hutchinson", draws=draws, beta=0.0).setup(network(), seed=1).update(data)["penalty"].item()

    noise = [penalty(draws) - penalty(0) for draws in (10, 1000)]
    assert noise[0] > 10 * penalty(0)
    assert 50 < noise[0] / noise[1] < 200


def test_the_random_signs_are_new_at_every_update() -> None:
    hutchinson = create("hutchinson", draws=3, lr=1e-12).setup(network())
    penalties = [hutchinson.update(batches(0, [8, 8, 8]))["penalty"].item() for _ in range(2)]
    assert abs(penalties[0] / penalties[1] - 1) > 0.01


def test_a_frozen_context_network_is_domainbeds_arm() -> None:
    arm = create("arm", lr=LR, weight_decay=DECAY).setup(network(channels=2))
    before = copy.deepcopy(arm.net.context)
    arm.net.context.requires_grad_(False)
    arm.update(batches(0, [8, 8, 8]))
    assert_same(arm.net.context, before)
