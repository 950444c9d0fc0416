"""Three updates of every algorithm about the derivatives of the head, against its published formula."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from made_updates import UNEQUAL, Batches, Memory, batches, domain_risks, follow, mean, network
from torch import Tensor
from torch.autograd import grad
from torch.nn import functional as F

from domainwise import Network
from domainwise.algorithms import create
from domainwise.algorithms._bases import at_head
from domainwise.losses import head_variance


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


@pytest.mark.parametrize("turns", [[(0, 1, 2)] * 4, [(4, 0), (0, 2), (2, 4), (7, 0), (4, 2), (0, 7)]])
def test_fishr_averages_every_domain_over_the_updates_that_it_takes_part_in(turns) -> None:
    """An average of its own for each domain, held here in a dict, however they take turns."""
    ours = create("fishr", anneal=0, ema=0.5, penalty=3.0).setup(network())
    moving: dict[int, Tensor] = {}
    for step, domains in enumerate(turns):
        data = batches(step, [6] * len(domains))
        inputs, logits = at_head(ours.net, data)
        for domain, f, z, (_, y) in zip(domains, inputs, logits, data, strict=True):
            variance = head_variance(f, z, y).detach()
            moving[domain] = 0.5 * moving.get(domain, torch.zeros_like(variance)) + 0.5 * variance
        expected = torch.stack([2 * moving[domain] for domain in domains]).var(0, correction=0).mean()
        metrics = ours.update(data, domains=domains)
        assert metrics["penalty"].item() == pytest.approx(expected.item(), rel=1e-9)
    for domain, average in moving.items():
        torch.testing.assert_close(ours.averages[domain], average)


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
