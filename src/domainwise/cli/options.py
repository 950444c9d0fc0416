"""Options that several commands share, so that they mean and say the same everywhere."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

MOST = 1_000_000  # of what is counted and takes time
STEEPEST = 1e6  # of learning rates: nothing is learned with more


class Format(StrEnum):
    table = "table"
    csv = "csv"
    json = "json"
    markdown = "markdown"
    latex = "latex"


class Kept(StrEnum):
    best = "best"
    none = "none"
    all = "all"


class Engine(StrEnum):
    local = "local"
    ray = "ray"


_DATA = typer.Option(
    "--data", envvar="DOMAINWISE_DATA", metavar="digits|DIR|FILE|pacs=DIR",
    help='"digits" (embedded), a folder DIR/<domain>/<class>/<image>, a manifest, or a benchmark and its folder.',
)  # fmt: skip
Data = Annotated[str, _DATA]
DataIfAny = Annotated[str | None, _DATA]
Algorithms = Annotated[str, typer.Option(help="Such as erm,fish or arith(inner_steps=3) or my_idea.py:MyIdea; or all.")]
Targets = Annotated[str, typer.Option(help="Domains to hold out, one after the other: a,b or all; a+b at once.")]
Seeds = Annotated[str, typer.Option(metavar="N|A-B", help="How many seeds, or which: 3, or 100-107 or 4,9.")]
Preset = Annotated[str, typer.Option(help="quick, domainbed or swad: see domainwise presets.", metavar="NAME")]
Network = Annotated[
    str | None, typer.Option(metavar="NAME", help="auto, small, a timm backbone such as resnet50, or my_net.py:build.")
]
Weights = Annotated[
    str | None, typer.Option(metavar="none|pretrained|FILE", help="What a backbone starts from; FILE is a local one.")
]
Steps = Annotated[int | None, typer.Option(help="Updates of one trial.")]
BatchSize = Annotated[int | None, typer.Option("--batch", help="Images of each source domain in one update.")]
Size = Annotated[int | None, typer.Option(help="Side of the square that the network sees.")]
Every = Annotated[int | None, typer.Option("--evaluate-every", help="Updates between two evaluations.")]
EvaluateAll = Annotated[
    bool, typer.Option("--evaluate-all", help="Evaluate what the sources are trained on too, as DomainBed does.")
]
Balanced = Annotated[bool, typer.Option("--balanced", help="Draw all classes equally often.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE",
        help="Any other setting of the preset, or a hyperparameter for every algorithm that has it. Repeatable.",
    ),
]  # fmt: skip
Average = Annotated[
    str,
    typer.Option(metavar="NAMES", help="Average weights beside: swad, ema, ma, swa(start=100,every=1), or swad,ma."),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", help="Folder for what comes of it; ./domainwise-runs/<command>-<hash> if none is given."
    ),
]
Cache = Annotated[
    Path | None,
    typer.Option("--cache", envvar="DOMAINWISE_CACHE", metavar="DIR", help="Folder to keep decoded images in."),
]
Device = Annotated[str, typer.Option(help='"cpu", "cuda", "cuda:1", or "auto": a GPU if there is one.')]
Precision = Annotated[
    str | None,
    typer.Option(metavar="fp32|tf32|bf16", help="Of the featurizer; fp32 as published, bf16 by default on a GPU."),
]
NoCompile = Annotated[bool, typer.Option("--no-compile", help="On a GPU: do not compile the featurizer.")]
NoCapture = Annotated[bool, typer.Option("--no-capture", help="On a GPU: do not record updates in a CUDA graph.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of each process; 1 for a small network.")]
Processes = Annotated[
    int | None,
    typer.Option(min=1, help="Trials side by side on a CPU: as many as fit the cores, if not given."),
]
TrustCode = Annotated[
    bool, typer.Option("--trust-code", help="Run the Python file that the model names, if it is what it was.")
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No progress, only the result.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be run, and stop.")]
TableFormat = Annotated[Format, typer.Option("--format", help="How the table is printed.")]
Select = Annotated[
    str | None,
    typer.Option(
        metavar="RULE",
        help="Only print the table, by another rule: validation, pooled, leave-one-out, oracle or last.",
    ),
]
SkipCorrupt = Annotated[bool, typer.Option("--skip-corrupt", help="Leave out images that cannot be read.")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse domains that lack a class.")]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Run trials that failed before once more.")]
Retries = Annotated[
    int | None,
    typer.Option(
        min=0, metavar="N", help="Tries more for a trial whose process has died: 1, with Ray 3, if not given."
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(min=1, metavar="SECONDS", help="Give up on a trial that takes longer, and go on with the others."),
]
Keep = Annotated[
    Kept, typer.Option("--keep", help="Which models stay: the best of every trial, none, or that of every evaluation.")
]
Snapshots = Annotated[
    int, typer.Option(min=0, metavar="N", help="Keep this many models of every trial too, spread over its training.")
]
PerGPU = Annotated[
    str,
    typer.Option("--per-gpu", metavar="N|auto", help="Trials side by side on a GPU; auto: as fit, up to 4."),
]
Deterministic = Annotated[
    bool, typer.Option("--deterministic", help="On a GPU: the same bits every time, at some cost.")
]
EngineNamed = Annotated[
    Engine, typer.Option("--engine", help="Processes on this machine, or Ray: pip install 'domainwise[ray]'.")
]
Address = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Of a Ray cluster; without it one is started on this machine."),
]
