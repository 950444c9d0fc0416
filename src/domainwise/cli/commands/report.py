from __future__ import annotations

import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from domainwise.cli import options as o

if TYPE_CHECKING:
    from domainwise.report.power import Power
    from domainwise.report.results import Results

WIDTH = 88  # of sentences in a terminal


def report(
    folder: Annotated[Path, typer.Argument(help="A folder that demo, compare, sweep or run writes to.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The file; FOLDER/report.html if none is given.")
    ] = None,
    select: o.Select = None,
    difference: Annotated[
        float, typer.Option(metavar="POINTS", help="The smallest difference between two algorithms that matters.")
    ] = 1.0,
    baseline: Annotated[
        str | None, typer.Option(metavar="NAME", help="What algorithms are compared with; erm where it was run.")
    ] = None,
    window: Annotated[
        str | None, typer.Option(metavar="A-B", help="Compare by the mean over the evaluations at these updates.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="digits|DIR|FILE|pacs=DIR", help="The data, to show the worst mistakes as pictures."),
    ] = None,
    pictures: Annotated[bool, typer.Option("--pictures", help="Show pictures of a named benchmark too.")] = False,
    format: o.TableFormat = o.Format.table,
    quiet: o.Quiet = False,
) -> None:
    """Print the table of a folder of results, say in words what it shows, and write its report anew."""
    from domainwise.errors import InputError
    from domainwise.report.power import power

    if select is not None and output is not None:
        raise InputError("a report shows what the trials themselves selected: give --select or -o, not both")
    results = _opened(folder, data, quiet)
    print(results.table(format, select), flush=True)
    if select is not None:
        return
    found = power(results, difference, baseline=baseline, window=_window(window))
    print_answer(results, format, quiet, found)
    path = results.report(output or folder / "report.html", power=found, pictures=pictures or None)
    if not quiet:
        print(f"report: {path}", file=sys.stderr)


def _window(text: str | None) -> tuple[int, int] | None:
    from domainwise.errors import InputError

    if text is None:
        return None
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal()):
        raise InputError(f'--window is from one update to a later one, such as 400-1000: got "{text}"')
    return int(first), int(last)


def _opened(folder: Path, data: str | None, quiet: bool) -> Results:
    """Open the results, and their data where they are named."""
    from domainwise.report.results import Results

    results = Results.open(folder)
    if data is None or not results.outcomes:
        return results
    from domainwise.errors import warn
    from domainwise.training.reading import Reading, read_for

    trial = results.outcomes[0].trial
    found = read_for(trial, data, Reading(progress=not quiet))
    if found.known_as(trial.fingerprint).fingerprint != trial.fingerprint:
        warn(f"{data} is not the data of this comparison, so that the page has no pictures")
    return replace(results, data=found)


def print_answer(results: Results, format: str, quiet: bool, power: Power | None = None) -> None:
    """Print in words what a comparison says: below a table for people, beside one for programs."""
    if format == "table" or not quiet:
        parts = [textwrap.fill(part, WIDTH) for part in results.answer(power).split("\n\n")]
        print("\n\n".join(parts), end="\n\n", file=sys.stdout if format == "table" else sys.stderr, flush=True)
