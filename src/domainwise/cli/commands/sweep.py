from __future__ import annotations

from typing import Annotated

import typer

from domainwise.cli import options as o
from domainwise.cli.option_groups import BesideSweep, Choices, Cluster, Machine, Many, grouped


@grouped
def sweep(
    data: o.Data,
    algorithms: o.Algorithms,
    *,
    targets: o.Targets = "all",
    seeds: o.Seeds = "3",
    draws: Annotated[
        int, typer.Option(min=1, help="Hyperparameters of each: the defaults, and DomainBed's random search.")
    ] = 20,
    preset: o.Preset = "quick",
    choices: Choices,
    beside: BesideSweep,
    machine: Machine,
    many: Many,
    cluster: Cluster,
) -> None:
    """Compare with hyperparameters searched at random: of every seed and target the draw that validates best counts."""
    from domainwise.cli.request import Asked

    asked = Asked(data, preset, choices, beside, machine, many, cluster)
    asked.job(algorithms, targets=targets, seeds=seeds, draws=draws).go(machine.dry_run)
