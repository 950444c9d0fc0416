"""Options that commands share, as one parameter: a dataclass, each field of which is an option of the command."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import wraps
from typing import TYPE_CHECKING, Any, get_type_hints

from domainwise.cli import options as o
from domainwise.errors import InputError

if TYPE_CHECKING:
    from domainwise.training.run_options import RunOptions


@dataclass(frozen=True)
class Choices:
    """What a trial is, where that is not left to the preset."""

    network: o.Network = None
    weights: o.Weights = None
    steps: o.Steps = None
    batch: o.BatchSize = None
    size: o.Size = None
    evaluate_every: o.Every = None
    set: o.Set = None
    precision: o.Precision = None


@dataclass(frozen=True)
class Beside:
    """What goes on beside the training of a trial, and what stays of it."""

    evaluate_all: o.EvaluateAll = False
    balanced: o.Balanced = False
    average: o.Average = "none"
    keep: o.Keep = o.Kept.best
    snapshots: o.Snapshots = 0
    deterministic: o.Deterministic = False


@dataclass(frozen=True)
class BesideSweep(Beside):
    keep: o.Keep = o.Kept.none


@dataclass(frozen=True)
class One:
    """Where and how one trial is run."""

    output: o.Output = None
    cache: o.Cache = None
    device: o.Device = "auto"
    no_compile: o.NoCompile = False
    no_capture: o.NoCapture = False
    threads: o.Threads = None
    quiet: o.Quiet = False
    skip_corrupt: o.SkipCorrupt = False
    strict: o.Strict = False


@dataclass(frozen=True)
class Machine(One):
    """Where and how trials are run, and what is printed."""

    format: o.TableFormat = o.Format.table
    dry_run: o.DryRun = False
    retry_failed: o.RetryFailed = False
    timeout: o.Timeout = None


@dataclass(frozen=True)
class Many:
    """How many at once."""

    processes: o.Processes = None
    per_gpu: o.PerGPU = "auto"
    retries: o.Retries = None


@dataclass(frozen=True)
class Cluster:
    engine: o.EngineNamed = o.Engine.local
    address: o.Address = None

    def __post_init__(self) -> None:
        if self.address is not None and not self.elsewhere:
            raise InputError("--address is of a Ray cluster: add --engine ray, or leave it out")

    @property
    def elsewhere(self) -> bool:
        return self.engine is o.Engine.ray


def run_options(device: str, *groups: object) -> RunOptions:
    """Return the run options among the fields of option groups; a field named after one sets it."""
    from domainwise.acceleration.cuda_graph import Fast
    from domainwise.training.run_options import RunOptions

    given = {name: value for group in groups for name, value in vars(group).items()}
    given = {name: value.value if isinstance(value, Enum) else value for name, value in given.items()}
    fast = Fast(not given["no_compile"], not given["no_capture"], given["deterministic"])
    return RunOptions(**{**RunOptions.among(given), "device": device, "fast": fast})


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The same command with the fields of its dataclasses as parameters of their own, for typer to see."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if isinstance(kind, type) and is_dataclass(kind)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        parameters += _options(groups[name]) if name in groups else [_option(name, hints[name], parameter.default)]

    @wraps(command)
    def with_options(**given: Any) -> None:
        packed = {name: kind(**{f.name: given.pop(f.name) for f in fields(kind)}) for name, kind in groups.items()}
        command(**given, **packed)

    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


def _options(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [_option(field.name, hints[field.name], field.default) for field in fields(group)]


def _option(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
