from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from domainwise.cli import options as o


def export_domainbed(
    folder: Annotated[Path, typer.Argument(help="A folder that demo, compare or run wrote to.", metavar="DIR")],
    output: Annotated[Path, typer.Option("-o", "--output", help="A new folder for DomainBed's files.")],
    quiet: o.Quiet = False,
) -> None:
    """Write results as DomainBed does, for its collect_results and what others built on its files."""
    import sys

    from domainwise.errors import InputError
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
        print(f"{len(written)} run{'s' * (len(written) != 1)} in {output}{lost}", file=sys.stderr)
        others = sum(one.trial.selection in ("pooled", "last") or one.trial.test == "all" for one in found)
        if others:
            told = "chose by a rule, or were tested on a part, that DomainBed has not"
            print(f"domainwise: {others} {told}: its tools print other numbers for them", file=sys.stderr)
