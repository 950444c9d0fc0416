"""Commands that look inside trained models: the balance between domains, and the surface of the loss."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from domainwise.cli import options as o
from domainwise.errors import InputError
from domainwise.files import PICTURE, check_output, write_output
from domainwise.terminal import pace

if TYPE_CHECKING:
    from domainwise.analysis.measurement_files import Surface
    from domainwise.analysis.task import Task
    from domainwise.experiment.trial import Trial


FEW = 3  # models: for no more than these a network is not compiled, which takes as long as measuring some of them


@o.grouped
def balance(
    run: Annotated[str, typer.Argument(help="A trial that kept its model, one saved model, or a comparison.")],
    data: o.Data,
    *,
    along: Annotated[bool, typer.Option("--along", help="Measure at every snapshot of the training too.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="With --along, draw a picture against the step: an SVG file.")
    ] = None,
    algorithms: Annotated[
        str | None, typer.Option(metavar="A,B", help="Measure only the trials of these algorithms.")
    ] = None,
    steps: Annotated[
        int, typer.Option(min=1, max=o.MOST, help="Steps of descent from the model to a domain's expert.")
    ] = 30,
    lr: Annotated[float, typer.Option(min=1e-9, max=o.STEEPEST, help="Length of these steps.")] = 1e-2,
    images: Annotated[int, typer.Option(min=1, max=o.MOST, help="Images of a domain at most.")] = 1000,
    inside: o.Inside,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the numbers with each trial, for the report.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Every number, a line of JSON for each trial.")] = False,
    quiet: o.Quiet = False,
) -> None:
    """Measure whether a model lies equally far from what each source domain alone would make of it."""
    from domainwise.analysis.measurement_files import keep_balance
    from domainwise.cli.arguments import trained, trial_of
    from domainwise.report.grid import label, target
    from domainwise.report.matplotlib_svg import as_file
    from domainwise.report.page.balance import Measured, gathered, picture, text

    if output and not along:
        raise InputError("the picture is of balance along training: add --along, or leave out -o")
    if output:
        check_output(output, PICTURE)
    if keep and (which := trial_of(Path(run))[1]):
        raise InputError(f"the report tells of selected models, and with --along of snapshots: no --keep for {which}")
    opened = partial(trained, data=data, images=images, how=inside, quiet=True)
    found = []
    with pace("models", quiet=quiet) as tick:
        for folder, trial, numbers in _measured(_kept(_chosen(run, algorithms), along), along, opened, steps, lr, tick):
            found.append(Measured(label(trial), target(trial), trial.seed, numbers))
            if keep:
                keep_balance(trial_of(folder)[0], {"steps": steps, "lr": lr, **numbers})
            if as_json:
                print(json.dumps({"id": trial.id, **_about(trial), **numbers}))
    if output:
        write_output(output, as_file(picture(gathered(found))), PICTURE)
    if not as_json:
        print(text(found))


def _measured(
    trials: Sequence[tuple[Path, Trial]],
    along: bool,
    opened: Callable[[Path], Task],
    steps: int,
    lr: float,
    tick: Callable[[int, int], None],
) -> Iterator[tuple[Path, Trial, dict[str, Any]]]:
    from domainwise.analysis.balance import balance, balance_along
    from domainwise.experiment.integrity import Damaged

    models = [_models(folder, along) for folder, _ in trials]
    total, done = sum(len(every) + (best is not None) for best, every in models), 0
    if 0 < (bare := sum(best is None for best, _ in models)) < len(models):
        print(f"{bare} of {len(models)} trials have kept no selected model: their snapshots alone", file=sys.stderr)
    for (folder, trial), (best, every) in zip(trials, models, strict=True):
        numbers: dict[str, Any] = {}
        try:
            task = opened(best or next(iter(every.values())))
            if best:
                numbers |= balance(task, steps=steps, lr=lr, compiled=total > FEW).to_json()
                tick(done := done + 1, total)
            for step, one in balance_along(task, every, steps=steps, lr=lr, compiled=total > FEW):
                numbers.setdefault("along", []).append({"step": step, **one.to_json()})
                tick(done := done + 1, total)
        except Damaged as error:
            if len(trials) == 1:
                raise
            print(f"domainwise: {error}: this trial is left out", file=sys.stderr)
        else:
            yield folder, trial, numbers


def _kept(trials: list[tuple[Path, Trial]], along: bool) -> list[tuple[Path, Trial]]:
    """Those of many that kept what is to be measured; where none has, all, to hear what is missing."""
    from domainwise.saved_models.saved import CONFIG

    what, where = ("snapshots", f"snapshots/*/{CONFIG}") if along else ("model", f"best/{CONFIG}")
    found = [one for one in trials if any(one[0].glob(where))]
    missing = len(trials) - len(found)
    if found and missing:
        print(f"{missing} of {len(trials)} trials have kept no {what} and are left out", file=sys.stderr)
    return found or trials


def _about(trial: Trial) -> dict[str, Any]:
    return {"algorithm": trial.label or trial.algorithm, "targets": trial.targets, "seed": trial.seed}


def _models(folder: Path, along: bool) -> tuple[Path | None, dict[int, Path]]:
    """The selected model, and those along the way; a trial may have kept the latter alone."""
    from domainwise.analysis.balance import snapshots
    from domainwise.saved_models.saved import CONFIG

    every = snapshots(folder) if along else {}
    return (None if every and not (folder / "best" / CONFIG).is_file() else folder), every


def _chosen(run: str, algorithms: str | None) -> list[tuple[Path, Trial]]:
    from domainwise.cli.commands.report import trials_named
    from domainwise.experiment.integrity import Damaged
    from domainwise.experiment.results import trial_in
    from domainwise.saved_models.saved import CONFIG, described

    if (Path(run) / CONFIG).is_file():  # one model: a snapshot, an average
        return [(Path(run), described(Path(run))[1])]
    trials = []
    for folder in trials_named(run):
        try:
            trials.append((folder, trial_in(folder)))
        except Damaged as error:
            print(f"domainwise: {error}: this trial is left out", file=sys.stderr)
    wanted = [name.strip() for name in algorithms.split(",")] if algorithms else None
    chosen = [(folder, trial) for folder, trial in trials if wanted is None or trial.algorithm in wanted]
    if not chosen:
        what = f"no trial of {algorithms}" if trials else "no trial"
        raise InputError(f'"{run}" has {what}: give the folder of a trial that kept its model, or of a comparison')
    return chosen


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
    points: Annotated[int, typer.Option(min=3, max=1000, help="Points on a side of the grid.")] = 25,
    margin: Annotated[float, typer.Option(min=0, max=1000, help="Around the three models, in their own extent.")] = 0.5,
    steps: Annotated[int, typer.Option(min=1, max=o.MOST, help="Updates on each domain.")] = 30,
    lr: Annotated[
        float | None,
        typer.Option(
            min=1e-9,
            max=o.STEEPEST,
            help="Length of these updates; by default 0.01, or less where that diverges.",
        ),
    ] = None,
    images: Annotated[int, typer.Option(min=1, max=o.MOST, help="Images of a domain at most.")] = 1000,
    inside: o.Inside,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the numbers with the trial too, for the report.")] = False,
    quiet: o.Quiet = False,
) -> None:
    """Draw the loss of every domain on the plane through three models, those of a walk or any saved ones."""
    from domainwise.analysis.loss_surface import LENGTHS
    from domainwise.cli.arguments import trained, trial_of
    from domainwise.report.matplotlib_svg import as_file
    from domainwise.report.page.surfaces import picture

    if models and domains:
        raise InputError("a plane goes through the models of a walk (--domains) or through saved ones (--models)")
    check_output(output, PICTURE)
    task = trained(run, data, images, inside, quiet=quiet)
    with pace("points of the plane", quiet=quiet) as tick:
        found = _surface(task, models, domains, steps, lr, points=points, margin=margin, tick=tick)
    write_output(output, as_file(picture(found)), PICTURE)
    if keep:
        home, which = trial_of(run)
        replace(found, of=which).save(home)
    if not quiet:
        smaller = lr is None and found.lr is not None and found.lr < LENGTHS[0]
        steps_of = f", of a walk with steps of {found.lr:g}: longer ones diverge" if smaller else ""
        print(f"surface: {output}{steps_of}", file=sys.stderr)


def _surface(task: Task, models: str | None, domains: str | None, steps: int, lr: float | None, **grid: Any) -> Surface:
    from domainwise.analysis.loss_surface import on_plane, places, surface

    if models:
        return on_plane(task, places(task, [Path(folder.strip()) for folder in models.split(",")]), **grid)
    names = [name.strip() for name in domains.split(",")] if domains else None
    return surface(task, domains=names, steps=steps, lr=lr, **grid)
