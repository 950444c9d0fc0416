"""Read algorithms from text: ``erm``, ``arith(inner_steps=3)``, ``my_idea.py:MyIdea(strength=0.2)``."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping
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
from domainwise.user_files import module_of, source_of

_SHAPE = re.compile(r"(?:(?P<file>.+\.py):)?(?P<name>\w+)\s*(?:\((?P<settings>.*)\))?", re.DOTALL)


@dataclass(frozen=True)
class Spec:
    """Name an algorithm and the settings that were given for it."""

    name: str  # "arith", or "my_idea.py:MyIdea"
    settings: Mapping[str, Any] = field(default_factory=dict)
    file: str = ""
    sha256: str = ""  # which the file must have to be run, where it is known

    @property
    def label(self) -> str:
        """Return how tables call it."""
        return written(self.name.rpartition(":")[2], self.settings)

    @property
    def source(self) -> str:
        """Return the hash of a third party's file; "" for an algorithm of ours."""
        return source_of(self.file) if self.file else ""

    def cls(self) -> type[Algorithm]:
        """Return the class, of ours or from the file."""
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
