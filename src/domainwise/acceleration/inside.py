"""What an author's objects, classes and functions hold that can change without their becoming others."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import ChainMap, UserDict, UserList
from collections.abc import Callable, Iterator, Mapping, Sized
from functools import partial
from pathlib import Path
from types import (
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

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
PLAIN = (type(None), bool, int, float, complex, str, bytes, np.generic, torch.Size, torch.dtype, torch.device)

_OF_A_MODULE = vars(nn.Module()).keys() - {"training"}
_OF_A_LAYER = {"training", "momentum", "track_running_stats"}
_OF_AN_OPTIMIZER = {"state", "param_groups", "defaults", "step", "_opt_called", "_zero_grad_profile_name"}


def of_a_library(module: str) -> bool:
    """Whose objects have no schedules that an author changes; networks and optimizers are looked at apart."""
    return module.partition(".")[0] in LIBRARIES


def by_author(module: str, home: str) -> bool:
    """Whose code is read, too: that of other installed packages than an algorithm's own is taken as it is."""
    top = module.partition(".")[0]
    if top == "domainwise":
        return module.startswith("domainwise.algorithms.")
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    installed = not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)
    return not of_a_library(module) and (top == home or not installed)


def of_object(label: str, value: Any) -> Iterator[Place]:
    """The attributes of an object, and how many there are: one may come that its class had until then."""
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
    """What stands in a class beside its functions."""
    for name, value in list(vars(cls).items()):
        described = isinstance(value, MemberDescriptorType | GetSetDescriptorType) or functions_of(value)
        if not described and name[:2] != "__" and name[:5] != "_abc_":
            yield f"{cls.__name__}.{name}", vars(cls).get, name


def of_module(label: str, module: nn.Module) -> Iterator[Place]:
    """What a network is made of, and the rates and switches in it; of an author's module, all that it has."""
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
    """The variables around a function, its defaults, and what was put on it."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name != "__class__":  # which super() is about
            yield f"{name} in {function.__qualname__}", partial(_contents, cell), None
    for name in ("__defaults__", "__kwdefaults__", "__dict__"):
        if getattr(function, name):
            yield f"{function.__qualname__}.{name}", partial(getattr, function), name


def functions_of(value: Any) -> list[FunctionType]:
    """The code of a method, of a property or of whatever else stands in a class."""
    parts = [value, *(getattr(value, name, None) for name in ("__func__", "__wrapped__", "func"))]
    parts += [getattr(value, name, None) for name in ("fget", "fset")] if isinstance(value, property) else []
    return [part for part in parts if isinstance(part, FunctionType)]


def names_in(code: CodeType) -> set[str]:
    """All that code names, as a text for getattr too, and that of the functions in it."""
    inside = [names_in(one) for one in code.co_consts if isinstance(one, CodeType)]
    texts = {one for one in code.co_consts if isinstance(one, str) and one.isidentifier()}
    return set(code.co_names).union(texts, *inside)


def imported_in(function: FunctionType, names: set[str]) -> Mapping[str, ModuleType]:
    """Modules that a function may import where it needs them."""
    package = function.__globals__.get("__package__") or ""
    found = {name: sys.modules.get(name) or sys.modules.get(f"{package}.{name}") for name in names}
    return {name: module for name, module in found.items() if module is not None}


def number_of(what: str, values: Sized) -> Place:
    return f"the number of {what}", lambda key, default: len(values), None


def _contents(cell: CellType, key: None, default: object) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was put there yet
        return default
