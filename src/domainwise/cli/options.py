"""Options that several commands share, alone and in groups, so that they mean and say the same everywhere.

A group is a dataclass among the parameters of a command: each of its fields is an option, and ``panel`` is its heading.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_type_hints

import typer

MOST = 1_000_000  # of what is counted and takes time
STEEPEST = 1e6  # of learning rates: nothing is learned with more


Format = StrEnum("Format", ["table", "csv", "json", "markdown", "latex"])
Kept = StrEnum("Kept", ["best", "none", "all"])
Engine = StrEnum("Engine", ["local", "ray"])
Stored = StrEnum("Stored", ["auto", "decoded", "files"])

_DATA = typer.Option(
    "--data", envvar="DOMAINWISE_DATA", metavar="digits|DIR|FILE|pacs=DIR",
    help='"digits" (embedded), a folder DIR/<domain>/<class>/<image>, a manifest, or a benchmark and its folder.',
)  # fmt: skip
Data = Annotated[str, _DATA]
DataIfAny = Annotated[str | None, _DATA]
Algorithms = Annotated[
    str, typer.Option(help="Algorithms: erm,fish or arith(inner_steps=3) or my_idea.py:MyIdea, or all.")
]
Targets = Annotated[
    str,
    typer.Option(help="Domains to hold out: a,b or all, one after the other; a+b at once; official: the data's split."),
]
Seeds = Annotated[str, typer.Option(metavar="N|A-B", help="How many seeds, or which: 3, or 100-107 or 4,9.")]
Preset = Annotated[str, typer.Option(help="quick, domainbed or swad: see domainwise presets.", metavar="NAME")]
Probe = Annotated[
    bool,
    typer.Option(
        "--probe/--no-probe",
        help="Compare with a head on frozen features too, where your own data meets a pretrained network.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Output folder; ./domainwise-runs/<command>-<hash> if none is given."),
]
Cache = Annotated[
    Path | None,
    typer.Option("--cache", envvar="DOMAINWISE_CACHE", metavar="DIR", help="Folder to keep decoded images in."),
]
Device = Annotated[str, typer.Option(help='"cpu", "cuda", "cuda:1", or "auto": a GPU if there is one.')]
Precision = Annotated[
    str | None,
    typer.Option(
        metavar="fp32|tf32|bf16", help="Precision of the featurizer: fp32 as published, bf16 by default on a GPU."
    ),
]
NoCompile = Annotated[bool, typer.Option("--no-compile", help="On a GPU: do not compile the featurizer.")]
NoCapture = Annotated[bool, typer.Option("--no-capture", help="On a GPU: do not record updates in a CUDA graph.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of each process; 1 for a small network.")]
TrustCode = Annotated[
    bool, typer.Option("--trust-code", help="Run the Python file that the model names, if it is what it was.")
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No progress, only the result.")]
TableFormat = Annotated[Format, typer.Option("--format", help="Format of the table.")]
Select = Annotated[
    str | None,
    typer.Option(
        metavar="RULE",
        help="Only print the table, by another rule: validation, pooled, leave-one-out, oracle or last.",
    ),
]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Run trials that failed before once more.")]
Timeout = Annotated[
    float | None,
    typer.Option(min=1, metavar="SECONDS", help="Give up on a trial that takes longer, and go on with the others."),
]
Keep = Annotated[
    Kept, typer.Option("--keep", help="Models to keep: the best of every trial, none, or that of every evaluation.")
]
Snapshots = Annotated[
    int, typer.Option(min=0, metavar="N", help="Keep this many models of every trial too, spread over its training.")
]


@dataclass(frozen=True)
class PaperChoices:
    """Hold the settings of a trial that are not left to the preset, nor to a table of the paper."""

    panel: ClassVar[str] = "Training"

    network: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="auto, small, a timm backbone such as resnet50, or my_net.py:build."),
    ] = None
    weights: Annotated[
        str | None,
        typer.Option(metavar="none|pretrained|FILE", help="Weights that a backbone starts from; FILE is a local one."),
    ] = None
    steps: Annotated[int | None, typer.Option(help="Updates of one trial.")] = None
    batch: Annotated[int | None, typer.Option("--batch", help="Images of each source domain in one update.")] = None
    input_size: Annotated[int | None, typer.Option("--size", help="Side of the square that the network sees.")] = None
    evaluate_every: Annotated[int | None, typer.Option("--evaluate-every", help="Updates between two evaluations.")] = (
        None
    )
    set: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other setting of the preset, or a hyperparameter for every algorithm that has it. Repeatable.",
        ),
    ] = None
    precision: Precision = None


@dataclass(frozen=True)
class Choices(PaperChoices):
    """Hold the settings of a trial that are not left to the preset."""

    features: Annotated[
        str | None,
        typer.Option(
            "--features",
            metavar="trained|frozen",
            help="frozen: computed once, from images as they are, and only a head is trained on them.",
        ),
    ] = None
    augment: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="none, flip, domainbed, or my_file.py:build, which returns a transform."),
    ] = None
    balanced: Annotated[bool, typer.Option("--balanced", help="Draw all classes equally often.")] = False
    average: Annotated[
        str,
        typer.Option(
            metavar="NAMES", help="Average weights beside: swad, ema, ma, swa(start=9,every=1), swad,ma; or none."
        ),
    ] = "auto"


@dataclass(frozen=True)
class Models:
    """Say which models a trial leaves, and what is evaluated beside."""

    panel: ClassVar[str] = "What a trial leaves"

    keep: Keep = Kept.best
    snapshots: Snapshots = 0
    evaluate_all: Annotated[
        bool, typer.Option("--evaluate-all", help="Evaluate what the sources are trained on too, as DomainBed does.")
    ] = False


@dataclass(frozen=True)
class ModelsOfSweep(Models):
    """Keep no models by default, for a search of many trials."""

    keep: Keep = Kept.none


STORE = "Where images are kept: decoded in the cache, or in their files; auto: wherever there is room."


@dataclass(frozen=True)
class Images:
    """Say how images are read."""

    panel: ClassVar[str] = "Reading images"

    cache: Cache = None
    store: Annotated[Stored, typer.Option("--store", help=STORE)] = Stored.auto
    skip_corrupt: Annotated[bool, typer.Option("--skip-corrupt", help="Leave out images that cannot be read.")] = False
    strict: Annotated[bool, typer.Option("--strict", help="Refuse domains that lack a class.")] = False


@dataclass(frozen=True)
class Machine:
    """Say on what a trial runs, and how fast."""

    panel: ClassVar[str] = "This machine"

    device: Device = "auto"
    threads: Threads = None
    no_compile: NoCompile = False
    no_capture: NoCapture = False
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="On a GPU: the same bits every time, at some cost.")
    ] = False
    log_every: Annotated[
        int,
        typer.Option("--log-every", min=1, help="Updates between two looks at losses: a run that diverges ends there."),
    ] = 10


@dataclass(frozen=True)
class Many:
    """Say how many trials run at once, and what becomes of those that do not end."""

    panel: ClassVar[str] = "Many trials"

    processes: Annotated[
        int | None,
        typer.Option(min=1, help="Trials side by side on a CPU: as many as fit the cores, if not given."),
    ] = None
    per_gpu: Annotated[
        str,
        typer.Option("--per-gpu", metavar="N|auto", help="Trials side by side on a GPU; auto: as fit, up to 4."),
    ] = "auto"
    timeout: Timeout = None
    retries: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Tries more for a trial whose process has died: 1, with Ray 3, if not given."
        ),
    ] = None
    retry_failed: RetryFailed = False


@dataclass(frozen=True)
class Cluster:
    """Say which engine runs the trials."""

    panel: ClassVar[str] = "Many trials"

    engine: Annotated[
        Engine, typer.Option("--engine", help="Processes on this machine, or Ray: pip install 'domainwise[ray]'.")
    ] = Engine.local
    address: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Address of a Ray cluster; without it one is started on this machine."),
    ] = None


@dataclass(frozen=True)
class Inside:
    """Say how a trained model and its data are opened to look inside."""

    panel: ClassVar[str] = "This machine"

    cache: Cache = None
    device: Device = "auto"
    precision: Precision = None
    threads: Threads = None
    trust_code: TrustCode = False


@dataclass(frozen=True)
class Results:
    """Say where results go, and how they are printed."""

    panel: ClassVar[str] = "Results"

    output: Output = None
    format: TableFormat = Format.table
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be run, and stop.")] = False
    quiet: Quiet = False


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the fields of its groups as parameters of their own, for typer to see."""
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
    hints, panel = get_type_hints(group, include_extras=True), getattr(group, "panel", None)
    return [_option(field.name, _under(hints[field.name], panel), field.default) for field in fields(group)]


def _under(kind: Any, panel: str | None) -> Any:
    """Return an option that ``--help`` shows under a heading."""
    option = copy(kind.__metadata__[0])
    option.rich_help_panel = panel
    return Annotated[kind.__origin__, option]


def _option(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
