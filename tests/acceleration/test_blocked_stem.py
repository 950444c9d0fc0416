from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from domainwise.acceleration.blocked_stem import on_blocks, stems
from domainwise.acceleration.fold_batch_norm import folds
from domainwise.acceleration.rewrite import replace, wiring


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


def net() -> nn.Sequential:
    torch.manual_seed(0)
    made = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1))
    nn.init.uniform_(made[1].running_var, 0.5, 2)
    made[1].eval()
    return made.double()


X = torch.randn(2, 3, 20, 20, generator=torch.Generator().manual_seed(1)).double()


@pytest.mark.parametrize("folding", [False, True])
def test_the_first_convolution_of_a_network_goes_by_blocks(folding: bool) -> None:
    plain, other = net(), net()
    found = folds(wiring(other, X[:1])) if folding else {}
    stem = stems(wiring(other, X[:1]), found)
    assert list(stem) == [other[0]]
    assert replace(other, X[:1], {**found, **stem})
    outputs = [one(X) for one in (plain, other)]
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-12)
    for output in outputs:
        output.square().sum().backward()
    for (name, p), (same, q) in zip(plain.named_parameters(), other.named_parameters(), strict=True):
        assert name == same
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-10, atol=1e-10)
    assert list(plain.state_dict()) == list(other.state_dict())
    copied = copy.deepcopy(other)
    with torch.no_grad():
        copied[0].weight.add_(1)
    assert not torch.equal(copied(X), other(X))


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
    conv = nn.Conv2d(3, 6, 3, **given).double()  # type: ignore[arg-type]
    assert not stems(wiring(nn.Sequential(conv), X[:1]), {})


def test_other_images_stay() -> None:
    conv = nn.Conv2d(5, 6, 3, stride=2).double()
    assert not stems(wiring(nn.Sequential(conv), torch.cat([X, X], 1)[:1, :5]), {})
