"""The blocks of ResNets as functions of their convolutions alone: less for a compiler to read at every start.

What batch-norm, identities and activations are in them as modules says nothing more once batch-norm is folded, and
tracing a ResNet-50 takes three quarters of the time.
"""

from __future__ import annotations

import sys
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from domainwise.acceleration.fold_batch_norm import convolved
from domainwise.acceleration.rewrite import Forwards, Wiring, watched


def residuals(net: nn.Module, wired: Wiring, folding: Forwards) -> Forwards:
    """How timm's plain blocks compute, if all their convolutions are folded."""
    timm: Any = sys.modules.get("timm.models.resnet")
    if timm is None:
        return {}
    known = {timm.BasicBlock: (_basic, 2), timm.Bottleneck: (_bottleneck, 3)}
    found: Forwards = {}
    for block in net.modules():
        forward, depth = known.get(type(block), (None, 0))
        if forward is not None and not any(map(watched, block.modules())) and _plain(block, depth, wired, folding):
            found[block] = forward
    return found


def _plain(block: Any, depth: int, wired: Wiring, folding: Forwards) -> bool:
    numbers = range(1, depth + 1)
    down = block.downsample
    return (
        all(getattr(block, f"conv{i}") in folding for i in numbers)
        and all(type(act) is nn.ReLU and act in wired for act in (getattr(block, f"act{i}") for i in numbers))
        and all(type(getattr(block, name, None)) in (nn.Identity, type(None)) for name in ("aa", "drop_block"))
        and block.se is None
        and block.drop_path is None
        and (down is None or (type(down) is nn.Sequential and len(down) == 2 and all(one in folding for one in down)))
    )


def _basic(self: Any, input: Tensor) -> Tensor:
    x = F.relu(convolved(self.conv1, input))
    return F.relu(convolved(self.conv2, x) + _shortcut(self, input))


def _bottleneck(self: Any, input: Tensor) -> Tensor:
    x = F.relu(convolved(self.conv2, F.relu(convolved(self.conv1, input))))
    return F.relu(convolved(self.conv3, x) + _shortcut(self, input))


def _shortcut(self: Any, input: Tensor) -> Tensor:
    return input if self.downsample is None else convolved(self.downsample[0], input)
