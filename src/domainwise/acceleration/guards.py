"""Values that a recorded step depends on: noted when it is recorded, compared before every replay."""

from __future__ import annotations

import random
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import repeat
from operator import attrgetter, call, is_
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from domainwise.acceleration.inside import (
    HOLDERS,
    PLAIN,
    Get,
    Place,
    by_author,
    functions_of,
    imported_in,
    names_in,
    of_a_library,
    of_class,
    of_function,
    of_module,
    of_object,
    of_optimizer,
)

MISSING = object()
MOST = 20_000  # values compared before a replay; as many take about a millisecond

_TRAINED = attrgetter("requires_grad")


class Notes:
    """Values with the places they stand in. ``refused`` says why no replay can do what the step does, if so."""

    def __init__(self, device: torch.device, home: str = "") -> None:
        self.device, self.home, self.refused = device, home, ""  # home: the package of the algorithm
        self.seen: dict[int, object] = {}  # kept alive, so that no id is given out twice
        self.globals: set[str] = set()
        # Compared by identity first, all at once, which is fast.
        self.labels: list[str] = []
        self.gets: list[Get] = []
        self.keys: list[Any] = []
        self.values: list[Any] = []
        self.several: list[tuple[str, Get, Any, Any]] = []  # containers, compared with a copy
        self.tensors: list[Tensor] = []
        self.called: list[str] = []  # their labels
        self.pointers: list[int] = []
        self.parameters: list[Tensor] = []
        self.trained: list[tuple[str, bool]] = []  # which of them
        self.versions: list[tuple[str, Tensor, int]] = []  # of tensors that the host reads
        self.random: list[tuple[str, Callable[[], Any], Any]] = []

    def note(self, label: str, get: Get, key: Any) -> None:
        value = get(key, MISSING)
        if isinstance(value, list | tuple | dict | MappingProxyType | set | deque | np.ndarray | array | bytearray):
            try:
                self.several.append((label, get, key, copied(value)))
            except RecursionError:
                self.refused = f"{label} holds itself, and cannot be compared before every update: read it in prepare()"
        else:
            self._single(label, get, key, value)
        if len(self.values) + len(self.several) > MOST:
            self.refused = f"{label} has too many values to compare before every update: keep them in a tensor"
        else:
            self.look_into(label, value)

    def _single(self, label: str, get: Get, key: Any, value: Any) -> None:
        self.labels.append(label)
        self.gets.append(get)
        self.keys.append(key)
        self.values.append(value)

    def look_into(self, label: str, value: Any) -> None:
        """Note what is inside a value, as far as it can change while the value stays the same object."""
        if self.refused or isinstance(value, PLAIN) or id(value) in self.seen:
            return
        self.seen[id(value)] = value
        if isinstance(value, Tensor):
            self._tensor(label, value)
        elif isinstance(value, nn.Module):
            self._network(label, value)
        elif isinstance(value, Optimizer):
            self._optimizer(label, value)
        elif (state := _random_state(value)) is not None:
            self.random.append((label, state, state()))
        elif isinstance(value, list | tuple | set | deque | dict | MappingProxyType):
            for key, one in value.items() if isinstance(value, dict | MappingProxyType) else enumerate(value):
                self.look_into(f"{label}[{key!r}]" if isinstance(key, PLAIN) else label, one)
            self._object(label, value)
        elif isinstance(value, Iterator):
            self.refused = f"step takes from {label}, an iterator, which a replay does not: take from it in prepare()"
        elif isinstance(value, partial):
            self.look_into(label, (value.func, value.args, value.keywords))
        elif isinstance(value, MethodType):
            self.look_into(label, (value.__self__, value.__func__))
        elif isinstance(value, FunctionType):
            self._code(value)
        elif isinstance(value, type):
            self._class(value)
        elif not isinstance(value, ModuleType | BuiltinFunctionType | CodeType):
            self._object(label, value)

    def _object(self, label: str, value: Any) -> None:
        if of_a_library(type(value).__module__) and not isinstance(value, HOLDERS):
            for function in functions_of(value):  # as functools.cache keeps one
                self.look_into(label, function)
            return
        self._all(of_object(label, value))
        for cls in type(value).__mro__:
            self.look_into(label, cls)

    def _class(self, cls: type) -> None:
        if by_author(cls.__module__, self.home):
            for function in [one for value in list(vars(cls).values()) for one in functions_of(value)]:
                self.look_into(function.__qualname__, function)
            self._all(of_class(cls))

    def _all(self, places: Iterable[Place]) -> None:
        for place in places:
            self.note(*place)

    def _tensor(self, label: str, tensor: Tensor) -> None:
        if tensor.layout == torch.strided:
            self.tensors.append(tensor)
            self.called.append(label)
            self.pointers.append(tensor.data_ptr())
        if tensor.device != self.device and not tensor.is_inference():
            self.versions.append((label, tensor, tensor._version))

    def _network(self, label: str, net: nn.Module) -> None:
        modules = dict(net.named_modules())
        self.seen |= {id(module): module for module in modules.values()}
        for name, module in modules.items():
            self._all(of_module(f"{label}.{name}" if name else label, module))
            self.look_into(label, type(module))
        found = dict(net.named_parameters())
        self.parameters += found.values()
        self.trained += [(f"{label}.{name}", one.requires_grad) for name, one in found.items()]

    def _optimizer(self, label: str, optimizer: Optimizer) -> None:
        self._all(of_optimizer(label, optimizer))
        for state in optimizer.state.values():
            for key, value in state.items() if isinstance(state, dict) else ():
                self._single(f"the {key!r} in the state of {label} (capturable=True?)", state.get, key, value)
                if isinstance(value, Tensor) and value.device != self.device:
                    self.versions.append((self.labels[-1], value, value._version))
        self.look_into(label, type(optimizer))

    def _code(self, function: FunctionType) -> None:
        """What a function has from around it: variables of the functions it is in, defaults, globals that it names."""
        if of_a_library(function.__module__ or ""):
            return
        self._all(of_function(function))
        names = names_in(function.__code__)
        self.named(function.__globals__, function.__module__, names)
        self.named(imported_in(function, names), function.__module__, names)

    def named(self, table: Mapping[str, Any], of: str, names: set[str], within: tuple[object, ...] = ()) -> None:
        """Those of the names that are in a table; of classes and modules there, what of theirs is named too."""
        for name in sorted(names & table.keys()):
            value, label = table[name], f"{of}.{name}"
            if functions := functions_of(value):
                for function in functions:
                    self.look_into(label, function)
            elif isinstance(value, type | ModuleType):
                home = value.__name__ if isinstance(value, ModuleType) else value.__module__
                if value not in within and not of_a_library(home):
                    self.named(vars(value), value.__name__, names, (*within, value))
                    self.look_into(label, value)
            elif label not in self.globals and not hasattr(value, "__get__"):  # as a property has, or a method
                self.globals.add(label)
                self.note(label, table.get, name)

    def changed(self) -> str:
        """What is no longer as it was noted, as the beginning of a sentence; "" if nothing."""
        now = list(map(call, self.gets, self.keys, repeat(MISSING)))
        if not all(map(is_, now, self.values)):
            for label, old, new in zip(self.labels, self.values, now, strict=True):
                if not same(old, new):
                    return f"{label} was {shown(old)} and is now {shown(new)}"
        for label, get, key, old in self.several:
            if not same(old, new := get(key, MISSING)):
                return f"{label} was {shown(old)} and is now {shown(new)}"
        if (pointers := list(map(Tensor.data_ptr, self.tensors))) != self.pointers:
            other = next(i for i, pointer in enumerate(pointers) if pointer != self.pointers[i])
            return f"{self.called[other]} has been given other memory"
        for (label, trains), now_so in zip(self.trained, map(_TRAINED, self.parameters), strict=True):
            if trains != now_so:
                return f"{label} has been frozen or set free"
        for label, tensor, version in self.versions:
            if tensor._version != version:
                return f"{label}, a tensor on {tensor.device}, was written to"
        return ""

    def drawn(self) -> str:
        """A source of random numbers that was drawn from since it was noted."""
        return next((label for label, state, before in self.random if not same(copied(before), state())), "")


def copied(value: Any) -> Any:
    """Containers copied, what is in them too; anything else as it is."""
    if isinstance(value, dict | MappingProxyType):
        return {key: copied(one) for key, one in value.items()}
    if isinstance(value, list | deque | tuple):
        return [copied(one) for one in value]
    if isinstance(value, np.ndarray | array | bytearray):
        return copy(value)
    return set(value) if isinstance(value, set | frozenset) else value


def same(noted: Any, now: Any) -> bool:
    """Whether a value is still what a copy of it says: plain ones by value, objects by identity."""
    if noted is now:
        return True
    if isinstance(now, dict | MappingProxyType):
        return isinstance(noted, dict) and noted.keys() == now.keys() and all(same(noted[k], now[k]) for k in now)
    if isinstance(now, list | deque | tuple):
        return isinstance(noted, list) and len(noted) == len(now) and all(map(same, noted, now))
    if isinstance(now, np.ndarray):
        return type(noted) is type(now) and noted.dtype == now.dtype and np.array_equal(noted, now)
    if isinstance(now, Tensor) or (type(now) is not type(noted) and not isinstance(now, frozenset)):
        return False
    return isinstance(now, (*PLAIN, set, frozenset, array, bytearray)) and bool(noted == now)


def shown(value: Any) -> str:
    if value is MISSING:
        return "not there"
    if isinstance(value, Tensor):
        return f"another tensor of shape {tuple(value.shape)}"
    text = repr(value) if isinstance(value, (*PLAIN, list, dict, set)) else f"another {type(value).__name__}"
    return text if len(text) <= 40 else f"{text[:37]}..."


def line_of(frames: Iterable[tuple[FrameType, int]]) -> str:
    """Where an author's code is at work, from frames that begin with the innermost; "" if nowhere."""
    for frame, line in frames:
        module = frame.f_globals.get("__name__", "")
        if not of_a_library(module) and (module.startswith("domainwise.algorithms.") or "domainwise." not in module):
            return f" in {Path(frame.f_code.co_filename).name}, line {line}"
    return ""


def global_generators(device: torch.device) -> Sequence[tuple[str, Callable[[], Any]]]:
    """Those of the host. On a CPU torch's is the device's, too, which a replay draws from as well."""
    of_torch = [("torch's generator of the host", _state_of_torch)] if device.type != "cpu" else []
    return [("Python's random", random.getstate), ("numpy's random", _state_of_numpy), *of_torch]


def _random_state(value: Any) -> Callable[[], Any] | None:
    if isinstance(value, torch.Generator):
        return lambda: value.get_state().numpy().tobytes()
    if isinstance(value, random.Random):
        return value.getstate
    if isinstance(value, np.random.Generator):
        return lambda: repr(value.bit_generator.state)
    return (lambda: repr(value.get_state())) if isinstance(value, np.random.RandomState) else None


def _state_of_torch() -> bytes:
    return torch.get_rng_state().numpy().tobytes()


def _state_of_numpy() -> Any:
    return np.random.get_state(legacy=False)
