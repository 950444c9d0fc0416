from __future__ import annotations

from typing import Annotated

import typer

from domainwise.cli import options as o
from domainwise.cli.option_groups import Beside, Choices, Machine, grouped


@grouped
def run(
    data: o.Data,
    algorithm: Annotated[str, typer.Option(help="One algorithm, for example arith(inner_steps=3).")],
    target: Annotated[str, typer.Option(help="The domain to hold out.")],
    *,
    seed: Annotated[int, typer.Option(help="The seed of this trial.")] = 0,
    preset: o.Preset = "quick",
    choices: Choices,
    beside: Beside,
    machine: Machine,
) -> None:
    """Run one trial: one algorithm, one target, one seed."""
    from domainwise.algorithms import parse
    from domainwise.cli.request import Asked
    from domainwise.errors import InputError

    if len(specs := parse(algorithm)) != 1:
        raise InputError(f"run is of one algorithm, and these are {len(specs)}: domainwise compare takes several")
    asked = Asked(data, preset, choices, beside, machine)
    asked.job(algorithm, targets=[target], seeds=[seed], command="run").go(machine.dry_run)
