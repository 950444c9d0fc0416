from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from domainwise.cli import options as o

if TYPE_CHECKING:
    from domainwise.analysis.kept import Surface
    from domainwise.analysis.task import Task


@o.grouped
def surface(
    run: Annotated[Path, typer.Argument(help="A trial that kept its model, or one saved model.")],
    data: o.Data,
    output: Annotated[Path, typer.Option("-o", "--output", help="The picture, an SVG file.")],
    *,
    domains: Annotated[
        str | None,
        typer.Option(metavar="A,B,C", help="Three domains to walk over; the first three sources if none are given."),
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(metavar="A,B,C", help="Folders of three saved models: the plane through these, without a walk."),
    ] = None,
    points: Annotated[int, typer.Option(min=3, max=1000, help="Of the grid, on a side.")] = 25,
    margin: Annotated[float, typer.Option(min=0, max=1000, help="Around the three models, in their own extent.")] = 0.5,
    steps: Annotated[int, typer.Option(min=1, max=o.MOST, help="Updates on each domain.")] = 30,
    lr: Annotated[
        float | None,
        typer.Option(
            min=1e-9,
            max=o.STEEPEST,
            help="Of these updates; by default 0.01, or less where that diverges.",
        ),
    ] = None,
    images: Annotated[int, typer.Option(min=1, max=o.MOST, help="Of a domain at most.")] = 1000,
    inside: o.Inside,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the numbers with the trial too, for the report.")] = False,
    quiet: o.Quiet = False,
) -> None:
    """Draw the loss of every domain on the plane through three models, those of a walk or any saved ones."""
    import sys

    from domainwise.analysis.loss_surface import LENGTHS
    from domainwise.cli.running import trained, trial_of
    from domainwise.errors import InputError
    from domainwise.files import PICTURE, check_output, write_output
    from domainwise.report.matplotlib_svg import as_file
    from domainwise.report.page.surfaces import picture
    from domainwise.terminal import pace

    if models and domains:
        raise InputError("a plane goes through the models of a walk (--domains) or through saved ones (--models)")
    check_output(output, PICTURE)
    task = trained(run, data, images, inside, quiet=quiet)
    with pace("points of the plane", quiet=quiet) as tick:
        found = _measured(task, models, domains, steps, lr, points=points, margin=margin, tick=tick)
    write_output(output, as_file(picture(found)), PICTURE)
    if keep:
        home, which = trial_of(run)
        replace(found, of=which).save(home)
    if not quiet:
        smaller = lr is None and found.lr is not None and found.lr < LENGTHS[0]
        steps_of = f", of a walk with steps of {found.lr:g}: longer ones diverge" if smaller else ""
        print(f"surface: {output}{steps_of}", file=sys.stderr)


def _measured(
    task: Task, models: str | None, domains: str | None, steps: int, lr: float | None, **grid: Any
) -> Surface:
    from domainwise.analysis.loss_surface import on_plane, places, surface

    if models:
        return on_plane(task, places(task, [Path(folder.strip()) for folder in models.split(",")]), **grid)
    names = [name.strip() for name in domains.split(",")] if domains else None
    return surface(task, domains=names, steps=steps, lr=lr, **grid)
