"""Read the settings of the outer optimizer: which one, how its learning rate goes, and where gradients are clipped.

They are written like algorithms: ``adam``, ``sgd(momentum=0.9)``; ``linear(warmup=100)``, ``step(every=500, by=0.9)``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from domainwise.errors import InputError, closest, is_number, is_whole

SHAPE = re.compile(r"\s*(?P<name>\w+)\s*(?:\((?P<settings>.*)\))?\s*")


@dataclass(frozen=True)
class Adam:
    """Adam, by default that of the published protocol: its weight decay is added to the gradient."""

    amsgrad: bool = False


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam whose weight decay shrinks the weights beside the step."""


@dataclass(frozen=True)
class SGD:
    """Gradient descent, with momentum where it is given."""

    momentum: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise InputError(f"the momentum of sgd is from 0 up, below 1, got {self.momentum}")
        if self.nesterov and not self.momentum:
            raise InputError("sgd(nesterov=True) needs a momentum, as in sgd(momentum=0.9, nesterov=True)")


@dataclass(frozen=True)
class Constant:
    """The same learning rate throughout, after it has risen evenly for ``warmup`` updates."""

    warmup: int = 0

    def __post_init__(self) -> None:
        if self.warmup < 0:
            raise InputError(f"the warmup of a schedule is a number of updates from 0 up, got {self.warmup}")

    def factor(self, update: int, updates: int) -> float:
        """Return what the learning rate is multiplied by in an update, of which there are so many in all."""
        if update < self.warmup:
            return update / self.warmup
        return self.later(update, updates)

    def later(self, update: int, updates: int) -> float:
        """Return the factor once the warm-up is over."""
        return 1.0


@dataclass(frozen=True)
class Linear(Constant):
    """A learning rate that falls evenly, and would be 0 after the last update."""

    def later(self, update: int, updates: int) -> float:
        return max(0.0, (updates - update) / max(1, updates - self.warmup))


@dataclass(frozen=True)
class Step(Constant):
    """A learning rate that is multiplied by ``by`` after every so many updates."""

    every: int = 0  # 0 until the updates of an epoch are known
    by: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.every < 0 or not 0 < self.by <= 1:
            raise InputError(
                "the schedule step says after how many updates the learning rate is multiplied by what, up to 1, as in "
                "step(every=500, by=0.9); without every it is an epoch"
            )

    def later(self, update: int, updates: int) -> float:
        return float(self.by ** (update // self.every)) if self.every else 1.0


FITTING: Mapping[type, tuple[Callable[[object], bool], str]] = {
    bool: (lambda value: isinstance(value, bool), "True or False"),
    int: (is_whole, "a whole number"),
    float: (is_number, "a number"),
}
Kind = Adam | SGD | Constant
OPTIMIZERS: Mapping[str, type[Kind]] = {"adam": Adam, "adamw": AdamW, "sgd": SGD}
SCHEDULES: Mapping[str, type[Kind]] = {"constant": Constant, "linear": Linear, "step": Step}


def optimizer_of(text: str) -> Adam | SGD:
    """Return the optimizer that a text names; :func:`text_of` writes it back."""
    found = _read(text, OPTIMIZERS, "optimizer")
    assert isinstance(found, Adam | SGD)
    return found


def schedule_of(text: str) -> Constant:
    """Return the schedule that a text names; :func:`text_of` writes it back."""
    found = _read(text, SCHEDULES, "schedule")
    assert isinstance(found, Constant)
    return found


def text_of(kind: Kind) -> str:
    """Write an optimizer or a schedule in the one way that a trial keeps: what is not the default, in brackets."""
    name = type(kind).__name__.lower()
    own = {field.name: value for field, value in zip(fields(kind), asdict(kind).values(), strict=True)}
    given = [f"{key}={value!r}" for key, value in own.items() if value != getattr(type(kind), key)]
    return f"{name}({', '.join(given)})" if given else name


def _read(text: str, kinds: Mapping[str, type[Kind]], what: str) -> Kind:
    shape = SHAPE.fullmatch(text)
    name = shape["name"].lower() if shape else ""
    if shape is None or name not in kinds:
        raise InputError(f'there is no {what} "{text}": {closest(name or text, kinds)}')
    given = _settings(shape["settings"] or "", text)
    known = {field.name: field for field in fields(kinds[name])}
    for key, value in given.items():
        if key not in known:
            raise InputError(f'{text}: {name} has no setting "{key}": {closest(key, known)}')
        kind: Any = type(known[key].default)
        fits, wanted = FITTING[kind]
        if not fits(value):
            raise InputError(f"{text}: {key} must be {wanted}, got {value!r}")
        given[key] = kind(value)
    return kinds[name](**given)


def _settings(text: str, whole: str) -> dict[str, Any]:
    try:
        call = ast.parse(f"_({text})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or any(keyword.arg is None for keyword in call.keywords):
            raise ValueError("settings are given by name")
        return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError) as error:
        raise InputError(f"cannot read {whole!r}: write name(key=value, ...)") from error
