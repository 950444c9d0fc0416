from __future__ import annotations

from typing import Annotated

import typer

from domainwise.cli import options as o


@o.grouped
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
    choices: o.Choices,
    models: o.ModelsOfSweep,
    images: o.Images,
    machine: o.Machine,
    many: o.Many,
    cluster: o.Cluster,
    results: o.Results,
) -> None:
    """Compare with hyperparameters searched at random: of every seed and target the draw that validates best counts."""
    from domainwise.cli.running import compared

    groups = (choices, models, images, machine, many, cluster, results)
    compared(data, algorithms, *groups, targets=targets, seeds=seeds, draws=draws, preset=preset, probe=False)
