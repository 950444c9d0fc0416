from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from made_pooling import SHAPES, made
from torch import nn
from torch.nn import functional as F

from domainwise.acceleration.max_pool import max_pool, max_pool_gradient, pools
from domainwise.acceleration.rewrite import replace, wiring


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_torchs_pooling_and_so_is_its_gradient(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = made(shape, dtype).requires_grad_()
    expected, (found, _) = F.max_pool2d(x, 3, 2, 1), max_pool(x)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    g = made(tuple(found.shape), dtype)
    gradients = [torch.autograd.grad(y, x, g)[0] for y in (expected, found)]
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-2 if dtype is torch.bfloat16 else 1e-6, atol=1e-6)


def test_a_compiler_knows_all_it_needs_to_know_of_them() -> None:
    """Shapes and memory without computing, and the way of the gradient."""
    x = made((2, 8, 10, 12))
    largest, which = max_pool(x)
    torch.library.opcheck(max_pool, (x.clone().requires_grad_(),))
    torch.library.opcheck(max_pool_gradient, (largest, which, 10, 12))


class Stem(nn.Module):
    def __init__(self, inplace: bool = True) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.relu = nn.ReLU(inplace)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.wide = nn.MaxPool2d(5, 2, 2)
        self.after = nn.Conv2d(6, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.wide(self.after(self.pool(self.relu(self.conv(x)))))


class Sharing(Stem):
    """One ReLU in two places."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu(self.after(self.pool(self.relu(self.conv(x)))))


X = made((2, 3, 15, 16))


def swap(net: nn.Module) -> bool:
    return replace(net, X[:1], pools(wiring(net, X[:1])))


def both(kind: Callable[[], nn.Module]) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    plain = kind().to(memory_format=torch.channels_last)
    return plain, copy.deepcopy(plain)


def check(plain: nn.Module, swapped: nn.Module) -> None:
    assert list(plain.state_dict()) == list(swapped.state_dict())
    outputs = [net(X) for net in (plain, swapped)]
    torch.testing.assert_close(*outputs)
    with torch.no_grad():
        torch.testing.assert_close(swapped(X), outputs[0])
    for output in outputs:
        output.square().sum().backward()
    for p, q in zip(plain.parameters(), swapped.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


@pytest.mark.parametrize("kind", [Stem, Sharing, lambda: Stem(inplace=False)])
def test_swapping_keeps_outputs_gradients_and_names(kind: Callable[[], nn.Module]) -> None:
    plain, swapped = both(kind)
    assert swap(swapped)
    assert "forward" in vars(swapped.pool)
    assert ("forward" in vars(swapped.relu)) == (kind is not Sharing)
    assert "forward" not in vars(swapped.wide)
    check(plain, swapped)


class Peeking(Stem):
    """Looks at what the ReLU made past the pooling."""

    def __init__(self) -> None:
        super().__init__(inplace=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.conv(x) - 0.5)
        return self.after(self.pool(y)).mean((2, 3)) + y.mean((2, 3))[:, :4]


class Gated(Peeking):
    """Looks there too, but only once it has learned to."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.conv(x) - 0.5)
        return self.after(self.pool(y)).mean((2, 3)) + self.gate * y.mean((2, 3))[:, :4]


class Rows(Stem):
    """Cannot do with another layout of memory."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(self.relu(self.conv(x).contiguous())).view(len(x), -1)


class Double(Stem):
    """In a precision that the kernels have not."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(self.conv(x).double()).float()


@pytest.mark.parametrize("kind", [Peeking, Gated, Rows, Double])
def test_a_network_that_would_compute_or_learn_something_else_stays_as_it_is(kind: Callable[[], nn.Module]) -> None:
    plain, swapped = both(kind)
    assert not swap(swapped)
    assert "forward" not in {**vars(swapped.pool), **vars(swapped.relu)}
    check(plain, swapped)


def test_modules_with_hooks_or_named_inputs_are_let_be() -> None:
    class Named(Stem):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.pool(input=self.relu(input=self.conv(input=x)))

    hooked, seen = Stem(), []
    hooked.relu.register_forward_hook(lambda module, inputs, output: seen.append(output.detach().min().item()))
    hooked = hooked.to(memory_format=torch.channels_last)
    assert swap(hooked)
    hooked(X)
    assert min(seen) == 0
    assert not pools(wiring(Named(), X[:1]))


def test_looking_at_a_network_teaches_it_nothing() -> None:
    """Batch-norm that is not frozen takes in whatever passes while it trains; dropout makes any two passes differ."""
    net = nn.Sequential(nn.BatchNorm2d(3), Stem(), nn.Dropout(0.5)).to(memory_format=torch.channels_last).train()
    net[1].wide.eval()
    assert swap(net)
    assert net[0].num_batches_tracked == 0
    assert [module.training for module in (net[0], net[1].pool, net[1].wide, net[2])] == [True, True, False, True]


INTERPRETED = """
import torch
from made_pooling import SHAPES, made
from domainwise.acceleration import max_pool_kernels as kernels
from domainwise.acceleration.max_pool import max_pool, max_pool_gradient
for shape in SHAPES:
    for dtype, kernels.NARROW in ((torch.float32, 2**30), (torch.bfloat16, 2**30), (torch.float32, 0)):
        x = made(shape, dtype)
        x[0, 0, 0, 0] = float("nan") if shape[1] % 2 else 9
        largest, which = max_pool(x)
        found, place = torch.empty_like(largest), torch.empty_like(which)
        kernels.largest_of_windows(x, found, place)
        torch.testing.assert_close((found, place), (largest, which), rtol=0, atol=0, equal_nan=True)
        g = made(tuple(largest.shape), dtype)
        pixels = torch.full_like(x, 7)
        kernels.gradient_to_pixels(g, which, pixels)
        expected = max_pool_gradient(g, which, *shape[2:])
        torch.testing.assert_close(pixels, expected, rtol=1e-2, atol=1e-6)
print("alike")
"""


def test_the_kernels_do_the_same() -> None:
    """Interpreted, for want of a GPU; on one, test_gpu.py runs them."""
    pytest.importorskip("triton")
    tests = Path(__file__).parents[1]
    paths = os.pathsep.join([str(tests / "helpers"), str(tests.parent / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", INTERPRETED], env=environment, capture_output=True, text=True)
    assert done.stdout == "alike\n", done.stderr
