"""Nobody notices that a network computes in another way, whatever they do with it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import MethodType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from domainwise.acceleration import cuda_graph as capture
from domainwise.acceleration.fold_batch_norm import folds
from domainwise.acceleration.rewrite import let_watch, wiring

X = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(0)).double()


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.between = nn.Sequential()
        nn.init.uniform_(self.norm.running_var, 0.5, 2)
        self.norm.eval()
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.norm(self.between(self.conv(x)))
        return F.relu(found)


def changed(net: nn.Module) -> set[str]:
    return {name for name, module in net.named_modules() if "forward" in vars(module)}


def rewire(net: nn.Module) -> nn.Module:
    capture._rewire(net, X[:1], on_blocks=True)
    return net


def test_an_empty_row_is_no_obstacle() -> None:
    assert changed(rewire(Pair())) == {"conv", "norm"}


class Dropping(Pair):
    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.norm(F.dropout(self.conv(x), 0.5, self.training))
        return found


def test_what_happens_in_training_alone_is_seen_too() -> None:
    assert not changed(rewire(Dropping()))
    assert changed(rewire(Dropping().eval())) == {"conv", "norm"}


def test_looking_leaves_statistics_and_random_numbers_alone() -> None:
    net = Dropping()
    net.norm.train()
    before, random = {name: value.clone() for name, value in net.state_dict().items()}, torch.get_rng_state()
    assert not folds(wiring(net, X[:1]))
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)


def standardised(self: nn.Conv2d, x: Tensor) -> Tensor:
    weight = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
    return F.conv2d(x, weight, None, self.stride, self.padding)


def test_a_forward_that_somebody_has_put_there_stays() -> None:
    net = Pair()
    net.conv.forward = MethodType(standardised, net.conv)  # type: ignore[method-assign]
    before = net(X)
    rewire(net)
    assert torch.equal(net(X), before)
    assert vars(net.conv)["forward"].__func__ is standardised


HOOKS: list[Callable[[nn.Module, list[Any]], object]] = [
    lambda module, seen: module.register_forward_hook(lambda *_: seen.append(1)),
    lambda module, seen: module.register_forward_pre_hook(lambda *_: seen.append(1)),
    lambda module, seen: module.register_full_backward_hook(lambda *_: seen.append(1)),
    lambda module, seen: module.register_full_backward_pre_hook(lambda *_: seen.append(1)),
]


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_whoever_watches_a_module_sees_what_it_does(hook: Callable[..., object], when: str) -> None:
    net, seen = Pair(), []  # type: ignore[var-annotated]
    if when == "before":
        hook(net.conv, seen)
    rewire(net)
    if when == "after":
        assert changed(net)
        hook(net.conv, seen)
        let_watch(nn.Sequential(net))
    assert not changed(net)
    seen.clear()
    net(X.clone().requires_grad_()).sum().backward()
    assert seen == [1]


def test_a_forward_that_somebody_has_put_there_since_stays() -> None:
    net = rewire(Pair())
    net.conv.forward = MethodType(standardised, net.conv)  # type: ignore[method-assign]
    let_watch(net)
    assert changed(net) == {"conv"}
    expected = Pair()
    expected.conv.forward = MethodType(standardised, expected.conv)  # type: ignore[method-assign]
    assert torch.equal(net(X), expected(X))


@pytest.mark.parametrize("copied", [False, True])
def test_another_module_in_the_place_of_one_is_used(copied: bool) -> None:
    net = rewire(Pair())
    net = copy.deepcopy(net) if copied else net
    let_watch(net)
    assert changed(net) == {"conv", "norm"}
    net.norm = nn.Identity()
    let_watch(net)
    assert torch.equal(net(X), F.relu(net.conv(X)))


def test_what_nobody_watches_stays_changed() -> None:
    net = rewire(Pair())
    net.register_forward_hook(lambda *_: None)
    let_watch(nn.Sequential(net))
    assert changed(net) == {"conv", "norm"}
