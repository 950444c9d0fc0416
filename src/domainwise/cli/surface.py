from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from domainwise.cli import options as o


def surface(
    run: Annotated[Path, typer.Argument(help="The folder of a trial that kept its model.")],
    data: o.Data,
    output: Annotated[Path, typer.Option("-o", "--output", help="The picture, an SVG file.")],
    domains: Annotated[
        str | None,
        typer.Option(metavar="A,B,C", help="Three domains to walk over.  [default: the first three sources]"),
    ] = None,
    points: Annotated[int, typer.Option(min=3, help="Of the grid, on a side.")] = 25,
    margin: Annotated[float, typer.Option(min=0, help="Around the three models, in their own extent.")] = 0.5,
    steps: Annotated[int, typer.Option(min=1, help="Updates on each domain.")] = 30,
    lr: Annotated[float, typer.Option(min=1e-9, help="Of these updates.")] = 1e-2,
    images: Annotated[int, typer.Option(min=1, help="Of a domain at most.")] = 1000,
    cache: o.Cache = None,
    device: o.Device = "cpu",
    precision: o.Precision = None,
    threads: o.Threads = 1,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the numbers with the trial too, for the report.")] = False,
    quiet: o.Quiet = False,
) -> None:
    """Draw the loss of every domain on the plane through three models of a walk."""
    import sys

    from domainwise.analysis.landscape import surface as losses_on_plane
    from domainwise.cli.pace import pace
    from domainwise.cli.trained import trained
    from domainwise.report.surfaces import picture
    from domainwise.report.svg import as_file

    task = trained(run, data, cache, device=device, precision=precision, threads=threads, images=images, quiet=quiet)
    names = [name.strip() for name in domains.split(",")] if domains else None
    with pace("points of the plane", quiet=quiet) as tick:
        found = losses_on_plane(task, domains=names, points=points, margin=margin, steps=steps, lr=lr, tick=tick)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(as_file(picture(found)), encoding="utf-8")
    if keep:
        found.save(run)
    if not quiet:
        print(f"surface: {output}", file=sys.stderr)
