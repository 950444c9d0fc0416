from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from domainwise.cli import options as o
from domainwise.cli.commands.predict import Asked, Saved


class EvaluationFormat(StrEnum):
    """Name how an evaluation is printed."""

    table = "table"
    csv = "csv"
    json = "json"
    markdown = "markdown"


def evaluate(
    model: Saved,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DIR", help="Folders of classes, or of domains with classes; a manifest; or images without labels."
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write a .html page, or .csv or .json.")
    ] = None,
    format: Annotated[
        EvaluationFormat, typer.Option("--format", help="Format of the answer.")
    ] = EvaluationFormat.table,
    which: Asked = None,
    pictures: Annotated[bool, typer.Option("--pictures", help="Show pictures of a named benchmark too.")] = False,
    device: o.Device = "auto",
    threads: o.Threads = None,
    trust_code: o.TrustCode = False,
    quiet: o.Quiet = False,
) -> None:
    """Say how right a trained model is on new data: by domain, by class, and in which images it fails."""
    import sys

    import torch

    from domainwise.machine import check_count, threads_for
    from domainwise.report.evaluated import check_place, save
    from domainwise.saved_models.saved import load
    from domainwise.terminal import exact

    threads = None if threads is None else check_count("threads", threads)
    if output:
        check_place(output)
    loaded = load(model, device=device, which=which, trust_code=trust_code)
    torch.set_num_threads(threads or threads_for(loaded.config["trial"]["network"]))
    found = loaded.evaluate(data, progress=not quiet)
    out = sys.stdout if format in ("table", "markdown") else exact(sys.stdout)  # a program gets names as they are
    out.write(found.table(format))
    if output:
        save(found, output, pictures=pictures or None)
        if not quiet:
            print(f"evaluation: {output}", file=sys.stderr)
    if found.unreadable:
        raise typer.Exit(1)
