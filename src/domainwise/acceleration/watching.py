"""Watch what a step reads from its algorithm and changes there, so that a recording of it can be trusted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain, repeat
from operator import attrgetter, call, is_
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from domainwise.acceleration import values
from domainwise.acceleration.values import MISSING, PLAIN, copied, functions_of, names_in, of_a_library, same, shown
from domainwise.algorithms import Algorithm

MOST = 20_000  # values compared before a replay; as many take about a millisecond
INSTEAD = "which a replay does not do: set it in prepare(), or write into a tensor that stays where it is"

_TRAINED = attrgetter("requires_grad")


class Notes:
    """Remember values and the places they stand in; ``refused`` says why a replay cannot do what the step does."""

    def __init__(self, device: torch.device, home: str = "") -> None:
        self.device, self.home, self.refused = device, home, ""  # home: the package of the algorithm
        self.seen: dict[int, object] = {}  # kept alive, so that no id is given out twice
        self.globals: set[str] = set()
        # Compared by identity first, all at once, which is fast.
        self.labels: list[str] = []
        self.gets: list[values.Get] = []
        self.keys: list[Any] = []
        self.values: list[Any] = []
        self.several: list[tuple[str, values.Get, Any, Any]] = []  # containers, compared with a copy
        self.tensors: list[Tensor] = []
        self.called: list[str] = []  # their labels
        self.pointers: list[int] = []
        self.parameters: list[Tensor] = []
        self.trained: list[tuple[str, bool]] = []  # which of them
        self.versions: list[tuple[str, Tensor, int]] = []  # of tensors that the host reads
        self.random: list[tuple[str, Callable[[], Any], Any]] = []

    def note(self, label: str, get: values.Get, key: Any) -> None:
        """Note what stands in a place, and what is inside it."""
        value = get(key, MISSING)
        if isinstance(value, values.CONTAINERS):
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

    def _single(self, label: str, get: values.Get, key: Any, value: Any) -> None:
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
        elif (state := values.random_state(value)) is not None:
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
        if of_a_library(type(value).__module__) and not isinstance(value, values.HOLDERS):
            for function in functions_of(value):  # as functools.cache keeps one
                self.look_into(label, function)
            return
        self._all(values.of_object(label, value))
        for cls in type(value).__mro__:
            self.look_into(label, cls)

    def _class(self, cls: type) -> None:
        if values.by_author(cls.__module__, self.home):
            for function in [one for value in list(vars(cls).values()) for one in functions_of(value)]:
                self.look_into(function.__qualname__, function)
            self._all(values.of_class(cls))

    def _all(self, places: Iterable[values.Place]) -> None:
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
            self._all(values.of_module(f"{label}.{name}" if name else label, module))
            self.look_into(label, type(module))
        found = dict(net.named_parameters())
        self.parameters += found.values()
        self.trained += [(f"{label}.{name}", one.requires_grad) for name, one in found.items()]

    def _optimizer(self, label: str, optimizer: Optimizer) -> None:
        self._all(values.of_optimizer(label, optimizer))
        for state in optimizer.state.values():
            for key, value in state.items() if isinstance(state, dict) else ():
                self._single(f"the {key!r} in the state of {label} (capturable=True?)", state.get, key, value)
                if isinstance(value, Tensor) and value.device != self.device:
                    self.versions.append((self.labels[-1], value, value._version))
        self.look_into(label, type(optimizer))

    def _code(self, function: FunctionType) -> None:
        """Note what a function takes from around it: variables of enclosing functions, defaults, globals it names."""
        if of_a_library(function.__module__ or ""):
            return
        self._all(values.of_function(function))
        names = names_in(function.__code__)
        self.named(function.__globals__, function.__module__, names)
        self.named(values.imported_in(function, names), function.__module__, names)

    def named(self, table: Mapping[str, Any], of: str, names: set[str], within: tuple[object, ...] = ()) -> None:
        """Note the names that are in a table, and those in classes and modules there."""
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
        """Say what is no longer as it was noted, as the beginning of a sentence; "" if nothing."""
        now = list(map(call, self.gets, self.keys, repeat(MISSING)))
        single = () if all(map(is_, now, self.values)) else zip(self.labels, self.values, now, strict=True)
        several = ((label, old, get(key, MISSING)) for label, get, key, old in self.several)
        for label, old, new in chain(single, several):
            if not same(old, new):
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
        """Name a source of random numbers that was drawn from since it was noted; "" if none was."""
        return next((label for label, state, before in self.random if not same(copied(before), state())), "")


@contextmanager
def watching(algorithm: Algorithm) -> Iterator[Notes]:
    """Note what is read from an algorithm inside; at the end the notes say why it cannot be recorded, if so.

    While it lasts the algorithm is of a class of its own, so that nothing is slower at any other time.
    """
    watch, cls = Watch(algorithm), type(algorithm)
    algorithm.__class__ = watch.subclass()
    try:
        yield watch.notes
    except BaseException:
        algorithm.__class__ = cls
        watch.take_back()
        raise
    algorithm.__class__ = cls
    watch.hand_over()
    watch.notes.refused = watch.notes.refused or watch.verdict()


class Watch:
    """Stand between a step and the attributes of its algorithm."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm, self.cls, self.own = algorithm, type(algorithm), vars(algorithm)
        self.notes = Notes(algorithm.device, self.cls.__module__.partition(".")[0])
        # Looked at attribute by attribute, as it is read.
        self.notes.seen |= {id(one): one for one in (algorithm, *self.cls.__mro__)}
        self.notes.random = [(label, state, state()) for label, state in values.global_generators(algorithm.device)]
        self.known: set[str] = {"__class__"}
        self.before: dict[str, Any] = {}  # what stood in attributes that were set
        self.phase = algorithm.phase  # compared by itself: what it is made of is not read

    def subclass(self) -> type[Algorithm]:
        """Make the class that the algorithm has while it is watched."""
        cls, watch = self.cls, self

        def get(self: Algorithm, name: str) -> Any:
            if name == "phase":
                return watch.phase
            if name not in watch.known:
                with torch._C.DisableTorchFunction():  # what is asked of tensors here is not asked by the step
                    watch.read(name)
            return cls.__getattribute__(self, name)

        def put(self: Algorithm, name: str, value: Any) -> None:
            watch.before.setdefault(name, watch.own.get(name, MISSING))
            cls.__setattr__(self, name, value)

        def drop(self: Algorithm, name: str) -> None:
            watch.before.setdefault(name, watch.own.get(name, MISSING))
            cls.__delattr__(self, name)

        body = {"__getattribute__": get, "__setattr__": put, "__delattr__": drop, "__module__": cls.__module__}
        kind: Any = type(cls)
        made: type[Algorithm] = kind(cls.__name__, (cls,), {**body, "__qualname__": cls.__qualname__})
        self.made, self.body = made, set(vars(made))
        return made

    def read(self, name: str) -> None:
        if name in self.known:
            return
        self.known.add(name)
        if name == "__dict__":
            for key in list(self.own):
                self.read(key)
        if name in self.own:
            self.notes.note(f"self.{name}", self.own.get, name)
            return
        found = [vars(cls)[name] for cls in self.cls.__mro__ if name in vars(cls)]
        functions = [part for one in found for part in functions_of(one)]
        if functions:
            for function in functions:  # those of the base classes too, for whom super() asks unseen
                self.method(function)
        elif name[:2] != "__":
            self.notes.note(f"self.{name}", partial(getattr, self.algorithm), name)

    def method(self, function: FunctionType) -> None:
        self.notes.look_into(function.__qualname__, function)
        for cls in self.cls.__mro__:
            if not of_a_library(cls.__module__):
                self.notes.named(vars(cls), cls.__name__, names_in(function.__code__) - self.own.keys())

    def hand_over(self) -> None:
        """Give the algorithm's own class what the step set on the one it had meanwhile."""
        for name in [one for one in vars(self.made) if one not in self.body and one[:2] != "__"]:
            setattr(self.cls, name, vars(self.made)[name])
            self.notes.refused = f"step sets {self.cls.__name__}.{name}, {INSTEAD}"

    def verdict(self) -> str:
        """Say why a replay would not do what the step did; "" if it would."""
        for name, before in self.before.items():
            if not same(copied(before), now := self.own.get(name, MISSING)):
                return f"step sets self.{name} (it was {shown(before)} and is {shown(now)}), {INSTEAD}"
        if drawn := self.notes.drawn():
            return f"step draws from {drawn}, which a replay does not do: draw in prepare(), into a tensor that stays"
        if changed := self.notes.changed():
            return f"step itself changes what it reads, which a replay does not do: {changed}"
        return ""

    def take_back(self) -> None:
        for name, before in self.before.items():
            if before is MISSING:
                self.own.pop(name, None)
            else:
                self.own[name] = before
