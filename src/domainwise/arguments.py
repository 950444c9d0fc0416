"""Arguments from Python that are of another type than a signature says: a sentence instead of what breaks inside."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from numbers import Integral, Real
from pathlib import Path
from reprlib import repr as short
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from domainwise.errors import InputError

P = ParamSpec("P")
R = TypeVar("R")


def typed(function: Callable[P, R]) -> Callable[P, R]:
    """Have a function refuse arguments that do not fit its own annotations."""

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        signature, hints = _about(function)
        bound = signature.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            kind = signature.parameters[name].kind
            if name in hints and kind is not inspect.Parameter.VAR_KEYWORD:
                for one in value if kind is inspect.Parameter.VAR_POSITIONAL else (value,):
                    require(name, one, hints[name])
            bound.arguments[name] = plain(value)
        return function(*bound.args, **bound.kwargs)

    return checked


def is_whole(value: object) -> bool:
    """Whether it is a whole number, of Python or of numpy, which True is not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def plain(value: Any) -> Any:
    """A number of numpy as Python's own, so that ids and files know no difference; anything else as it is."""
    if type(value) in (bool, int, float) or not is_number(value):
        return value
    return int(value) if is_whole(value) else float(value)


def require(name: str, value: object, hint: Any) -> None:
    if isinstance(value, str) and "\0" in value:
        raise InputError(f"{name} holds a NUL character, which no name can have: got {short(value)}")
    if not _fits(value, hint):
        raise InputError(f"{name} must be {' or '.join(dict.fromkeys(_words(hint)))}, got {short(value)}")


@cache
def _about(function: Callable[..., Any]) -> tuple[inspect.Signature, dict[str, Any]]:
    return inspect.signature(function), get_type_hints(function)


def _fits(value: object, hint: Any) -> bool:
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inside) and not (_of_paths(inside) and _too_long(value))
    if origin is Literal:
        return isinstance(value, str) and value in inside
    if hint in _SIMPLE:
        return _SIMPLE[hint](value)
    kind = origin or hint
    if kind is Callable:
        return callable(value)
    if not isinstance(kind, type):
        return True  # nothing can be said of it
    if isinstance(value, str | bytes) or not isinstance(value, kind):
        return False
    return kind is not Sequence or not inside or all(_fits(one, inside[0]) for one in value)  # type: ignore[attr-defined]


def _of_paths(hints: tuple[Any, ...]) -> bool:
    return any(isinstance(kind := get_origin(one) or one, type) and issubclass(kind, os.PathLike) for one in hints)


def _too_long(value: object) -> bool:
    """Whether a path has a name that is longer than any system's."""
    return isinstance(value, str | os.PathLike) and any(len(part) > LONGEST for part in Path(value).parts)


LONGEST = 255
_SIMPLE: dict[Any, Callable[[Any], bool]] = {
    bool: lambda value: isinstance(value, bool),
    int: is_whole,
    float: is_number,
    str: lambda value: isinstance(value, str) and "\0" not in value,
    NoneType: lambda value: value is None,
    Any: lambda value: True,
    object: lambda value: True,
}
_NAMES: dict[Any, str] = {
    bool: "True or False", int: "a whole number", float: "a number", str: "a text", NoneType: "None",
    Callable: "a function", Mapping: "a dictionary", Iterable: "a list", os.PathLike: "a path",
    Path: "a path",
}  # fmt: skip


def _words(hint: Any) -> list[str]:
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return [word for one in inside for word in _words(one)]
    if origin is Literal:
        return [f'"{one}"' for one in inside]
    if origin is Sequence:
        return [f"a list of them, each {' or '.join(_words(inside[0]))}"]
    kind = origin or hint
    return [getattr(kind, "given_as", "") or _NAMES.get(kind) or kind.__name__.lower()]
