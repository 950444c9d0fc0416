from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pytest
import torch
from made_networks import resnet
from torch import nn

from domainwise.acceleration import cuda_graph as capture
from domainwise.acceleration.fold_batch_norm import folds
from domainwise.acceleration.residual import residuals
from domainwise.acceleration.rewrite import wiring

X = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0)).double()


def ways(net: nn.Module) -> Counter[str]:
    return Counter(vars(module)["forward"].__func__.__name__ for module in net.modules() if "forward" in vars(module))


def found(net: nn.Module) -> int:
    wired = wiring(net, X[:1])
    return len(residuals(net, wired, folds(wired)))


@pytest.mark.parametrize(("name", "block", "blocks"), [("resnet18", "_basic", 8), ("resnet50", "_bottleneck", 16)])
def test_a_resnet_made_ready_for_the_compiler_is_the_same_function(name: str, block: str, blocks: int) -> None:
    plain = resnet(name)
    other = copy.deepcopy(plain)
    capture._rewire(other, X[:1], on_blocks=True)
    assert ways(other)[block] == blocks
    assert ways(other)["_folded_on_blocks"] == 1
    outputs = [net(X) for net in (plain, other)]
    torch.testing.assert_close(*outputs)
    for output in outputs:
        output.square().mean().backward()
    for (named, p), (same, q) in zip(plain.named_parameters(), other.named_parameters(), strict=True):
        assert named == same
        torch.testing.assert_close(p.grad, q.grad)
    assert list(plain.state_dict()) == list(other.state_dict())


@pytest.mark.parametrize(
    "settings",
    [{"drop_path_rate": 0.1}, {"drop_block_rate": 0.1}, {"block_args": {"attn_layer": "se"}}, {"act_layer": nn.SiLU}],
)
def test_blocks_that_do_more_stay(settings: dict[str, Any]) -> None:
    assert found(resnet("resnet18", **settings)) < 8


def test_blocks_that_smooth_what_they_leave_out_stay() -> None:
    assert found(resnet("resnetblur50")) < 16


def test_a_block_that_somebody_watches_stays() -> None:
    net = resnet("resnet18")
    net.layer1[0].act1.register_forward_hook(lambda *_: None)
    net.layer2[0].register_forward_pre_hook(lambda *_: None)
    assert found(net) == 6


def test_a_block_with_another_shortcut_stays() -> None:
    net = resnet("resnet18")
    net.layer2[0].downsample = nn.Conv2d(64, 128, 1, stride=2).double()
    assert found(net) == 7


def test_a_block_whose_statistics_move_stays() -> None:
    net = resnet("resnet18")
    net.layer1[0].bn1.train()
    assert found(net) == 7
