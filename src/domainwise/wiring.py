"""What feeds what in a network, and whether it still computes the same after a change."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

Kind = Callable[[nn.Module], bool]


def pairs(net: nn.Module, example: Tensor, first: Kind, then: Kind) -> list[tuple[nn.Module, nn.Module]]:
    """Modules of one kind, and of another kind those whose input is what they made. ``example`` is one input.

    A module that is called more than once is left out: it cannot be changed for one of its calls alone.
    """
    made: dict[int, tuple[nn.Module, Tensor]] = {}  # the tensor is kept so that its id is not given out again
    found: list[tuple[nn.Module, nn.Module]] = []
    called: list[nn.Module] = []

    def after(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        made[id(output)] = (module, output)
        called.append(module)

    def before(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        called.append(module)
        if id(inputs[0]) in made:
            found.append((made[id(inputs[0])][0], module))

    hooks = [m.register_forward_hook(after) for m in net.modules() if first(m)]
    hooks += [m.register_forward_pre_hook(before) for m in net.modules() if then(m)]
    try:
        output(net, example)
    finally:
        for hook in hooks:
            hook.remove()
    return [pair for pair in found if all(called.count(module) == 1 for module in pair)]


@torch.no_grad()
def output(net: nn.Module, example: Tensor) -> Tensor:
    cudnn = torch.backends.cudnn
    before, cudnn.benchmark = cudnn.benchmark, False  # for one image it would try out every kernel there is
    try:
        result: Tensor = net(example)
    finally:
        cudnn.benchmark = before
    return result


def same(found: Tensor, expected: Tensor) -> bool:
    """But for rounding."""
    return torch.allclose(found, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))
