"""Commands that write for other programs, or read their files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from domainwise.cli import options as o
from domainwise.errors import InputError, counted

if TYPE_CHECKING:
    from domainwise.interop.domainbed import Sweep


def tensorboard(
    folder: Annotated[Path, typer.Argument(help="A folder that compare, sweep or run writes to.", metavar="DIR")],
    logdir: Annotated[
        Path | None, typer.Option("--logdir", help="The folder for TensorBoard.  [default: DIR/tensorboard]")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until all trials have ended.")] = False,
    quiet: o.Quiet = False,
) -> None:
    """Write the records of a folder for TensorBoard, a run for every trial; again adds what is new."""
    from domainwise.interop.tensorboard import write

    logdir = logdir or folder / "tensorboard"
    if follow and not quiet:
        print(f"to watch, in another terminal: tensorboard --logdir {logdir}", file=sys.stderr, flush=True)
    done = write(folder, logdir, wait=follow)
    if not quiet:
        many = f"{counted(done.points, 'new point')}, {counted(done.trials, 'trial')}"
        print(f"{many}: tensorboard --logdir {logdir}", file=sys.stderr)


def export_domainbed(
    folder: Annotated[Path, typer.Argument(help="A folder that demo, compare or run wrote to.", metavar="DIR")],
    output: Annotated[Path, typer.Option("-o", "--output", help="A new folder for DomainBed's files.")],
    quiet: o.Quiet = False,
) -> None:
    """Write results as DomainBed does, for its collect_results and what others built on its files."""
    from domainwise.experiment.results import listing, told_apart, variants, warn_of_damage
    from domainwise.interop.domainbed_trials import export

    trials = listing(folder, files=True)
    warn_of_damage(trials)
    found = variants(told_apart(trials.outcomes))
    if not found:
        raise InputError(f"{folder} has no trials that came to an end: give the folder that a comparison wrote to")
    written = export(found, output)
    left = len(found) - len(written)
    if not quiet:
        lost = f"; {left} that diverged, failed or are damaged left out" if left else ""
        print(f"{counted(len(written), 'run')} in {output}{lost}", file=sys.stderr)
        others = sum(one.trial.selection in ("pooled", "last") or one.trial.test == "all" for one in found)
        if others:
            told = "chose by a rule, or were tested on a part, that DomainBed has not"
            print(f"domainwise: {others} {told}: its tools print other numbers for them", file=sys.stderr)


def import_domainbed(
    folders: Annotated[list[Path], typer.Argument(help="Output folders of DomainBed sweeps.", metavar="DIR...")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Also write the runs as trials, for domainwise report.")
    ] = None,
    format: Annotated[o.Format, typer.Option("--format", help="Format of the tables.")] = o.Format.table,
    quiet: o.Quiet = False,
) -> None:
    """Print the tables of DomainBed sweeps as DomainBed does, for its three ways of selecting a model."""
    from domainwise.interop.domainbed import read
    from domainwise.interop.domainbed_tables import FORMATS, tables
    from domainwise.interop.domainbed_trials import convert

    sweep = read(*folders)
    print(FORMATS[format](tables(sweep), sweep.records), end="")
    said = _remarks(sweep)
    if output is not None:
        written = convert(sweep, output)
        said.append(f"{counted(len(written), 'trial')} in {output}, for: domainwise report {output}")
        said += _left_behind(sweep, len(written))
    for line in said if not quiet else ():
        print(f"domainwise: {line}", file=sys.stderr)


def _remarks(sweep: Sweep) -> list[str]:
    said = []
    if sweep.broken:
        said.append(f"{counted(len(sweep.broken), 'line')} left out: {_some(sweep.broken, '; ')}")
    if sweep.incomplete:
        names = _some([one.folder.name for one in sweep.incomplete])
        said.append(
            f"{counted(len(sweep.incomplete), 'run')} stopped early and counted with the steps there are: {names}"
        )
    if all(len(one.run.targets) == 1 for one in sweep.runs):
        said.append("every run has one test environment, and leave-one-domain-out needs those with two: hence its X")
    return said


def _left_behind(sweep: Sweep, written: int) -> list[str]:
    left = len(sweep.runs) - written
    why = "those that stopped early, and those with two targets, which only leave-one-domain-out selection needs"
    return [f"{counted(left, 'run')} not among them: {why}"] if left else []


def _some(names: Sequence[str], between: str = ", ", most: int = 5) -> str:
    more = f"{between}and {len(names) - most} more" if len(names) > most else ""
    return between.join(names[:most]) + more
