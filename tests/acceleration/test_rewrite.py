"""A rewritten ResNet computes and learns the same, and nobody notices it, whatever they do with it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import MethodType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from domainwise.acceleration.rewrite import let_watch, on_blocks, rewrite, stems
from domainwise.networks.network import build

X = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0)).double()
EVERY_KIND = {  # of block, first convolution and pooling, with the number of modules that compute in another way
    "resnet18": 20 * 2 + 2,
    "resnet50.v1": 53 * 2 + 2,
    "resnext50_32x4d": 53 * 2 + 2,
    "resnet26d": 31 * 2 + 2,  # three convolutions before the pooling, and one after an average in the shortcuts
    "resnetaa50": 53 * 2,  # no max-pooling but an average
    "resnetrs50": 56 * 2,  # attention, and a convolution in the place of the pooling
    "res2net50_26w_4s": 5 * 2 + 2,  # blocks of another module of timm's, which are let be
}


def resnet(name: str = "resnet18", frozen: bool = True, channels: int = 3) -> nn.Module:
    """A featurizer whose batch-norms would each be missed."""
    torch.manual_seed(0)
    net = build(name, (32, 32, channels), 2, freeze_batch_norm=frozen).train().featurizer.double()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.running_var, 0.5, 2)
            for tensor in (module.bias, module.running_mean):
                nn.init.normal_(tensor, std=0.1)
    return net


def rewritten(net: nn.Module, blocks: bool = True) -> nn.Module:
    rewrite(net, on_blocks=blocks)
    return net


def changed(net: nn.Module) -> set[str]:
    return {name for name, module in net.named_modules() if "forward" in vars(module)}


def check_alike(plain: nn.Module, other: nn.Module, x: Tensor = X) -> None:
    assert list(plain.state_dict()) == list(other.state_dict())
    outputs = [net(x) for net in (plain, other)]
    torch.testing.assert_close(*outputs, rtol=1e-9, atol=1e-9)
    with torch.no_grad():
        torch.testing.assert_close(other(x), outputs[0].detach(), rtol=1e-9, atol=1e-9)
    for output in outputs:
        output.square().sum().backward()
    for p, q in zip(plain.parameters(), other.parameters(), strict=True):
        assert p.grad is not None
        torch.testing.assert_close(q.grad, p.grad, rtol=1e-7, atol=1e-7 * p.grad.norm().item())


@pytest.mark.parametrize(
    ("name", "blocks"), [*((name, False) for name in EVERY_KIND), ("resnet18", True), ("resnet26d", True)]
)
def test_every_resnet_computes_and_learns_the_same(name: str, blocks: bool) -> None:
    net = rewritten(resnet(name), blocks)
    assert len(changed(net)) == EVERY_KIND[name]
    check_alike(resnet(name), net)


def test_images_of_other_channels_go_by_blocks_too() -> None:
    net = rewritten(resnet(channels=4))
    assert vars(net.conv1)["forward"].__func__.__name__ == "_folded_on_blocks"
    check_alike(resnet(channels=4), net, torch.cat([X, X], 1)[:, :4])


def test_it_follows_the_parameters() -> None:
    plain, other = resnet(), rewritten(resnet())
    moved = {key: value + 0.1 for key, value in plain.state_dict().items() if value.is_floating_point()}
    for net in (plain, other):
        net.load_state_dict(moved, strict=False)
    check_alike(plain, other)


def test_a_copy_follows_its_own() -> None:
    net = rewritten(resnet())
    copied = copy.deepcopy(net)
    check_alike(net, copied)
    with torch.no_grad():
        copied.conv1.weight.add_(1)
    assert not torch.equal(copied(X), net(X))


def test_batch_norm_that_learns_its_statistics_stays() -> None:
    net = rewritten(resnet(frozen=False))
    assert changed(net) == {"conv1", "maxpool", "act1"}
    check_alike(resnet(frozen=False), net)
    assert net.bn1.num_batches_tracked == 2  # one pass with gradients, one without


@pytest.mark.parametrize("name", ["small", "efficientnet_b0", "densenet121"])
def test_other_networks_stay(name: str) -> None:
    net = build(name, (32, 32, 3), 2).featurizer
    assert not changed(rewritten(net))


def test_a_second_rewrite_changes_nothing() -> None:
    net = rewritten(resnet())
    before = changed(net)
    assert changed(rewritten(net)) == before
    net.bn1.train()
    let_watch(net)
    assert not changed(net)


def standardised(self: nn.Conv2d, x: Tensor) -> Tensor:
    weight = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
    return F.conv2d(x, weight, None, self.stride, self.padding)


def test_a_forward_that_somebody_has_put_there_stays() -> None:
    net = resnet()
    net.conv1.forward = MethodType(standardised, net.conv1)  # type: ignore[method-assign]
    before = net(X)
    rewrite(net, on_blocks=True)
    torch.testing.assert_close(net(X), before)
    assert vars(net.conv1)["forward"].__func__ is standardised


HOOKS: list[Callable[[nn.Module, list[Any]], object]] = [
    lambda module, seen: module.register_forward_hook(lambda *_: seen.append(1)),
    lambda module, seen: module.register_forward_pre_hook(lambda *_: seen.append(1)),
    lambda module, seen: module.register_full_backward_hook(lambda *_: seen.append(1)),
    lambda module, seen: module.register_full_backward_pre_hook(lambda *_: seen.append(1)),
]


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("watched", ["conv1", "bn1", "act1", "maxpool"])
def test_whoever_watches_a_module_sees_what_it_does(hook: Callable[..., object], watched: str) -> None:
    early, late, seen = resnet(), rewritten(resnet()), []  # type: ignore[var-annotated]
    hook(early.get_submodule(watched), seen)
    rewrite(early, on_blocks=True)
    assert watched not in changed(early)
    hook(late.get_submodule(watched), seen)
    let_watch(nn.Sequential(late))
    assert not changed(late)
    for net in (early, late):
        for module in net.modules():  # a backward hook does not go with what writes in place
            module.inplace = False
        seen.clear()
        net(X.clone().requires_grad_()).sum().backward()
        assert seen == [1]


def test_a_forward_that_somebody_has_put_there_since_stays() -> None:
    net, expected = rewritten(resnet()), resnet()
    for one in (net, expected):
        one.conv1.forward = MethodType(standardised, one.conv1)  # type: ignore[method-assign]
    let_watch(net)
    assert changed(net) == {"conv1"}
    torch.testing.assert_close(net(X), expected(X))


@pytest.mark.parametrize("copied", [False, True])
def test_another_module_in_the_place_of_one_is_used(copied: bool) -> None:
    net = rewritten(resnet())
    net = copy.deepcopy(net) if copied else net
    let_watch(net)
    assert changed(net)
    net.bn1 = nn.Identity()
    let_watch(net)
    assert not changed(net)


def test_what_nobody_watches_stays_rewritten() -> None:
    net = rewritten(resnet())
    before = changed(net)
    net.register_forward_hook(lambda *_: None)
    let_watch(nn.Sequential(net))
    assert changed(net) == before


@pytest.mark.parametrize("kernel", [(1, 1), (2, 2), (3, 3), (4, 4), (7, 7), (5, 2)])
@pytest.mark.parametrize("padding", [(0, 0), (1, 1), (2, 3), (3, 3)])
@pytest.mark.parametrize("size", [(16, 16), (15, 18), (9, 7)])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_on_blocks_it_is_the_same_convolution(
    kernel: tuple[int, int], padding: tuple[int, int], size: tuple[int, int], channels: int
) -> None:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(2, channels, *size, generator=random, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(5, channels, *kernel, generator=random, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(5, generator=random, dtype=torch.float64)
    ours, expected = on_blocks(x, weight, bias, padding), F.conv2d(x, weight, bias, 2, padding)
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)
    upstream = torch.randn(expected.shape, generator=random, dtype=torch.float64)
    for found, other in zip(*(torch.autograd.grad(y, (x, weight), upstream) for y in (ours, expected)), strict=True):
        torch.testing.assert_close(found, other, rtol=0, atol=1e-12)


def test_no_image_is_no_image() -> None:
    assert on_blocks(torch.zeros(0, 3, 8, 8), torch.zeros(5, 3, 7, 7), None, (3, 3)).shape == (0, 5, 4, 4)


@pytest.mark.parametrize(
    "given",
    [
        {"stride": 1},
        {"stride": (2, 1)},
        {"stride": 4},
        {"groups": 3, "stride": 2},
        {"dilation": 2, "stride": 2},
        {"padding": 1, "padding_mode": "reflect", "stride": 2},
        {"padding": "valid", "stride": 2},
    ],
)
def test_other_convolutions_stay(given: dict[str, object]) -> None:
    assert not stems(nn.Sequential(nn.Conv2d(3, 6, 3, **given)), {})  # type: ignore[arg-type]
    assert not stems(nn.Sequential(nn.Conv2d(5, 6, 3, stride=2)), {})
