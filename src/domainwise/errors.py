"""Sentences instead of tracebacks: what a user gave is checked, and what is wrong with it is said in plain words."""

from __future__ import annotations

import inspect
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache, wraps
from numbers import Integral, Real
from pathlib import Path
from reprlib import repr as short
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints
from unicodedata import category


class InputError(ValueError):
    """Something the user gave cannot be used. The command line prints it without a traceback and exits with 2."""

    def __str__(self) -> str:
        return sentence(super().__str__())  # it names what others have named


class TrialError(InputError):
    """Raised where a training came to no good end. The command line prints it and exits with 1."""


class Note(UserWarning):
    """Something to know that ends nothing: a warning in Python, a line on the command line."""

    def __str__(self) -> str:
        return sentence(super().__str__())


def warn(text: str, kind: type[Warning] = Note) -> None:
    """Warn where the user's own code called ours, however many functions lie between."""
    depth, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in ("domainwise", "contextlib"):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(text, kind, stacklevel=depth)


def closest(word: str, known: Iterable[str]) -> str:
    """Return what to put behind "unknown ...": the names that look like ``word``, or all of them."""
    known = list(known)
    near = get_close_matches(word.lower(), known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"


# What turns the direction of all that follows, and what ends a line unseen.
TURNING = frozenset("\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")


def legible(name: str, keep: str = "") -> str:
    """Return a name without what cannot be shown: not every name is valid Unicode, and some command the terminal."""
    if name.isprintable() and name.isascii():
        return name
    return "".join(ascii(letter)[1:-1] if _commands(letter) and letter not in keep else letter for letter in name)


def _commands(letter: str) -> bool:
    return category(letter) in ("Cc", "Cs") or letter in TURNING


def sentence(text: str) -> str:
    """Return text without what cannot be shown, but with its lines and tabs."""
    return legible(text, keep="\n\t")


def printed(text: str) -> str:
    """Return text without what cannot be shown, written so that what was JSON is JSON."""
    if text.isprintable() and text.isascii():
        return text
    return "".join(f"\\u{ord(c):04x}" if _commands(c) and c not in "\n\t" else c for c in text)


SHOWN = 6  # names in a list that says how many more there are


def counted(number: int, word: str) -> str:
    """Write a number of things: "1 trial", "3 trials"."""
    return f"{number} {word}{'s' * (number != 1)}"


def some(names: Iterable[str]) -> str:
    """Return the first of some names, and how many more there are: for a line that must stay short."""
    names = list(names)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return legible(", ".join(f"{name:.60}" for name in names[:SHOWN])) + more


def csv_row(*cells: object) -> list[object]:
    """Return a row of a CSV file whose cells are :func:`defused`."""
    return [*map(defused, cells)]


def defused(cell: object) -> object:
    """Return a cell that no spreadsheet takes for a formula: such text gets an apostrophe in front of it."""
    if not isinstance(cell, str) or not FORMULA.match(cell):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


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
    """Return whether it is a whole number, of Python or of numpy, which True is not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Return whether it is a number, which True is not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def plain(value: Any) -> Any:
    """Return a number of numpy as Python's own, so that ids and files know no difference; else what was given."""
    if type(value) in (bool, int, float) or not is_number(value):
        return value
    return int(value) if is_whole(value) else float(value)


def require(name: str, value: object, hint: Any) -> None:
    """Refuse a value that does not fit a type, with a sentence that names it."""
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
    Path: "a path", type: "a class",
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
