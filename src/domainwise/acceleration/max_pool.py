"""Compute the max-pooling that ResNets begin with, 3 x 3 at every other pixel, with a gradient in one pass.

What a compiler makes of that gradient looks, for every pixel, into each window that the pixel may be in. The kernels
here take four pixels at a time, which are in the same four windows. A ReLU before the pooling goes behind it, where a
quarter of the pixels is left: ``max(relu(x)) = relu(max(x))``, and their gradients are equal too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def fits(module: nn.Module) -> bool:
    """Whether a module is the pooling that :func:`max_pool` computes."""
    if type(module) is not nn.MaxPool2d or module.ceil_mode or module.return_indices:
        return False
    sizes = (module.kernel_size, module.stride, module.padding, module.dilation)
    return [(n, n) if isinstance(n, int) else tuple(n) for n in sizes] == [(3, 3), (2, 2), (1, 1), (1, 1)]


def pooled(self: nn.Module, input: Tensor) -> Tensor:
    """Compute the pooling, by a kernel of ours where there will be a gradient."""
    if not torch.is_grad_enabled():  # a compiler joins the pooling with what comes before it
        return F.max_pool2d(input, 3, 2, 1)
    largest: Tensor = max_pool(input)[0]
    return largest


def pooled_then_relu(self: nn.Module, input: Tensor) -> Tensor:
    """Compute the pooling and then the ReLU that stood before it."""
    return F.relu(pooled(self, input))


@torch.library.custom_op("domainwise::max_pool", mutates_args=())
def max_pool(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest of every window, and which of its nine pixels that is."""
    largest, places = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    top, left = _corners(largest)
    width = x.shape[3]
    which = 3 * (places // width - top) + places % width - left
    return largest.contiguous(memory_format=torch.channels_last), which.to(
        torch.int8, memory_format=torch.channels_last
    )


@torch.library.custom_op("domainwise::max_pool_gradient", mutates_args=())
def max_pool_gradient(gradient: Tensor, which: Tensor, height: int, width: int) -> Tensor:
    """Put every window's gradient at the pixel that was its largest."""
    top, left = _corners(which)
    places = (top + which // 3) * width + left + which % 3
    found = gradient.new_zeros(*gradient.shape[:2], height * width)
    found.scatter_add_(2, places.flatten(2), gradient.flatten(2))
    return found.view(*gradient.shape[:2], height, width).contiguous(memory_format=torch.channels_last)


def _corners(windows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first row and the first column of each window."""
    rows, columns = (torch.arange(n, device=windows.device) for n in windows.shape[2:])
    return 2 * rows[:, None] - 1, 2 * columns - 1


def _windows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return empty tensors of the shapes of the results."""
    height, width = ((n - 1) // 2 + 1 for n in x.shape[2:])
    largest = _blank(x, height, width)
    return largest, torch.empty_like(largest, dtype=torch.int8)


max_pool.register_fake(_windows)


@max_pool_gradient.register_fake
def _(gradient: Tensor, which: Tensor, height: int, width: int) -> Tensor:
    return _blank(gradient, height, width)


def _blank(like: Tensor, height: int, width: int) -> Tensor:
    empty = like.new_empty(*like.shape[:2], height, width)
    return torch.empty_like(empty, memory_format=torch.channels_last)


@max_pool.register_kernel("cuda")
def _(x: Tensor) -> tuple[Tensor, Tensor]:
    from domainwise.acceleration.max_pool_kernels import largest_of_windows

    largest, which = _windows(x)
    largest_of_windows(x.contiguous(memory_format=torch.channels_last), largest, which)
    return largest, which


@max_pool_gradient.register_kernel("cuda")
def _(gradient: Tensor, which: Tensor, height: int, width: int) -> Tensor:
    from domainwise.acceleration.max_pool_kernels import gradient_to_pixels

    found = _blank(gradient, height, width)
    gradient, which = (tensor.contiguous(memory_format=torch.channels_last) for tensor in (gradient, which))
    gradient_to_pixels(gradient, which, found)
    return found


def _keep(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1])
    ctx.size = inputs[0].shape[2:]


def _backward(ctx: Any, gradient: Tensor, _: Tensor) -> Tensor:
    found: Tensor = max_pool_gradient(gradient, *ctx.saved_tensors, *ctx.size)
    return found


max_pool.register_autograd(_backward, setup_context=_keep)
