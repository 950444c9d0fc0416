"""Average weights: of the models met along one run, by averagers that know only the step, or of several runs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import count, takewhile
from typing import Any

import torch
from torch import Tensor

from domainwise.errors import InputError, is_number, is_whole, plain

State = dict[str, Any]  # {"scalars": what JSON can say, "tensors": {name: Tensor}}


class Mean:
    """Keep a running mean of lists of tensors; half precision is averaged in single.

    What never changes stays what it is to the last bit, which a sum divided by its count would not give. Values it is
    made with are never written to.
    """

    def __init__(self, values: Iterable[Tensor] = (), count: int = 0) -> None:
        self.values, self.count = list(values), count
        self._own = False  # whether the values are ours to write to, on the parameters' device and laid out like them

    @torch.no_grad()
    def add(self, values: Iterable[Tensor], weight: float | None = None) -> None:
        """Count one list more, all alike; or give it this weight and what was there before the rest."""
        new = [v.detach() for v in values]
        if not new:
            raise InputError("there are no parameters to average: the list of them is empty")
        if self.count and len(new) != len(self.values):
            raise InputError(f"an average over {len(self.values)} parameters was given {len(new)} of them")
        self.count += 1
        if self.count == 1:
            self.values = [v.to(torch.promote_types(v.dtype, torch.float32), copy=True) for v in new]
        else:
            if not self._own:
                old = zip(self.values, new, strict=True)
                self.values = [torch.empty_like(n, dtype=v.dtype).copy_(v) for v, n in old]
            same = [n.to(v.dtype) for v, n in zip(self.values, new, strict=True)]
            torch._foreach_lerp_(self.values, same, 1 / self.count if weight is None else weight)
        self._own = True

    def tensors(self, name: str) -> dict[str, Tensor]:
        """Return a copy as names and tensors, in the layout that files have."""
        return {f"{name}.{i}": v.clone(memory_format=torch.contiguous_format) for i, v in enumerate(self.values)}

    @classmethod
    def load(cls, tensors: Mapping[str, Tensor], name: str, count: int) -> Mean:
        """Make a mean of tensors that :meth:`tensors` has named."""
        return cls(listed(tensors, name), count)


def listed(tensors: Mapping[str, Tensor], name: str) -> list[Tensor]:
    """Return the tensors called ``name.0``, ``name.1``, ..."""
    return [tensors[key] for key in takewhile(tensors.__contains__, (f"{name}.{i}" for i in count()))]


@dataclass(repr=False, eq=False)
class Averager(ABC):
    """Base of averagers: ``update`` after every step, ``evaluated`` at every evaluation, ``weights`` when wanted."""

    over = False  # whether nothing that is still to come can change the average
    at_the_end = False  # whether the average is known at the end only; else it is a model like any other, all along

    def __post_init__(self) -> None:
        self._mean = Mean()

    def __repr__(self) -> str:
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        name = type(self).__name__.lower()
        return f"{name}({', '.join(f'{key}={value!r}' for key, value in given.items())})" if given else name

    @abstractmethod
    def update(self, params: Iterable[Tensor], step: int) -> None:
        """Look at the parameters as step number ``step``, counted from 0, has left them."""

    def evaluated(self, step: int, validation_loss: float) -> None:  # noqa: B027  most have no use for it
        """Hear the validation loss of the parameters that ``update`` has just seen."""

    @property
    def ready(self) -> bool:
        """Whether there is an average yet."""
        return self._mean.count > 0

    def weights(self) -> list[Tensor] | None:
        """Return the average as it would be if training ended now, or None while there is none.

        For reading, before the next update: the tensors may be the averager's own.
        """
        return self._mean.values if self.ready else None

    def state_dict(self) -> State:
        """Return a snapshot that continues exactly: ``scalars`` for a JSON file, ``tensors`` for a safetensors file."""
        return {
            "scalars": {"averager": repr(self), "count": self._mean.count},
            "tensors": self._mean.tensors("mean"),
        }

    def load_state_dict(self, state: State) -> None:
        """Go on from a snapshot."""
        saved = state["scalars"]["averager"]
        if saved != repr(self):
            raise InputError(f"this is the state of {saved}, which {self!r} cannot continue")
        self._mean = Mean.load(state["tensors"], "mean", state["scalars"]["count"])

    def _whole(self, name: str, least: int) -> None:
        value = plain(getattr(self, name))
        if not is_whole(value) or value < least:
            raise InputError(f"{self!r}: {name} must be a whole number, {least} or more")
        setattr(self, name, value)

    def _number(self, name: str, below: float = math.inf) -> None:
        value = plain(getattr(self, name))
        if not is_number(value) or not 0 <= value < below:
            raise InputError(
                f"{self!r}: {name} must be a number, 0 or more" + f" and below {below}" * (below < math.inf)
            )
        setattr(self, name, value)


@dataclass(repr=False, eq=False)
class SWA(Averager):
    """Average every ``every``-th model from step ``start`` on (Izmailov et al., 2018)."""

    start: int
    every: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._whole("start", least=0)
        self._whole("every", least=1)

    def update(self, params: Iterable[Tensor], step: int) -> None:
        if step >= self.start and (step - self.start) % self.every == 0:
            self._mean.add(params)


@dataclass(repr=False, eq=False)
class MA(Averager):
    """Average all models from step ``start`` on (Arpit et al., 2022)."""

    start: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        self._whole("start", least=0)

    def update(self, params: Iterable[Tensor], step: int) -> None:
        if step >= self.start:
            self._mean.add(params)


@dataclass(repr=False, eq=False)
class EMA(Averager):
    """Keep ``decay`` of the average so far and take the rest of the newest model; the first model starts it."""

    decay: float = 0.999

    def __post_init__(self) -> None:
        super().__post_init__()
        self._number("decay", below=1)

    def update(self, params: Iterable[Tensor], step: int) -> None:
        self._mean.add(params, weight=1 - self.decay)


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
