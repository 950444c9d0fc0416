from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from made_pooling import SHAPES, made
from torch.nn import functional as F

from domainwise.acceleration.max_pool import max_pool, max_pool_gradient


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
