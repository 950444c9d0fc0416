"""Frozen batch-norm folded into the convolution before it: the same function of the same parameters, in fewer passes.

With statistics that do not move, ``bn(conv(x, W)) = conv(x, W * s) + b`` with ``s = gamma / sqrt(var + eps)`` and
``b = beta - mean * s``. Scaling the weights costs next to nothing beside scaling the activations, and nothing of the
activations has to be kept for the gradients of gamma and beta. The modules, and so the names in a checkpoint, stay.
"""

from __future__ import annotations

from types import MethodType

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from domainwise.wiring import output, pairs, same


def fold(net: nn.Module, example: Tensor) -> int:
    """Fold every batch-norm in evaluation mode whose input is a convolution's output and nobody else's.

    ``example`` is one input, to see what feeds what. What cannot be folded stays. Returns how many were folded.
    """
    found = pairs(net, example, lambda module: type(module) is nn.Conv2d, _frozen)
    before = output(net, example)
    for conv, norm in found:
        _replace(conv, norm)
    # A convolution whose output is also used past its batch-norm would show here: then everything stays as it was.
    if found and not same(output(net, example), before):
        for conv, norm in found:
            del conv.forward, norm.forward
        return 0
    return len(found)


def _frozen(module: nn.Module) -> bool:
    return type(module) is nn.BatchNorm2d and not module.training and module.affine and module.track_running_stats


def _replace(conv: nn.Module, norm: nn.Module) -> None:
    # In a tuple it is no submodule of the convolution, whose names would change, and functions of the module rather
    # than closures let a compiler see that two networks of one architecture are alike.
    conv.__dict__["folded"] = (norm,)
    conv.forward = MethodType(_folded, conv)
    norm.forward = MethodType(_passed, norm)


def _folded(self: nn.Conv2d, x: Tensor) -> Tensor:
    (norm,) = self.__dict__["folded"]
    scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
    shift = norm.bias - norm.running_mean * scale
    if self.bias is not None:
        shift = shift + self.bias * scale
    weight = self.weight * scale[:, None, None, None]
    return F.conv2d(x, weight, shift, self.stride, self.padding, self.dilation, self.groups)


def _passed(self: nn.BatchNorm2d, x: Tensor) -> Tensor:
    return x
