from __future__ import annotations

from typing import Annotated

import typer

from domainwise.cli import options as o


@o.grouped
def run(
    data: o.Data,
    algorithm: Annotated[str, typer.Option(help="One algorithm, for example arith(inner_steps=3).")],
    target: Annotated[str, typer.Option(help="The domain to hold out.")],
    *,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    preset: o.Preset = "quick",
    choices: o.Choices,
    models: o.Models,
    images: o.Images,
    machine: o.Machine,
    timeout: o.Timeout = None,
    retry_failed: o.RetryFailed = False,
    results: o.Results,
) -> None:
    """Run one trial: one algorithm, one target, one seed."""
    from domainwise.algorithms import parse
    from domainwise.cli.running import compared
    from domainwise.errors import InputError

    if len(specs := parse(algorithm)) != 1:
        raise InputError(f"run is of one algorithm, and these are {len(specs)}: domainwise compare takes several")
    compared(
        data, algorithm, choices, models, images, machine, results, targets=[target], seeds=[seed], preset=preset,
        timeout=timeout, retry_failed=retry_failed, command="run",
    )  # fmt: skip
