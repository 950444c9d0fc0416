"""Average the models of several runs (DiWA, Rame et al., 2022)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from domainwise.averaging._averager import Mean
from domainwise.errors import InputError


def average_models(
    states: Sequence[Mapping[str, Tensor]], *, inits: Sequence[str] | None = None, names: Sequence[str] | None = None
) -> dict[str, Tensor]:
    """Return the uniform mean of state dicts; what is not floating-point (counters) is the first one's.

    Args:
        inits: a fingerprint of the weights each model started from; only models that share it can be averaged.
        names: what errors call the models.
    """
    _check_alike(states, inits, names)
    first = states[0]
    mixed = [key for key, value in first.items() if value.is_floating_point() or value.is_complex()]
    mean = Mean()
    for state in states:
        mean.add(state[key].to(first[key].device) for key in mixed)
    averaged = dict(zip(mixed, mean.values, strict=True))
    return {key: averaged[key].to(value.dtype) if key in averaged else value.clone() for key, value in first.items()}


def greedy(
    states: Sequence[Mapping[str, Tensor]],
    accuracies: Sequence[float],
    score: Callable[[dict[str, Tensor]], float],
    *,
    inits: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
) -> tuple[dict[str, Tensor], list[int]]:
    """Add the models one by one, the most accurate first, and keep each with which the average scores no lower.

    ``accuracies`` and ``score`` are to be measured on validation data of the source domains. Returns the average and
    the positions of the models in it, in the order they were added.
    """
    _check_alike(states, inits, names)
    if len(accuracies) != len(states):
        raise InputError(f"there are {len(states)} models but {len(accuracies)} accuracies")
    kept: list[int] = []
    best: dict[str, Tensor] = {}
    highest = -math.inf
    for i in sorted(range(len(states)), key=lambda i: _or_last(accuracies[i]), reverse=True):
        candidate = average_models([states[k] for k in (*kept, i)])
        value = score(candidate)
        if value >= highest:  # never so for nan
            best, highest = candidate, value
            kept.append(i)
    if not kept:
        raise InputError("no model has a validation score that is a number, so there is nothing to average")
    return best, kept


def _or_last(accuracy: float) -> float:
    return -math.inf if math.isnan(accuracy) else accuracy


def _check_alike(
    states: Sequence[Mapping[str, Tensor]], inits: Sequence[str] | None, names: Sequence[str] | None
) -> None:
    if not states:
        raise InputError("an average needs at least one model, got none")
    for what, given in (("inits", inits), ("names", names)):
        if given is not None and len(given) != len(states):
            raise InputError(f"there are {len(states)} models but {len(given)} {what}")
    called = names or [f"model {i}" for i in range(len(states))]
    for i, state in enumerate(states):
        if inits is not None and inits[i] != inits[0]:
            raise InputError(
                f"{called[i]} started from other weights ({inits[i]}) than {called[0]} ({inits[0]}): only models "
                "trained from the same initial weights lie close enough to be averaged"
            )
        difference = _difference(called[0], states[0], called[i], state)
        if difference:
            raise InputError(f"{difference}: only models of the same network can be averaged")


def _difference(a: str, one: Mapping[str, Tensor], b: str, other: Mapping[str, Tensor]) -> str | None:
    """Say what is the first thing that is not alike; None if all is."""
    for key in (*one, *other):
        if key not in one or key not in other:
            return f"{a if key in one else b} has {key}, which {b if key in one else a} has not"
        if one[key].shape != other[key].shape:
            return f"{key} has shape {tuple(one[key].shape)} in {a} but {tuple(other[key].shape)} in {b}"
        if one[key].dtype != other[key].dtype:
            return f"{key} is {one[key].dtype} in {a} but {other[key].dtype} in {b}"
    return None
