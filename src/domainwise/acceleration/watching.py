"""See what a step reads from its algorithm and what it changes there, so that a recording of it can be trusted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FunctionType
from typing import Any

import torch

from domainwise.acceleration.guards import MISSING, Notes, copied, global_generators, same, shown
from domainwise.acceleration.inside import functions_of, names_in, of_a_library
from domainwise.algorithms import Algorithm


@contextmanager
def watching(algorithm: Algorithm) -> Iterator[Notes]:
    """Notes of what is read from an algorithm inside; at the end they say why that cannot be recorded, if so.

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
    """Stands between a step and the attributes of its algorithm."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm, self.cls, self.own = algorithm, type(algorithm), vars(algorithm)
        self.notes = Notes(algorithm.device, self.cls.__module__.partition(".")[0])
        # Looked at attribute by attribute, as it is read.
        self.notes.seen |= {id(one): one for one in (algorithm, *self.cls.__mro__)}
        self.notes.random = [(label, state, state()) for label, state in global_generators(algorithm.device)]
        self.known: set[str] = {"__class__"}
        self.before: dict[str, Any] = {}  # what stood in attributes that were set
        self.phase = algorithm.phase  # compared by itself: what it is made of is not read

    def subclass(self) -> type[Algorithm]:
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
        """What the step set on the class that the algorithm had meanwhile belongs to its own."""
        for name in [one for one in vars(self.made) if one not in self.body and one[:2] != "__"]:
            setattr(self.cls, name, vars(self.made)[name])
            self.notes.refused = (
                f"step sets {self.cls.__name__}.{name}, which a replay does not do: set it in prepare(), "
                f"or write into a tensor that stays where it is"
            )

    def verdict(self) -> str:
        """Why a replay would not do what the step did, if so."""
        for name, before in self.before.items():
            if not same(copied(before), now := self.own.get(name, MISSING)):
                return (
                    f"step sets self.{name} (it was {shown(before)} and is {shown(now)}), which a replay does not do: "
                    f"set it in prepare(), or write into a tensor that stays where it is"
                )
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
