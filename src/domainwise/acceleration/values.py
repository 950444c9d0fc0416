"""Look into an author's values: what they hold that can change, and whether they are still what they were."""

from __future__ import annotations

import random
import sys
from argparse import Namespace
from array import array
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from copy import copy
from functools import partial
from pathlib import Path
from types import (
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler

MISSING = object()

Get = Callable[[Any, Any], Any]  # of a key, or else of a default: dict.get, or getattr of one object
Place = tuple[str, Get, Any]  # its name, how to get what stands there, and by which key

LIBRARIES = {*sys.stdlib_module_names, "torch", "torchvision", "timm", "numpy"} - {"__main__"}
HOLDERS = (
    SimpleNamespace,
    Namespace,
    UserDict,
    UserList,
    ChainMap,
    LRScheduler,
)  # of libraries, with values of authors
CONTAINERS = (list, tuple, dict, MappingProxyType, set, deque, np.ndarray, array, bytearray)
PLAIN = (type(None), bool, int, float, complex, str, bytes, np.generic, torch.Size, torch.dtype, torch.device)

_OF_A_MODULE = vars(nn.Module()).keys() - {"training"}
_OF_A_LAYER = {"training", "momentum", "track_running_stats"}
_OF_AN_OPTIMIZER = {"state", "param_groups", "defaults", "step", "_opt_called", "_zero_grad_profile_name"}


def of_a_library(module: str) -> bool:
    """Whether objects of a module hold no schedules of an author; networks and optimizers are looked at apart."""
    return module.partition(".")[0] in LIBRARIES


def by_author(module: str, home: str) -> bool:
    """Whether the code of a module is read too; other installed packages than the algorithm's own are not."""
    top = module.partition(".")[0]
    if top == "domainwise":
        return module.startswith("domainwise.algorithms.")
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    installed = not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)
    return not of_a_library(module) and (top == home or not installed)


def of_object(label: str, value: Any) -> Iterator[Place]:
    """List the attributes of an object, and their number: one may come that its class had until then."""
    table = getattr(value, "__dict__", None)
    if isinstance(table, dict):
        yield number_of(f"attributes of {label}", table)
        for name in list(table):
            yield f"{label}.{name}", table.get, name
    for cls in type(value).__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            hidden = name[:2] == "__" and name[-2:] != "__"
            if name not in ("__dict__", "__weakref__"):
                yield (
                    f"{label}.{name}",
                    partial(getattr, value),
                    f"_{cls.__name__.lstrip('_')}{name}" if hidden else name,
                )


def of_class(cls: type) -> Iterator[Place]:
    """List what stands in a class beside its functions."""
    for name, value in list(vars(cls).items()):
        described = isinstance(value, MemberDescriptorType | GetSetDescriptorType) or functions_of(value)
        if not described and name[:2] != "__" and name[:5] != "_abc_":
            yield f"{cls.__name__}.{name}", vars(cls).get, name


def of_module(label: str, module: nn.Module) -> Iterator[Place]:
    """List what a network is made of, its rates and switches; for an author's module all that it has."""
    table, own = vars(module), not of_a_library(type(module).__module__)
    rates = float if table["_parameters"] else PLAIN  # a convolution has no other
    for key, value in list(table.items()):
        if key not in _OF_A_MODULE and (own or key in _OF_A_LAYER or isinstance(value, rates)):
            yield f"{label}.{key}", table.get, key
    if own:
        yield number_of(f"attributes of {label}", table)
    for kind in ("_modules", "_parameters", "_buffers"):
        for key in table[kind]:
            yield f"{label}.{key}", table[kind].get, key


def of_optimizer(label: str, optimizer: torch.optim.Optimizer) -> Iterator[Place]:
    """List the settings of an optimizer; for an author's one all that it has."""
    for what, of in (("groups", optimizer.param_groups), ("parameters in the state", optimizer.state)):
        yield number_of(f"{what} of {label}", of)
    for i, group in enumerate(optimizer.param_groups):
        for key in group:
            yield f"{label}.param_groups[{i}][{key!r}]", group.get, key
    if not of_a_library(type(optimizer).__module__):
        for key in vars(optimizer).keys() - _OF_AN_OPTIMIZER:
            if not key.startswith(("_optimizer_", "_warned_")):
                yield f"{label}.{key}", vars(optimizer).get, key


def of_function(function: FunctionType) -> Iterator[Place]:
    """List the variables around a function, its defaults, and what was put on it."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name != "__class__":  # which super() is about
            yield f"{name} in {function.__qualname__}", partial(_contents, cell), None
    for name in ("__defaults__", "__kwdefaults__", "__dict__"):
        if getattr(function, name):
            yield f"{function.__qualname__}.{name}", partial(getattr, function), name


def functions_of(value: Any) -> list[FunctionType]:
    """Return the functions of a method, of a property or of whatever else stands in a class."""
    parts = [value, *(getattr(value, name, None) for name in ("__func__", "__wrapped__", "func"))]
    parts += [getattr(value, name, None) for name in ("fget", "fset")] if isinstance(value, property) else []
    return [part for part in parts if isinstance(part, FunctionType)]


def names_in(code: CodeType) -> set[str]:
    """Return all names in code, texts for getattr and those of the functions in it included."""
    inside = [names_in(one) for one in code.co_consts if isinstance(one, CodeType)]
    texts = {one for one in code.co_consts if isinstance(one, str) and one.isidentifier()}
    return set(code.co_names).union(texts, *inside)


def imported_in(function: FunctionType, names: set[str]) -> Mapping[str, ModuleType]:
    """Return the modules that a function may import where it needs them."""
    package = function.__globals__.get("__package__") or ""
    found = {name: sys.modules.get(name) or sys.modules.get(f"{package}.{name}") for name in names}
    return {name: module for name, module in found.items() if module is not None}


def number_of(what: str, values: Sized) -> Place:
    """Return the place of a length."""
    return f"the number of {what}", lambda key, default: len(values), None


def _contents(cell: CellType, key: None, default: object) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was put there yet
        return default


def copied(value: Any) -> Any:
    """Copy containers and what is in them; anything else is returned as it is."""
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
    """Write a value for a sentence, in at most 40 characters."""
    if value is MISSING:
        return "not there"
    if isinstance(value, Tensor):
        return f"another tensor of shape {tuple(value.shape)}"
    text = repr(value) if isinstance(value, (*PLAIN, list, dict, set)) else f"another {type(value).__name__}"
    return text if len(text) <= 40 else f"{text[:37]}..."


def line_of(frames: Iterable[tuple[FrameType, int]]) -> str:
    """Say where an author's code is at work, from frames that begin with the innermost; "" if nowhere."""
    for frame, line in frames:
        module = frame.f_globals.get("__name__", "")
        if not of_a_library(module) and (module.startswith("domainwise.algorithms.") or "domainwise." not in module):
            return f" in {Path(frame.f_code.co_filename).name}, line {line}"
    return ""


def global_generators(device: torch.device) -> Sequence[tuple[str, Callable[[], Any]]]:
    """List the host's generators. On a CPU torch's is the device's, too, which a replay draws from as well."""
    of_torch = [("torch's generator of the host", _state_of_torch)] if device.type != "cpu" else []
    return [("Python's random", random.getstate), ("numpy's random", _state_of_numpy), *of_torch]


def random_state(value: Any) -> Callable[[], Any] | None:
    """Return a function that reads the state of a generator; None for anything else."""
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
