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


def fold(net: nn.Module, example: Tensor) -> int:
    """Fold every batch-norm in evaluation mode whose input is a convolution's output and nobody else's.

    ``example`` is one input, to see what feeds what. What cannot be folded stays. Returns how many were folded.
    """
    pairs = _pairs(net, example)
    before = _output(net, example)
    for conv, norm in pairs:
        _replace(conv, norm)
    # A convolution whose output is also used past its batch-norm would show here: then everything stays as it was.
    if pairs and not torch.allclose(_output(net, example), before, rtol=1e-3, atol=1e-3 * float(before.abs().max())):
        for conv, norm in pairs:
            del conv.forward, norm.forward
        return 0
    return len(pairs)


def _pairs(net: nn.Module, example: Tensor) -> list[tuple[nn.Conv2d, nn.BatchNorm2d]]:
    made: dict[int, tuple[nn.Conv2d, Tensor]] = {}  # the tensor is kept so that its id is not given out again
    pairs: list[tuple[nn.Conv2d, nn.BatchNorm2d]] = []

    def after_conv(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        assert isinstance(module, nn.Conv2d)
        made[id(output)] = (module, output)

    def before_norm(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        assert isinstance(module, nn.BatchNorm2d)
        if id(inputs[0]) in made:
            pairs.append((made[id(inputs[0])][0], module))

    hooks = [m.register_forward_hook(after_conv) for m in net.modules() if type(m) is nn.Conv2d]
    hooks += [m.register_forward_pre_hook(before_norm) for m in net.modules() if _frozen(m)]
    try:
        _output(net, example)
    finally:
        for hook in hooks:
            hook.remove()
    return pairs


def _frozen(module: nn.Module) -> bool:
    return type(module) is nn.BatchNorm2d and not module.training and module.affine and module.track_running_stats


@torch.no_grad()
def _output(net: nn.Module, example: Tensor) -> Tensor:
    output: Tensor = net(example)
    return output


def _replace(conv: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
    # In a tuple it is no submodule of the convolution, whose names would change, and functions of the module rather
    # than closures let a compiler see that two networks of one architecture are alike.
    conv.__dict__["folded"] = (norm,)
    conv.forward = MethodType(_folded, conv)  # type: ignore[method-assign]
    norm.forward = MethodType(_passed, norm)  # type: ignore[method-assign]


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
