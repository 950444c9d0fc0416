from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from domainwise.cli import options as o

if TYPE_CHECKING:
    from domainwise.interop.domainbed import Sweep


def import_domainbed(
    folders: Annotated[list[Path], typer.Argument(help="Output folders of DomainBed sweeps.", metavar="DIR...")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Also write the runs as trials, for domainwise report.")
    ] = None,
    format: Annotated[o.Format, typer.Option("--format", help="How the tables are printed.")] = o.Format.table,
    quiet: o.Quiet = False,
) -> None:
    """Print the tables of DomainBed sweeps as DomainBed does, for its three ways of selecting a model."""
    import sys

    from domainwise.interop.domainbed import read
    from domainwise.interop.domainbed_tables import FORMATS, tables
    from domainwise.interop.domainbed_trials import convert

    sweep = read(*folders)
    print(FORMATS[format](tables(sweep), sweep.records), end="")
    said = _remarks(sweep)
    if output is not None:
        written = convert(sweep, output)
        said.append(f"{_count(len(written), 'trial')} in {output}, for: domainwise report {output}")
        said += _left_behind(sweep, len(written))
    for line in said if not quiet else ():
        print(f"domainwise: {line}", file=sys.stderr)


def _remarks(sweep: Sweep) -> list[str]:
    said = []
    if sweep.broken:
        said.append(f"{_count(len(sweep.broken), 'line')} left out: {_some(sweep.broken, '; ')}")
    if sweep.incomplete:
        names = _some([one.folder.name for one in sweep.incomplete])
        said.append(
            f"{_count(len(sweep.incomplete), 'run')} stopped early and counted with the steps there are: {names}"
        )
    if all(len(one.run.targets) == 1 for one in sweep.runs):
        said.append("every run has one test environment, and leave-one-domain-out needs those with two: hence its X")
    return said


def _left_behind(sweep: Sweep, written: int) -> list[str]:
    left = len(sweep.runs) - written
    why = "those that stopped early, and those with two targets, which only leave-one-domain-out selection needs"
    return [f"{_count(left, 'run')} not among them: {why}"] if left else []


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"


def _some(names: Sequence[str], between: str = ", ", most: int = 5) -> str:
    more = f"{between}and {len(names) - most} more" if len(names) > most else ""
    return between.join(names[:most]) + more
