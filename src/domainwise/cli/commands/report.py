from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from domainwise.cli import options as o


def report(
    folder: Annotated[Path, typer.Argument(help="A folder that demo, compare, sweep or run writes to.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The file; FOLDER/report.html if none is given.")
    ] = None,
    select: o.Select = None,
    format: o.TableFormat = o.Format.table,
    quiet: o.Quiet = False,
) -> None:
    """Print the table of a folder of results and write its report anew."""
    import sys

    from domainwise.errors import InputError
    from domainwise.report.results import Results

    if select is not None and output is not None:
        raise InputError("a report shows what the trials themselves selected: give --select or -o, not both")
    results = Results.open(folder)
    print(results.table(format, select), flush=True)
    if select is not None:
        return
    path = results.report(output or folder / "report.html")
    if not quiet:
        print(f"report: {path}", file=sys.stderr)
