"""What an algorithm is given, looked at before it trains: mistakes become sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from domainwise.errors import InputError


def check_network(owner: str, net: nn.Module, *, halves: bool, linear: bool) -> None:
    """``halves``: features and logits apart; ``linear``: the head must be a linear layer."""
    for half in ("features", "logits") if halves or linear else ():
        if not callable(getattr(net, half, None)):
            raise InputError(
                f"{owner} needs a network with {half}(), and {type(net).__name__} has none: "
                f"give it Network(featurizer, head)"
            )
    if linear and not isinstance(getattr(net, "head", None), nn.Linear):
        head = type(getattr(net, "head", None)).__name__
        raise InputError(f"{owner} needs a network whose head is a nn.Linear, and this one's is a {head}")


def check_batches(owner: str, batches: Sequence[Any], fresh: int, device: torch.device) -> None:
    if len(batches) == 0:
        raise InputError(f"{owner}.update() needs one minibatch per source domain, got none")
    for i, batch in _each(owner, batches, fresh):
        if not _is_pair(batch):
            raise InputError(f"{owner}: the minibatch of domain {i} must be a pair of tensors (inputs, labels)")
        x, y = batch
        if len(x) != len(y) or len(x) == 0:
            raise InputError(
                f"{owner}: the minibatch of domain {i} has {len(x)} inputs and {len(y)} labels: "
                f"it takes as many of one as of the other, and at least one"
            )
        for what, tensor in (("inputs", x), ("labels", y)):
            if tensor.device != device:
                raise InputError(
                    f"{owner}: the {what} of domain {i} are on {tensor.device} and the network on {device}: "
                    f"move them with .to({str(device)!r})"
                )


def _each(owner: str, batches: Sequence[Any], fresh: int) -> Iterator[tuple[int, Any]]:
    """Every minibatch with the number of its domain."""
    for i, batch in enumerate(batches):
        if fresh == 1:
            yield i, batch
        elif _is_pair(batch) or not isinstance(batch, Sequence) or len(batch) != fresh:
            raise InputError(f"{owner}: domain {i} must come as a list of {fresh} minibatches, one for each inner step")
        else:
            yield from ((i, one) for one in batch)


def _is_pair(batch: Any) -> bool:
    return isinstance(batch, Sequence) and len(batch) == 2 and all(isinstance(part, Tensor) for part in batch)
