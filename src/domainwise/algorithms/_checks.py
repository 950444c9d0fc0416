"""Check what an algorithm is given, and what its code does with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from inspect import unwrap
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn

from domainwise.errors import InputError, is_whole


def check_network(owner: str, net: nn.Module, *, halves: bool, linear: bool) -> None:
    """Refuse a network without features and logits apart (``halves``), or with a head that is not ``linear``."""
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
        tensors = [*x.values()] if isinstance(x, Mapping) else [x]
        many = next((len(tensor) for tensor in tensors if len(tensor) != len(y)), len(y))
        if many != len(y) or many == 0:
            raise InputError(
                f"{owner}: the minibatch of domain {i} has {many} inputs and {len(y)} labels: "
                f"it takes as many of one as of the other, and at least one"
            )
        for what, tensor in (*(("inputs", tensor) for tensor in tensors), ("labels", y)):
            if tensor.device != device:
                raise InputError(
                    f"{owner}: the {what} of domain {i} are on {tensor.device} and the network on {device}: "
                    f"move them with .to({str(device)!r})"
                )


def numbers(owner: str, domains: Sequence[int], batches: int) -> tuple[int, ...]:
    if len({*domains}) != batches or not all(is_whole(number) and number >= 0 for number in domains):
        raise InputError(f"{owner}: domains= are {batches} whole numbers, one for each minibatch, each once: {domains}")
    return tuple(map(int, domains))


def _each(owner: str, batches: Sequence[Any], fresh: int) -> Iterator[tuple[int, Any]]:
    """Yield every minibatch with the number of its domain."""
    for i, batch in enumerate(batches):
        if fresh == 1:
            yield i, batch
        elif _is_pair(batch) or not isinstance(batch, Sequence) or len(batch) != fresh:
            raise InputError(f"{owner}: domain {i} must come as a list of {fresh} minibatches, one for each inner step")
        else:
            yield from ((i, one) for one in batch)


def _is_pair(batch: Any) -> bool:
    """Whether these are inputs, a tensor or a dict of tensors, and labels."""
    if not isinstance(batch, Sequence) or len(batch) != 2:
        return False
    x, y = batch
    inputs = [*x.values()] if isinstance(x, Mapping) else [x]
    return bool(inputs) and all(isinstance(part, Tensor) for part in (*inputs, y))


def asks_for(cls: type, wanted: str) -> bool:
    """Return whether an update of an algorithm asks for an attribute, by the code of the methods that it may call."""
    names, todo = {"update"}, ["update"]
    while todo:
        found = _names_of(cls, todo.pop()) - names
        names |= found
        todo += found
    return wanted in names


def _names_of(cls: type, method: str) -> set[str]:
    """Return the names in the code of a method, and in what it overrides if it calls that."""
    found: set[str] = set()
    for owner in cls.__mro__:
        if method in vars(owner):
            value = vars(owner)[method]
            function = unwrap(getattr(value, "fget", None) or getattr(value, "__func__", value))
            found |= set(_names_in(getattr(function, "__code__", None)))
            if "super" not in found:
                break
    return found


def _names_in(code: object) -> Iterator[str]:
    if isinstance(code, CodeType):
        yield from code.co_names
        for inner in code.co_consts:
            yield from _names_in(inner)
