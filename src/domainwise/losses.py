"""Pure functions of networks, features and batches that algorithms are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

Batch = tuple[Tensor, Tensor]  # inputs and labels of one domain's minibatch


def cross_entropy(net: Callable[[Tensor], Tensor], batches: Sequence[Batch]) -> Tensor:
    """Mean over all samples, in one forward pass over the batches put together."""
    x, y = joined(batches)
    return F.cross_entropy(net(x), y)


def joined(batches: Sequence[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    return torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches])
