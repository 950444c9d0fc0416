"""Python files of a user's own: algorithms and networks that are no part of this package."""

from __future__ import annotations

import ast
import dis
import hashlib
import linecache
import re
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from inspect import getsource, unwrap
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from domainwise.errors import InputError, closest

OWN = re.compile(r"(?P<file>.+\.py):(?P<function>\w+)")  # a function of a user's own


def source_of(file: Path | str) -> str:
    """Return the hash of what a file says; an edited file is another algorithm, or another network."""
    return hashlib.sha256(_content(Path(file))).hexdigest()


def module_of(file: Path, sha256: str = "") -> ModuleType:
    """Run a file as a module, once for each of its contents; where a hash is given, only if it is that of the file.

    The text that is hashed is the text that is run: not what the file says a moment later, and no compiled file that
    lies beside it.
    """
    content = _content(file)
    digest = hashlib.sha256(content).hexdigest()
    if sha256 and digest != sha256:
        raise InputError(
            f"{file.name} has changed: the sha256 of {file} was {sha256} when it was asked for, and is {digest} now. "
            "Put back what it was, or run the command again with what it is"
        )
    # Under a name of its own, so that two files of one name, or an edited one, do not stand in for each other.
    name = f"_domainwise_{file.stem}_{hashlib.sha256(f'{file}:{digest}'.encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        location = spec_from_file_location(name, file, loader=SourceFileLoader(name, str(file)))
        assert location is not None
        module = sys.modules[name] = module_from_spec(location)
        try:
            exec(compile(content, str(file), "exec", dont_inherit=True), vars(module))
        except Exception as error:
            del sys.modules[name]
            raise InputError(
                f"{file.name} cannot be imported: {type(error).__name__}: {error}{_beside(file, error)}"
            ) from error
    return sys.modules[name]


def function_of(written: re.Match[str], source: str = "") -> Callable[..., object]:
    """Return the function that FILE.py:FUNCTION names; with ``source``, the file must have that hash."""
    file, function = Path(written["file"]), written["function"]
    module = module_of(file, source)
    make = getattr(module, function, None)
    if callable(make):
        return make  # type: ignore[no-any-return]
    known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
    raise InputError(f'{file.name} has no function "{function}": {closest(function, known) if known else "none"}')


def name_of(written: re.Match[str]) -> str:
    """Return the name that sentences have for the function, without the folders its file lies in."""
    return f"{Path(written['file']).name}:{written['function']}"


def file_of(cls: type) -> Path | None:
    """Return the file of an imported module that defines a class; None for one of a notebook, a script, a function."""
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None)
    if cls.__module__ == "__main__" or file is None or getattr(module, cls.__name__, None) is not cls:
        return None
    return Path(file).absolute() if "." not in cls.__module__ else None  # a part of a package is no file by itself


def class_source(cls: type) -> str:
    """Return the hash of a class in no file: of its text, and of all that its code reads in the session around it.

    What is imported from files counts by its name alone, as it does for an algorithm in a file.
    """
    told: dict[str, str] = {}
    _tell_class(cls, cls, told)
    return hashlib.sha256("\n".join([told.pop(""), *(told[name] for name in sorted(told))]).encode()).hexdigest()


def _tell_class(cls: type, of: type, told: dict[str, str]) -> None:
    """Write down the text of a class and of those it derives from, and what the code of each reads."""
    for one in (one for one in cls.__mro__ if _of_session(one, of)):
        name = "" if one is of else f"class {one.__qualname__}"
        if name not in told:
            told[name] = _text(one)
            for function in _functions(one):
                _tell_reads(function, of, told)


def _tell_reads(function: FunctionType, of: type, told: dict[str, str]) -> None:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    read = {name: function.__globals__[name] for name in _globals(function.__code__) if name in function.__globals__}
    for name, value in {**read, **{name: cell.cell_contents for name, cell in cells if name != "__class__"}}.items():
        if isinstance(value, type) and _of_session(value, of):
            _tell_class(value, of, told)
        elif isinstance(value, FunctionType) and _of_session(value, of):
            if f"{name}()" not in told:
                told[f"{name}()"] = _lines(value)
                _tell_reads(value, of, told)
        elif not isinstance(value, type | ModuleType) and not callable(value):
            told[f"{name} ="] = f"{name} = {_value(value, name, of)}"


def _globals(code: CodeType) -> Iterator[str]:
    """The names that a function, and those inside it, look up around them."""
    yield from (one.argval for one in dis.get_instructions(code) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals(inner)


def _value(value: Any, name: str, of: type) -> str:
    if isinstance(value, list | tuple | set | frozenset | dict):
        inside = value.items() if isinstance(value, dict) else value
        parts = [_value(one, name, of) for one in inside]
        return f"{type(value).__name__}({', '.join(sorted(parts) if isinstance(value, set | frozenset) else parts)})"
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | Path):
        return repr(value)
    if hasattr(value, "__array__") and hasattr(value, "dtype"):
        array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
        if array.dtype != object:
            return f"{array.dtype}{array.shape}{hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()}"
    if type(value).__module__ == "torch":  # a data type or a device
        return repr(value)
    raise InputError(
        f"{of.__name__} reads {name}, an object of the type {type(value).__name__}, of which it cannot be told whether "
        "it is still the same when results are used again: write the class into a file, and name it as file.py:Class"
    )


def _of_session(one: type | FunctionType, of: type) -> bool:
    """Whether it was written where the class was, or in a notebook or a script; and not in a file that is imported."""
    return one.__module__ in (of.__module__, "__main__")


def _functions(cls: type) -> Iterator[FunctionType]:
    for value in vars(cls).values():
        parts = (value.fget, value.fset) if isinstance(value, property) else (getattr(value, "__func__", value),)
        for part in parts:
            function = unwrap(part) if callable(part) else None
            if isinstance(function, FunctionType) and function.__code__.co_filename != "<string>":  # of a dataclass
                yield function


def _lines(function: FunctionType) -> str:
    try:
        return getsource(function)
    except OSError:
        raise _without_text(function.__name__) from None


def _text(cls: type) -> str:
    for one in _functions(cls):
        line, text = one.__code__.co_firstlineno, "".join(linecache.getlines(one.__code__.co_filename))
        for node in ast.walk(ast.parse(text)) if text else ():
            if not isinstance(node, ast.ClassDef) or node.name != cls.__name__:
                continue
            if node.lineno <= line <= (node.end_lineno or 0):
                return ast.get_source_segment(text, node) or ""
    raise _without_text(f"the class {cls.__name__}")


def _without_text(what: str) -> InputError:
    return InputError(
        f"the text of {what} cannot be found, so that its results could not be told from another's: write it into a "
        "file, and name it as file.py:Class"
    )


def _beside(file: Path, error: Exception) -> str:
    """Say what to do about a module that only somebody who stands in its folder would find."""
    name = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    there = file.absolute().parent
    if name and any((there / found).exists() for found in (f"{name}.py", name)):
        return f'. It lies beside that file, which is no place to import from: PYTHONPATH="{there}" makes it one'
    return ""


def _content(file: Path) -> bytes:
    if not file.is_file():
        raise InputError(f"there is no file {file}")
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror or error}") from error
