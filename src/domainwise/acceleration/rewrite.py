"""What feeds what in a network, and other ways for its modules to compute the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import MethodType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from domainwise.acceleration.precision import exactly

Forwards = dict[nn.Module, Callable[[Any, Tensor], Tensor]]  # by module, each of which it takes first

CLOSE = 1e-2  # of a tensor's length. Rounding is far below it; somebody who uses what is not there any more, far above
NOTHING = 1e-5  # of the length of all gradients together
REPLACED = "replaced"  # under which a network remembers which of its modules compute in other ways
MADE_OF = "made_of"  # and what all of them were made of then


class Fed(NamedTuple):
    input: Tensor
    maker: nn.Module | None  # of that input


Wiring = dict[nn.Module, Fed]


def wiring(net: nn.Module, example: Tensor) -> Wiring:
    """What the modules that have no others in them are given, and which of these made it, in the mode that each is in.

    ``example`` is one input of the network. Modules that are called more than once are left out, since they cannot be
    changed for one call alone, and those that somebody watches or has changed already.
    """
    made: dict[int, tuple[nn.Module, Tensor]] = {}  # the tensor is kept so that its id is not given out again
    found: Wiring = {}
    calls: Counter[nn.Module] = Counter()

    def before(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        calls[module] += 1
        if inputs:
            found[module] = Fed(inputs[0], made.get(id(inputs[0]), (None,))[0])

    def after(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        made[id(output)] = (module, output)

    hooks = []
    for module in filter(_leaf, net.modules()):
        hooks += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
    try:
        with exactly(), _unchanged(net), torch.no_grad():
            net(torch.cat([example, example]))  # batch-norm that is not frozen wants two
    except RuntimeError:  # what cannot be looked at stays as it is
        return {}
    finally:
        for hook in hooks:
            hook.remove()
    once = {module: one for module, one in found.items() if calls[module] == 1}
    return {m: one if one.maker is None or calls[one.maker] == 1 else Fed(one.input, None) for m, one in once.items()}


def _leaf(module: nn.Module) -> bool:
    """An identity, or nothing in a row, makes nothing: what it passes on is of whoever made it."""
    empty = type(module) in (nn.Identity, nn.Sequential)
    return next(module.children(), None) is None and not empty and not watched(module)


def watched(module: nn.Module) -> bool:
    """By a hook, or by whoever gave it a forward that is not its class's."""
    return hooked(module) or "forward" in vars(module)


def hooked(module: nn.Module) -> bool:
    return any((module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks))


def replace(net: nn.Module, example: Tensor, forwards: Forwards) -> bool:
    """Have modules compute in other ways, unless the network then computes or learns something else."""
    if not forwards:
        return False
    try:
        before = _behaviour(net, example)
    except RuntimeError:
        return False
    for module, forward in forwards.items():
        module.forward = MethodType(forward, module)
    net.__dict__[REPLACED] = tuple(forwards)  # in a tuple they are no submodules a second time
    net.__dict__[MADE_OF] = _made_of(net)
    try:
        alike = _alike(_behaviour(net, example), before)
    except Exception:  # a layout that others do not expect, a kernel that this GPU has not
        alike = False
    if not alike:
        _restore(net)
    return alike


def let_watch(net: nn.Module) -> None:
    """Have all modules compute as they did before if somebody would miss it.

    That is who watches one of them with a hook, has put another module or another forward somewhere, or has set a
    batch-norm to training that was frozen.
    """
    for changed in [module for module in net.modules() if REPLACED in vars(module)]:
        replaced = vars(changed)[REPLACED]
        inside = [module for one in replaced for module in one.modules()]
        moving = [one for one in replaced if isinstance(one, _BatchNorm) and one.training]
        if moving or any(map(hooked, inside)) or _made_of(changed) != vars(changed)[MADE_OF]:
            _restore(changed)


def _made_of(net: nn.Module) -> dict[nn.Module, tuple[object, ...]]:
    """Of every module its forward, if it has one of its own, its class and what is in it."""
    return {one: (vars(one).get("forward"), type(one), *one._modules.values()) for one in net.modules()}


def _restore(net: nn.Module) -> None:
    made_of = net.__dict__.pop(MADE_OF)
    for module in net.__dict__.pop(REPLACED):
        if vars(module).get("forward") == made_of[module][0]:  # nobody else's
            del module.forward


def _behaviour(net: nn.Module, example: Tensor) -> list[Tensor]:
    """The output, and every gradient: a use that a weight of zero hides from the output shows there."""
    params = [p for p in net.parameters() if p.requires_grad]
    with exactly(), _evaluating(net), torch.enable_grad():
        output: Tensor = net(example)
        if not params:
            return [output]
        mixed = (output * torch.linspace(1, 2, output.numel()).to(output).view_as(output)).sum()
        gradients = torch.autograd.grad(mixed, params, allow_unused=True)
    return [
        output.detach(),
        *(torch.zeros_like(p) if g is None else g for p, g in zip(params, gradients, strict=True)),
    ]


def _alike(found: Sequence[Tensor], expected: Sequence[Tensor]) -> bool:
    lengths = torch.stack([one.norm() for one in expected])
    apart = torch.stack([(one - other).norm() for one, other in zip(found, expected, strict=True)])
    return bool((apart <= CLOSE * lengths + NOTHING * lengths[1:].norm()).all())


@contextmanager
def _evaluating(net: nn.Module) -> Iterator[None]:
    """Nothing is dropped, and batch-norm learns nothing from an example."""
    training = {module: module.training for module in net.modules()}
    try:
        for module in training:
            module.training = False
        yield
    finally:
        for module, before in training.items():
            module.training = before


@contextmanager
def _unchanged(net: nn.Module) -> Iterator[None]:
    """In whatever mode it is, with the statistics and the random numbers of before afterwards."""
    buffers = {buffer: buffer.clone() for buffer in net.buffers()}
    devices = {tensor.device for tensor in (*net.parameters(), *buffers) if tensor.is_cuda}
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, before in buffers.items():
                    buffer.copy_(before)


def passed(self: nn.Module, input: Tensor) -> Tensor:
    """The forward of a module whose work another one does."""
    return input
