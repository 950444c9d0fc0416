from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from domainwise.cli import options as o


def report(
    folder: Annotated[Path, typer.Argument(help="A folder that demo, compare, sweep or run writes to.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The file.  [default: FOLDER/report.html]")
    ] = None,
    format: o.TableFormat = o.Format.table,
    quiet: o.Quiet = False,
) -> None:
    """Print the table of a folder of results and write its report anew."""
    import sys

    from domainwise.report.study import Results

    results = Results.open(folder)
    print(results.table(format), flush=True)
    path = results.report(output or folder / "report.html")
    if not quiet:
        print(f"report: {path}", file=sys.stderr)
