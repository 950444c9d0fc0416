"""Frozen batch-norm folded into the convolution before it: the same function of the same parameters, in fewer passes.

With statistics that do not move, ``bn(conv(x, W)) = conv(x, W * s) + b`` with ``s = gamma / sqrt(var + eps)`` and
``b = beta - mean * s``. Scaling the weights costs next to nothing beside scaling the activations, and nothing of the
activations has to be kept for the gradients of gamma and beta. The modules, and so the names in a checkpoint, stay.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from domainwise.acceleration.rewrite import Forwards, Wiring, passed


def folds(wired: Wiring) -> Forwards:
    """How the convolutions and batch-norms of a network compute when every pair of them is one.

    A pair is a batch-norm in evaluation mode and the convolution that feeds it.
    """
    found: Forwards = {}
    for norm in filter(_frozen, wired):
        conv = wired[norm].maker
        if type(conv) is nn.Conv2d:
            # In a tuple it is no submodule of the convolution, whose names would change, and functions of the module
            # rather than closures let a compiler see that two networks of one architecture are alike.
            conv.__dict__["folded"] = (norm,)
            found |= {conv: convolved, norm: passed}
    return found


def _frozen(module: nn.Module) -> bool:
    return type(module) is nn.BatchNorm2d and not module.training and module.affine and module.track_running_stats


def convolved(self: nn.Conv2d, input: Tensor) -> Tensor:
    """The convolution and the batch-norm behind it."""
    weight, shift = folded(self)
    return F.conv2d(input, weight, shift, self.stride, self.padding, self.dilation, self.groups)


def folded(conv: nn.Conv2d) -> tuple[Tensor, Tensor]:
    """The weights and the bias that a convolution has together with its batch-norm."""
    (norm,) = conv.__dict__["folded"]
    scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
    shift = norm.bias - norm.running_mean * scale
    if conv.bias is not None:
        shift = shift + conv.bias * scale
    return conv.weight * scale[:, None, None, None], shift
