"""Describe hyperparameters: a default, the values that make sense, and how a random search draws one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any

import numpy as np

from domainwise.errors import InputError, plain
from domainwise.seeds import seed_hash

Value = float | int | str | bool | None
Draw = Callable[[np.random.RandomState], Value]


@dataclass(frozen=True)
class Hyper:
    """Hold what a field knows about itself besides its default."""

    draw: Draw | None = None
    domainbed: str | None = None  # its name in DomainBed, or in the fork that has the algorithm, which seeds the draw
    above: float | None = None
    least: float | None = None
    most: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()
    unset: str = ""  # what is used where the default is None
    added: bool = False  # after 0.1.0: trials that have its default are named as before
    idle: Callable[[Any], str] | None = None  # what leaves it without effect in an algorithm, or nothing

    def shown(self, default: object) -> str:
        """Write a default for a reader."""
        if default is None and self.unset:
            return self.unset
        return f"{default:.4g}" if isinstance(default, float) else str(default)

    def check(self, owner: str, field: Field[Any], value: Value) -> Value:
        """Return the value in the field's type, or refuse it in a sentence."""
        if value is None and field.default is None:
            return None
        kind, value = _kind(field), plain(value)
        fits = isinstance(value, bool) == (kind is bool) and isinstance(value, (int, float) if kind is float else kind)
        if not fits:
            raise InputError(f"{owner}: {field.name} must be {_NAMES[kind]}, got {value!r}")
        if self.choices and value not in self.choices:
            raise InputError(f"{owner}: {field.name} must be one of {', '.join(self.choices)}, got {value!r}")
        if isinstance(value, int | float) and not isinstance(value, bool) and not self._inside(value):
            raise InputError(f"{owner}: {field.name} must be {self.range()}, got {value}")
        return float(value) if kind is float and value is not None else value

    def _inside(self, value: float) -> bool:
        return (
            abs(value) <= sys.float_info.max  # neither infinite nor nan
            and (self.above is None or value > self.above)
            and (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )

    def range(self) -> str:
        """Write the values that the field takes."""
        if self.choices:
            return " | ".join(self.choices)
        if self.least is not None and self.most is not None:
            return f"from {self.least:g} to {self.most:g}"
        low = f"above {self.above:g}" if self.above is not None else ""
        low = f"{self.least:g} or more" if self.least is not None else low
        high = f"at most {self.most:g}" if self.most is not None else ""
        high = f"below {self.below:g}" if self.below is not None else high
        return " and ".join(part for part in (low, high) if part) or "a finite number"


_NAMES: dict[type, str] = {float: "a number", int: "a whole number", bool: "True or False", str: "a word"}


def _kind(field: Field[Any]) -> type:
    """Return the field's type; annotations may be strings, and a default of None leaves only them to tell."""
    if field.default is not None:
        return type(field.default)
    named = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))
    return next((kind for kind in (float, int, bool, str) if kind.__name__ in named), str)


def hyper(
    default: Any,
    draw: Draw | None = None,
    *,
    domainbed: str | None = None,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    below: float | None = None,
    choices: tuple[str, ...] = (),
    unset: str = "",
    added: bool = False,
    idle: Callable[[Any], str] | None = None,
) -> Any:
    """Declare a hyperparameter of an algorithm: its default, its search draw, and the values it may take.

    ``unset`` says what is used where the default is None; ``added`` that there are trials from before, whose ids must
    stay: a trial keeps it only where it is not the default. ``idle`` is a function of the algorithm: the setting by
    which this one has no effect, as text, so that nobody gives it in vain; empty where it counts.
    """
    about = Hyper(draw, domainbed, above, least, most, below, choices, unset, added, idle)
    return field(default=default, metadata={"hyper": about})


@dataclass(frozen=True)
class log10:  # noqa: N801  a word of the algorithms' vocabulary
    """Draw ten to the power of a uniform draw."""

    low: float
    high: float

    def __call__(self, random: np.random.RandomState) -> float:
        return float(10 ** random.uniform(self.low, self.high))

    def __str__(self) -> str:
        return f"10^U({self.low:g}, {self.high:g})"


@dataclass(frozen=True)
class uniform:  # noqa: N801
    """Draw uniformly between two numbers."""

    low: float
    high: float

    def __call__(self, random: np.random.RandomState) -> float:
        return float(random.uniform(self.low, self.high))

    def __str__(self) -> str:
        return f"U({self.low:g}, {self.high:g})"


@dataclass(frozen=True)
class whole:  # noqa: N801
    """Cut a draw to a whole number."""

    draw: Draw

    def __call__(self, random: np.random.RandomState) -> int:
        return int(self.draw(random))  # type: ignore[arg-type]

    def __str__(self) -> str:
        return f"{self.draw}, cut to a whole number"


class choice:  # noqa: N801
    """Draw one of several values."""

    def __init__(self, *values: Value) -> None:
        self.values = values

    def __repr__(self) -> str:
        return f"choice({', '.join(map(repr, self.values))})"

    def __str__(self) -> str:
        return " or ".join(map(str, self.values))

    def __call__(self, random: np.random.RandomState) -> Value:
        return self.values[int(random.choice(len(self.values)))]


def hypers(cls: type[Any]) -> dict[str, tuple[Field[Any], Hyper]]:
    """Return the hyperparameters of an algorithm by name."""
    return {field.name: (field, field.metadata["hyper"]) for field in fields(cls)}


def resolved(algorithm: Any) -> dict[str, Value]:
    """Return the hyperparameters that a trial keeps: those added since its id was settled only where they differ."""
    own = {name: getattr(algorithm, name) for name in hypers(type(algorithm))}
    about = hypers(type(algorithm)).items()
    kept = {name for name, (field, hyper) in about if not hyper.added or own[name] != field.default}
    return {name: value for name, value in own.items() if name in kept}


def draw(cls: type[Any], seed: int) -> dict[str, Value]:
    """Draw hyperparameters for a random search, each from its own generator: a new one shifts none of the rest."""
    return {
        name: about.draw(np.random.RandomState(seed_hash(seed, about.domainbed or name)))
        for name, (_, about) in hypers(cls).items()
        if about.draw is not None
    }


def written(name: str, settings: Mapping[str, Value]) -> str:
    """Write an algorithm as on the command line: ``arith(inner_steps=3)``, or just ``arith``."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in settings.items())})" if settings else name
