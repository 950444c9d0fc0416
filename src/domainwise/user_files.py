"""Python files of a user's own: algorithms and networks that are no part of this package."""

from __future__ import annotations

import ast
import hashlib
import linecache
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType

from domainwise.errors import InputError


def source_of(file: Path | str) -> str:
    """What a file says, as a hash; an edited file is another algorithm, or another network."""
    return hashlib.sha256(_content(Path(file))).hexdigest()


def module_of(file: Path, sha256: str = "") -> ModuleType:
    """The file, run once for each of its contents; where a hash is given, only if it is that of the file.

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


def file_of(cls: type) -> Path | None:
    """Return the file of an imported module that defines a class; None for one of a notebook, a script, a function."""
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None)
    if cls.__module__ == "__main__" or file is None or getattr(module, cls.__name__, None) is not cls:
        return None
    return Path(file).absolute() if "." not in cls.__module__ else None  # a part of a package is no file by itself


def class_source(cls: type) -> str:
    """Return the hash of the text that defines a class, in a notebook too."""
    functions = [one for one in vars(cls).values() if isinstance(one, FunctionType)]
    for file, line in ((one.__code__.co_filename, one.__code__.co_firstlineno) for one in functions):
        text = "".join(linecache.getlines(file))
        for node in ast.walk(ast.parse(text)) if text else ():
            if not isinstance(node, ast.ClassDef) or node.name != cls.__name__:
                continue
            if node.lineno <= line <= (node.end_lineno or 0):
                return hashlib.sha256((ast.get_source_segment(text, node) or "").encode()).hexdigest()
    raise InputError(
        f"the text of the class {cls.__name__} cannot be found, so that its results could not be told from another's: "
        "write it into a file, and name it as file.py:Class"
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
