"""Three updates of every algorithm with a loss of its own, against its published formula."""

from __future__ import annotations

import copy
from itertools import combinations

import numpy as np
import pytest
import torch
from made_updates import DECAY, LR, UNEQUAL, Batches, Memory, assert_same, batches, domain_risks, follow, mean, network
from torch import Tensor
from torch.autograd import grad
from torch.nn import functional as F

from domainwise import Network
from domainwise.algorithms import create
from domainwise.networks.network import build


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
        inside = torch.split(memory["ours"].first, [len(y) for _, y in data])
        cuts = [int(part.sum()) for part in inside]
        assert all(part.tolist() == sorted(part.tolist(), reverse=True) for part in inside)
        assert all(0 <= cut < len(y) for cut, (_, y) in zip(cuts, data, strict=True))
        features = [net.featurizer(x) for x, _ in data]
        first = [row for f, cut in zip(features, cuts, strict=True) for row in f[:cut]]
        second = [row for f, cut in zip(features, cuts, strict=True) for row in f[cut:]]
        memory["penalty"] = DISTANCES[name](torch.stack(first), torch.stack(second))
        return mean(domain_risks(net, data)) + 2.5 * memory["penalty"]

    follow(rule, f"causirl(distance='{name}', penalty=2.5)", sizes=UNEQUAL)


@pytest.mark.parametrize("distance", ["coral", "mmd"])
@pytest.mark.parametrize("cuts", [(0, 0, 0), (1, 0, 0), (0, 0, 2)])
def test_causirl_with_fewer_than_two_samples_on_a_side_has_no_penalty(cuts, distance, monkeypatch) -> None:
    causirl = create("causirl", penalty=1e6, distance=distance).setup(network())
    monkeypatch.setattr(causirl, "split_points", lambda sizes: cuts)
    data = batches(0, [8, 3, 5])
    loss = mean(domain_risks(causirl.net, data)).item()
    metrics = causirl.update(data)
    assert (metrics["penalty"].item() == 0) == (sum(cuts) < 2)
    assert (metrics["loss"].item() == pytest.approx(loss)) == (sum(cuts) < 2)
    assert all(p.isfinite().all() for p in causirl.net.parameters())
    assert causirl.loss(batches(1, [2, 2, 2])).isfinite()  # of other sizes than were drawn for


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


def test_a_frozen_context_network_is_domainbeds_arm() -> None:
    arm = create("arm", lr=LR, weight_decay=DECAY).setup(network(channels=2))
    before = copy.deepcopy(arm.net.context)
    arm.net.context.requires_grad_(False)
    arm.update(batches(0, [8, 8, 8]))
    assert_same(arm.net.context, before)


@pytest.mark.parametrize("low", [False, True])
def test_the_context_of_arm_is_computed_as_precisely_as_the_features(low: bool) -> None:
    net = build("small", (8, 8, 3), 4, extra_channels=1)
    net.low_precision = low
    arm = create("arm").setup(net)
    seen: list[torch.dtype] = []
    arm.net.context.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    net.featurizer.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].dtype))
    assert arm.predict(torch.randn(6, 3, 8, 8)).dtype == torch.float32
    assert seen == [torch.bfloat16 if low else torch.float32, torch.float32]
