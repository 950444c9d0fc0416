from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from domainwise.cli import options as o


def tensorboard(
    folder: Annotated[Path, typer.Argument(help="A folder that compare, sweep or run writes to.", metavar="DIR")],
    logdir: Annotated[
        Path | None, typer.Option("--logdir", help="The folder for TensorBoard.  [default: DIR/tensorboard]")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until all trials have ended.")] = False,
    quiet: o.Quiet = False,
) -> None:
    """Write the records of a folder for TensorBoard, a run for every trial; again adds what is new."""
    import sys

    from domainwise.interop.tensorboard import write

    logdir = logdir or folder / "tensorboard"
    if follow and not quiet:
        print(f"to watch, in another terminal: tensorboard --logdir {logdir}", file=sys.stderr, flush=True)
    done = write(folder, logdir, wait=follow)
    if not quiet:
        many = f"{done.points} new point{'s' * (done.points != 1)}"
        print(f"{many}, {done.trials} trial{'s' * (done.trials != 1)}: tensorboard --logdir {logdir}", file=sys.stderr)
