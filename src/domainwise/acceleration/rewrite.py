"""Three fixed rewrites of timm's ResNets: the same function of the same parameters, in fewer passes.

- A frozen batch-norm is folded into the convolution before it. With statistics that do not move,
  ``bn(conv(x, W)) = conv(x, W * s) + b`` with ``s = gamma / sqrt(var + eps)`` and ``b = beta - mean * s``. Scaling the
  weights costs next to nothing beside scaling the activations, and nothing of the activations has to be kept for the
  gradients of gamma and beta.
- The first convolution works on blocks of pixels. A GPU multiplies eight channels or more at a time, and an image has
  three. With the pixels of every 2 x 2 block as the channels of one, the image has twelve, and the same convolution at
  every other pixel is one at every block.
- The max-pooling behind it has a gradient in one pass, and the ReLU before it goes behind it.

The modules stay, and so do the names in a checkpoint: only their ``forward`` is another. What feeds what is known from
the networks' own code, and tests compare outputs and gradients of every kind of block; other networks stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from domainwise.acceleration.max_pool import fits, pooled, pooled_then_relu

Forwards = dict[nn.Module, Callable[[Any, Tensor], Tensor]]  # the module is the first argument

RESNETS = "timm.models.resnet"  # the module with the classes that are rewritten
REPLACED = "replaced"  # under which a network remembers which of its modules compute in other ways
MADE_OF = "made_of"  # and what all of them were made of then
FEW = 4  # channels of an image
MULTIPLE = 8  # of the channels that a GPU takes at a time


def rewrite(net: nn.Module, *, on_blocks: bool) -> None:
    """Have a ResNet compute the same in fewer passes; any other network, and what somebody watches, stays as it is."""
    if not _of_resnet(net):
        return
    forwards = folds(net)
    if on_blocks:
        forwards |= stems(net, forwards)
    forwards |= pools(net)
    if not forwards:  # nothing to do, or done already
        return
    for module, forward in forwards.items():
        module.forward = MethodType(forward, module)
    net.__dict__[REPLACED] = tuple(forwards)  # in a tuple they are no submodules a second time
    net.__dict__[MADE_OF] = _made_of(net)


def _of_resnet(module: nn.Module) -> bool:
    return type(module).__module__ == RESNETS


def watched(module: nn.Module) -> bool:
    """Whether a module has a hook, or a forward that is not its class's."""
    return _hooked(module) or "forward" in vars(module)


def _hooked(module: nn.Module) -> bool:
    return any((module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks))


def let_watch(net: nn.Module) -> None:
    """Undo a rewrite where somebody would notice it.

    It would be noticed by a hook on one of the modules, by another module or forward in the place of one, and by a
    batch-norm that was frozen and is set to training.
    """
    for changed in [module for module in net.modules() if REPLACED in vars(module)]:
        replaced = vars(changed)[REPLACED]
        inside = [module for one in replaced for module in one.modules()]
        moving = [one for one in replaced if isinstance(one, _BatchNorm) and one.training]
        if moving or any(map(_hooked, inside)) or _made_of(changed) != vars(changed)[MADE_OF]:
            _restore(changed)


def _made_of(net: nn.Module) -> dict[nn.Module, tuple[object, ...]]:
    """Return of every module its own forward, if it has one, its class and what is in it."""
    return {one: (vars(one).get("forward"), type(one), *one._modules.values()) for one in net.modules()}


def _restore(net: nn.Module) -> None:
    made_of = net.__dict__.pop(MADE_OF)
    for module in net.__dict__.pop(REPLACED):
        if vars(module).get("forward") == made_of[module][0]:  # nobody else's
            del module.forward


def folds(net: nn.Module) -> Forwards:
    """Return other forwards for every convolution with a frozen batch-norm right behind it."""
    found: Forwards = {}
    for conv, norm in _neighbours(net):
        if type(conv) is nn.Conv2d and _frozen(norm) and not watched(conv) and not watched(norm):
            # In a tuple it is no submodule of the convolution, whose names would change, and functions of the module
            # rather than closures let a compiler see that two networks of one architecture are alike.
            conv.__dict__["folded"] = (norm,)
            found |= {conv: convolved, norm: passed}
    return found


def _neighbours(net: nn.Module) -> Iterator[tuple[nn.Module, nn.Module]]:
    """Yield pairs of modules of which the second is given what the first has made, and nobody else is."""
    for module in net.modules():
        if isinstance(module, nn.Sequential):
            yield from pairwise(module)
        elif _of_resnet(module):
            for i in (1, 2, 3):
                conv, norm = getattr(module, f"conv{i}", None), getattr(module, f"bn{i}", None)
                if conv is not None and norm is not None:
                    yield (conv[-1] if isinstance(conv, nn.Sequential) else conv), norm


def _frozen(module: nn.Module) -> bool:
    return type(module) is nn.BatchNorm2d and not module.training and module.affine and module.track_running_stats


def convolved(self: nn.Conv2d, input: Tensor) -> Tensor:
    """Compute a convolution and the batch-norm behind it."""
    weight, shift = folded(self)
    return F.conv2d(input, weight, shift, self.stride, self.padding, self.dilation, self.groups)


def folded(conv: nn.Conv2d) -> tuple[Tensor, Tensor]:
    """Return the weights and the bias that a convolution has together with its batch-norm."""
    (norm,) = conv.__dict__["folded"]
    scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
    shift = norm.bias - norm.running_mean * scale
    if conv.bias is not None:
        shift = shift + conv.bias * scale
    return conv.weight * scale[:, None, None, None], shift


def passed(self: nn.Module, input: Tensor) -> Tensor:
    """Return the input: the work of this module is done by another one."""
    return input


def pools(net: nn.Module) -> Forwards:
    """Return other forwards for the max-pooling behind the first convolution, and for the ReLU before it."""
    act, pool = getattr(net, "act1", None), getattr(net, "maxpool", None)
    if not isinstance(pool, nn.Module) or not fits(pool) or watched(pool):
        return {}
    if type(act) is nn.ReLU and not watched(act):
        return {pool: pooled_then_relu, act: passed}
    return {pool: pooled}


def stems(net: nn.Module, folding: Forwards) -> Forwards:
    """Return other forwards for convolutions that read images; ``folding`` says which have a batch-norm in them."""
    found = [conv for conv in net.modules() if _takes_images(conv) and (conv in folding or not watched(conv))]
    return {conv: _folded_on_blocks if conv in folding else _on_blocks for conv in found}


def _takes_images(module: nn.Module) -> bool:
    return (
        type(module) is nn.Conv2d
        and module.in_channels <= FEW
        and (module.stride, module.dilation, module.groups) == ((2, 2), (1, 1), 1)
        and module.padding_mode == "zeros"
        and not isinstance(module.padding, str)
    )


def _on_blocks(self: nn.Conv2d, input: Tensor) -> Tensor:
    return on_blocks(input, self.weight, self.bias, self.padding)  # type: ignore[arg-type]


def _folded_on_blocks(self: nn.Conv2d, input: Tensor) -> Tensor:
    return on_blocks(input, *folded(self), self.padding)  # type: ignore[arg-type]


def on_blocks(x: Tensor, weight: Tensor, bias: Tensor | None, padding: tuple[int, ...]) -> Tensor:
    """Compute ``conv2d(x, weight, bias, stride=2, padding=padding)`` on 2 x 2 blocks of pixels.

    A window that begins at an odd pixel gets a row or a column of zeros before it, so that it begins with a block.
    """
    down, right = (_along(x.shape[2 + i], weight.shape[2 + i], padding[i]) for i in (0, 1))
    image = _blocks(F.pad(x, (*right[0], *down[0])))
    return F.conv2d(image, _blocks(F.pad(weight, (*right[1], *down[1]))), bias)


def _along(size: int, kernel: int, padding: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return what to put before and after the image along one side, and before and after the weights."""
    odd = padding % 2
    blocks = (kernel + odd + 1) // 2
    windows = (size + 2 * padding - kernel) // 2 + 1
    before = padding + odd
    return (before, 2 * (windows + blocks - 1) - before - size), (odd, 2 * blocks - kernel - odd)


def _blocks(x: Tensor) -> Tensor:
    number, channels, height, width = x.shape
    x = x.reshape(number, channels, height // 2, 2, width // 2, 2).permute(0, 1, 3, 5, 2, 4)
    x = x.reshape(number, 4 * channels, height // 2, width // 2)  # as F.pixel_unshuffle, which refuses to take no image
    return F.pad(x, (0, 0, 0, 0, 0, -x.shape[1] % MULTIPLE)).contiguous(memory_format=torch.channels_last)
