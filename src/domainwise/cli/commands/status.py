"""Commands that look after a folder: how far its work is, and what is damaged."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from domainwise.cli import options as o
from domainwise.machine import human_duration


def status(folder: Annotated[Path, typer.Argument(help="A folder that compare, sweep or run is working in.")]) -> None:
    """Say how far the work in a folder is: done, running, failed, and the time left. Also from another terminal."""
    from domainwise.sweeps.status import describe, status as read

    found = read(folder)
    counts = ", ".join(f"{count} {name}" for name, count in sorted(found.ended.items(), reverse=True)) or "none"
    print(f"ended    {counts}")
    print(f"running  {len(found.running)}")
    for one in found.running:
        print(f"         {one.name}: step {one.step} of {one.steps} ({one.where})")
    asked = f"{found.waiting} of the {found.asked} that were asked for last"
    print(f"waiting  {asked if found.asked else 'unknown: plan.json, which says so, is missing or damaged'}")
    if found.seconds is not None:
        print(f"rate     {human_duration(round(found.seconds))} a trial, {len(found.running)} at once")
    if found.waiting or found.running:
        print(f"left     {'unknown' if found.left is None else 'about ' + human_duration(round(found.left))}")
    for outcome in found.troubles[-MOST:]:
        print(f"{outcome.result['status']}: {describe(outcome.trial)}: {outcome.result['message']}")
    if len(found.troubles) > MOST:
        print(f"... and {len(found.troubles) - MOST} more; domainwise report {folder} lists them all")
    for sentence in [*found.unknown.values()][:MOST]:
        print(f"damaged: {sentence}")
    if "damaged" in found.ended:
        print(f"mend     the same command again with --retry-failed, or domainwise check {folder} --repair")


MOST = 10  # sentences about what went wrong


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
