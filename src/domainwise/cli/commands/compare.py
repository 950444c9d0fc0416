"""Commands that train and compare: your own comparison, the demo, one trial, a search of hyperparameters."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from domainwise.cli import options as o
from domainwise.cli.commands.report import print_answer
from domainwise.errors import InputError


@o.grouped
def compare(
    data: o.Data,
    algorithms: o.Algorithms = "erm,arith",
    *,
    targets: o.Targets = "auto",
    seeds: o.Seeds = "3",
    preset: o.Preset = "quick",
    probe: o.Probe = True,
    choices: o.Choices,
    models: o.Models,
    images: o.Images,
    machine: o.Machine,
    many: o.Many,
    results: o.Results,
) -> None:
    """Train algorithms with each target held out in turn, and compare them on the domain they have not seen."""
    groups = (choices, models, images, machine, many, results)
    _compare(data, algorithms, *groups, targets=targets, seeds=seeds, preset=preset, probe=probe)


def demo(
    output: o.Output = None,
    format: o.TableFormat = o.Format.table,
    quiet: o.Quiet = False,
) -> None:
    """Train ERM, Fish and Arith on rotated handwritten digits (embedded, no download), in under a minute."""
    results = o.Results(output or Path("domainwise-demo"), format, quiet=quiet)
    _compare(
        "digits", "erm,fish,arith", results, targets="0,75", seeds=5, steps=201, evaluate_every=20, device="cpu",
        threads=1, processes=2,
    )  # fmt: skip


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

    if len(specs := parse(algorithm)) != 1:
        raise InputError(f"run is of one algorithm, and these are {len(specs)}: domainwise compare takes several")
    _compare(
        data, algorithm, choices, models, images, machine, results, targets=[target], seeds=[seed], preset=preset,
        timeout=timeout, retry_failed=retry_failed, command="run",
    )  # fmt: skip


@o.grouped
def sweep(
    data: o.Data,
    algorithms: o.Algorithms,
    *,
    targets: o.Targets = "auto",
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
    groups = (choices, models, images, machine, many, cluster, results)
    _compare(data, algorithms, *groups, targets=targets, seeds=seeds, draws=draws, preset=preset, probe=False)


def _compare(data: str, algorithms: str, *groups: object, **more: Any) -> None:
    """Run ``dw.compare`` with the options of groups, and print the table; exit code 1 where a trial failed."""
    from domainwise.api import compare
    from domainwise.cli.arguments import arguments

    given = {**arguments(*groups), **more}
    form, dry_run = given.pop("format", "table"), given.get("dry_run", False)
    results = compare(data, algorithms, report=not dry_run, **given)
    if dry_run:
        return
    print(results.table(form))
    print_answer(results, form, not given["progress"])
    if given["progress"] and results.page.is_file():
        print(f"report: {results.page}", file=sys.stderr)
    if results.troubled:
        raise typer.Exit(1)
