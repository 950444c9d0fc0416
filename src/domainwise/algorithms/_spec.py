"""Read algorithms from text (``erm``, ``arith(inner_steps=3)``, ``my_idea.py:MyIdea``), classes and objects."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from domainwise.algorithms._algorithm import Algorithm
from domainwise.algorithms._hyper import hypers, written
from domainwise.errors import InputError, closest, require
from domainwise.experiment.trial import separated
from domainwise.user_files import class_source, file_of, module_of, source_of

_SHAPE = re.compile(r"(?:(?P<file>.+\.py):)?(?P<name>\w+)\s*(?:\((?P<settings>.*)\))?", re.DOTALL)


@dataclass(frozen=True)
class Spec:
    """Name an algorithm and the settings that were given for it."""

    name: str  # "arith", or "my_idea.py:MyIdea"
    settings: Mapping[str, Any] = field(default_factory=dict)
    file: str = ""
    sha256: str = ""  # which the file must have to be run, where it is known; without a file, of the class's source

    @property
    def label(self) -> str:
        """Return how tables call it."""
        return written(self.name.rpartition(":")[2], self.settings)

    @property
    def source(self) -> str:
        """Return the hash of a third party's file, or of a class in no file; "" for an algorithm of ours."""
        return source_of(self.file) if self.file else self.sha256

    @property
    def in_memory(self) -> bool:
        """Whether it is a class that was defined in this program, which no other process knows."""
        return bool(self.sha256) and not self.file

    def cls(self) -> type[Algorithm]:
        """Return the class, of ours or from the file."""
        if self.in_memory:
            return _defined(self.name, self.sha256)
        if not self.file:
            return builtin(self.name)
        file = Path(self.file)
        return _the_algorithm(module_of(file, self.sha256), file.name, self.name.rpartition(":")[2])

    def create(self, defaults: Mapping[str, Any] | None = None) -> Algorithm:
        """Make the algorithm. ``defaults`` give way to what was written, and to hyperparameters it does not have."""
        cls = self.cls()
        known = hypers(cls)
        for key in self.settings:
            if key not in known:
                raise InputError(f'{cls.name} has no hyperparameter "{key}": {closest(key, known)}')
        fitting = {key: value for key, value in (defaults or {}).items() if key in known}
        return cls(**{**fitting, **self.settings})


def names() -> list[str]:
    """Return the names of the algorithms in the folder, where each file is one."""
    import domainwise.algorithms as package

    return sorted(module.name for module in iter_modules(package.__path__) if not module.name.startswith("_"))


def create(name: str, **settings: Any) -> Algorithm:
    """Make an algorithm by its name, or as written on the command line, with hyperparameters."""
    require("name", name, str)
    spec = parse_one(name)
    return Spec(spec.name, {**spec.settings, **settings}, spec.file).create()


@cache
def builtin(name: str) -> type[Algorithm]:
    """Return the class of an algorithm in the folder."""
    if name not in names():
        raise InputError(f'there is no algorithm "{name}": {closest(name, names())}')
    return _the_algorithm(import_module(f"domainwise.algorithms.{name}"), f"algorithms/{name}.py")


def parse(text: str) -> list[Spec]:
    """Read algorithms separated by commas; ``all`` is every one there is."""
    found = [spec for part in separated(text) for spec in (map(Spec, names()) if part == "all" else [parse_one(part)])]
    if not found:
        raise InputError(f"no algorithm was named; known: {', '.join(names())}")
    return found


Given = str | type[Algorithm] | Algorithm


def specs_of(given: Given | Sequence[Given]) -> list[Spec]:
    """Return the algorithms that were given, as text, as classes or as objects; an object stands for its repr."""
    if isinstance(given, str):
        return parse(given)
    many = [given] if isinstance(given, type | Algorithm) else list(given)
    found = [spec for one in many for spec in (parse(one) if isinstance(one, str) else [_spec_of(one)])]
    return found or parse("")


def _spec_of(given: type[Algorithm] | Algorithm) -> Spec:
    cls = given if isinstance(given, type) else type(given)
    if not issubclass(cls, Algorithm) or not vars(cls).get("name"):
        raise InputError(f"{cls.__name__} is not an algorithm: derive it from Algorithm, and put @algorithm above it")
    settings = {} if isinstance(given, type) else _changed(given)
    if cls.__module__.startswith("domainwise.algorithms."):
        return Spec(cls.name, settings)
    if file := file_of(cls):
        return Spec(f"{file.name}:{cls.__name__}", settings, str(file))
    source = class_source(cls)
    _DEFINED[cls.__name__, source] = cls
    return Spec(cls.__name__, settings, sha256=source)


def _changed(algorithm: Algorithm) -> dict[str, Any]:
    own = {name: (field, getattr(algorithm, name)) for name, (field, _) in hypers(type(algorithm)).items()}
    return {name: value for name, (field, value) in own.items() if value != field.default}


_DEFINED: dict[tuple[str, str], type[Algorithm]] = {}  # classes of this program, by name and hash of their source


def _defined(name: str, source: str) -> type[Algorithm]:
    if (name, source) not in _DEFINED:
        raise InputError(
            f"the algorithm {name} was defined in a Python session and lies in no file: define it again as it was and "
            f"give the class, or write it into a file of its own and compare that"
        )
    cls = _DEFINED[name, source]
    if class_source(cls) != source:
        raise InputError(
            f"what the algorithm {name} reads in this program has changed since it was compared: put it back, or give "
            "the class anew"
        )
    return cls


def parse_one(text: str) -> Spec:
    """Read one algorithm."""
    shape = _SHAPE.fullmatch(text.strip())
    if shape is None:
        raise InputError(
            f"cannot read the algorithm {text!r}: write a name, name(key=value) or file.py:Class(key=value)"
        )
    settings = _settings(shape["settings"] or "", text)
    if shape["file"]:
        return Spec(f"{Path(shape['file']).name}:{shape['name']}", settings, str(Path(shape["file"]).absolute()))
    name = shape["name"].lower()
    if name not in names():
        raise InputError(f'there is no algorithm "{shape["name"]}": {closest(name, names())}')
    return Spec(name, settings)


def _settings(text: str, whole: str) -> dict[str, Any]:
    try:
        call = ast.parse(f"_({text})", mode="eval").body
        assert isinstance(call, ast.Call)
        if call.args:
            raise ValueError("give hyperparameters by name")
        found = [(str(keyword.arg), ast.literal_eval(keyword.value)) for keyword in call.keywords]
    except (SyntaxError, ValueError, AssertionError) as error:
        raise InputError(f"cannot read the hyperparameters of {whole!r}: write name(key=value, ...)") from error
    for name, times in Counter(name for name, _ in found).items():
        if times > 1:
            raise InputError(f"{whole}: {name} is given twice: once is enough")
    return dict(found)


def _the_algorithm(module: object, file: str, name: str | None = None) -> type[Algorithm]:
    made = {
        key: value for key, value in vars(module).items() if isinstance(value, type) and issubclass(value, Algorithm)
    }
    own = {key: cls for key, cls in made.items() if cls.__module__ == module.__name__}  # type: ignore[attr-defined]
    if name is None:
        (name,) = own
    if name not in own:
        raise InputError(f'{file} has no algorithm "{name}": {closest(name, own) if own else "it defines none"}')
    if "name" not in vars(own[name]):
        raise InputError(f"{file}: put @algorithm above class {name}")
    return own[name]
