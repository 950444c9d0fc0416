from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from domainwise.cli import options as o


def check(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="An output folder, the folder of a trial or a model, or a cache.")
    ],
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend what can be made again, and say what was done about each.")
    ] = False,
    quiet: o.Quiet = False,
) -> None:
    """Say what is damaged in a folder of results, a saved model or a cache; exit code 1 where something stays so."""
    import sys

    from domainwise.interop.check_folder import check as look

    found = look(folder, repair)
    for one in found.findings:
        kind = "mended" if one.mended else "left behind" if one.leftover else "damaged"
        print(f"{kind}: {one}")
    if not quiet:
        print(repr(found).strip("<>"))
    if found.damaged:
        if not repair and any(one.mend for one in found.damaged):
            print(f"domainwise: domainwise check {folder} --repair mends what can be made again", file=sys.stderr)
        raise typer.Exit(1)
