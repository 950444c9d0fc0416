"""Say how a trial is run, without changing what it is: its id, its settings and its random draws stay the same."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, get_type_hints

from domainwise.acceleration.cuda_graph import Fast
from domainwise.errors import InputError, require
from domainwise.saved_models.keep import Keep, checked


@dataclass(frozen=True)
class RunOptions:
    """Hold the options of a run, passed unchanged from the user to the training loop.

    A new option is a field here, a field of an option group of the command line, and the line that uses it:
    ``dw.compare`` and ``dw.fit`` take it by its name.
    """

    device: str = "cpu"
    fast: Fast = Fast()
    keep: Keep = "best"  # which models: see Keeper
    snapshots: int = 0  # how many more models, spread over the training
    evaluate_all: bool = False  # evaluate what the sources are trained on too
    checkpoint_every: int | None = None  # updates; None saves now and then
    log_every: int = 10  # updates between two looks at whether the losses are finite, and two ticks of progress
    cache: str | os.PathLike[str] | None = (
        None  # the folder of decoded images and frozen features; None is the usual one
    )

    def __post_init__(self) -> None:
        checked(self.keep)
        if self.log_every < 1:
            raise InputError(f"log_every is a number of updates, so 1 or more, got {self.log_every}")
        object.__setattr__(self, "cache", None if self.cache is None else str(self.cache))

    @classmethod
    def taken_from(cls, given: Mapping[str, Any], device: str) -> tuple[RunOptions, dict[str, Any]]:
        """Take the run options out of what was given by name; returns them, and the rest, which are settings."""
        fast = {f.name: hint for f, hint in _hinted(Fast)}
        own = {f.name: hint for f, hint in _hinted(cls) if f.name not in ("device", "fast")}
        for name, hint in {**own, **fast}.items():
            if name in given:
                require(name, given[name], hint)
        flags = {name: given[name] for name in fast if name in given}
        options = cls(device, Fast(**flags), **{name: given[name] for name in own if name in given})
        return options, {name: value for name, value in given.items() if name not in {**own, **fast}}

    @property
    def choices(self) -> dict[str, Any]:
        """The options that a checkpoint was written with and that must be the same to resume from it."""
        return {"keep": self.keep, "snapshots": self.snapshots, "evaluate_all": self.evaluate_all}

    def to_json(self) -> dict[str, Any]:
        """Return the options as plain data, for another process."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> RunOptions:
        """Read what :meth:`to_json` returned."""
        return cls(**{**content, "fast": Fast(**content["fast"])})


def _hinted(kind: type) -> list[tuple[Any, Any]]:
    hints = get_type_hints(kind)
    return [(field, hints[field.name]) for field in fields(kind)]
