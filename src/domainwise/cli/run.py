from __future__ import annotations

from typing import Annotated

import typer

from domainwise.cli import options as o


def run(
    data: o.Data,
    algorithm: Annotated[str, typer.Option(help="One algorithm, for example arith(inner_steps=3).")],
    target: Annotated[str, typer.Option(help="The domain to hold out.")],
    seed: Annotated[int, typer.Option(help="The seed of this trial.")] = 0,
    steps: o.Steps = 300,
    batch: o.BatchSize = 32,
    size: o.Size = 64,
    evaluate_every: o.Every = None,
    set: o.Set = None,
    output: o.Output = None,
    device: o.Device = "auto",
    threads: o.Threads = 1,
    format: o.TableFormat = o.Format.table,
    quiet: o.Quiet = False,
    dry_run: o.DryRun = False,
    skip_corrupt: o.SkipCorrupt = False,
    retry_failed: o.RetryFailed = False,
) -> None:
    """Run one trial: one algorithm, one target, one seed."""
    from domainwise.api import every, prepare
    from domainwise.cli.job import Job, assignments, read
    from domainwise.sweep.plan import Settings

    settings = Settings(steps, batch, evaluate_every or every(steps), given=assignments(set))
    comparison = prepare(
        read(data, size, skip_corrupt, quiet),
        algorithm,
        targets=[target],
        seeds=[seed],
        settings=settings,
        output=output,
        command="run",
    )
    Job(comparison, device, threads, 1, quiet, format, retry_failed).go(dry_run)
