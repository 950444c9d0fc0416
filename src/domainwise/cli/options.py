"""Options that several commands share, so that they mean and say the same everywhere."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    table = "table"
    csv = "csv"
    json = "json"
    markdown = "markdown"


Data = Annotated[
    str,
    typer.Option(
        "--data", envvar="DOMAINWISE_DATA", metavar="digits|DIR",
        help='"digits" (embedded), or a folder DIR/<domain>/<class>/<image>.',
    ),
]  # fmt: skip
Steps = Annotated[int, typer.Option(help="Updates of one trial.")]
BatchSize = Annotated[int, typer.Option("--batch", help="Images of each source domain in one update.")]
Size = Annotated[int, typer.Option(help="Side of the square that images of a folder are resized to.")]
Every = Annotated[
    int | None, typer.Option("--evaluate-every", help="Updates between two evaluations; about ten in a run.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A hyperparameter for every algorithm that has it. Repeatable."),
]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Folder for results.  [default: ./domainwise-runs/<command>-<hash>]"),
]
Device = Annotated[str, typer.Option(help='"cpu", "cuda", "cuda:1", or "auto": a GPU if there is one.')]
Threads = Annotated[int, typer.Option(min=1, help="Threads of each process.")]
Processes = Annotated[
    int | None, typer.Option(min=1, help="Processes side by side; as many as fit the cores, one on a GPU.")
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No progress, only the result.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be run, and stop.")]
TableFormat = Annotated[Format, typer.Option("--format", help="How the table is printed.")]
SkipCorrupt = Annotated[bool, typer.Option("--skip-corrupt", help="Leave out images that cannot be read.")]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Run trials that failed before once more.")]
