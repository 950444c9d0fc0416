from __future__ import annotations

from typing import Annotated

import typer

from domainwise.cli import options as o


def compare(
    data: o.Data,
    algorithms: Annotated[
        str, typer.Option(help="erm,fish,arith(inner_steps=3),my_idea.py:MyIdea(strength=0.2) or all.")
    ],
    targets: Annotated[str, typer.Option(help="Domains to hold out, one after the other: a,b or all.")] = "all",
    seeds: Annotated[int, typer.Option(help="How many seeds.")] = 3,
    steps: o.Steps = 300,
    batch: o.BatchSize = 32,
    size: o.Size = 64,
    evaluate_every: o.Every = None,
    set: o.Set = None,
    output: o.Output = None,
    device: o.Device = "auto",
    threads: o.Threads = 1,
    processes: o.Processes = None,
    format: o.TableFormat = o.Format.table,
    quiet: o.Quiet = False,
    dry_run: o.DryRun = False,
    skip_corrupt: o.SkipCorrupt = False,
    retry_failed: o.RetryFailed = False,
) -> None:
    """Train algorithms with each target held out in turn, and compare them on the domain they have not seen."""
    from domainwise.api import every, prepare
    from domainwise.cli.job import Job, assignments, read
    from domainwise.sweep.plan import Settings

    settings = Settings(steps, batch, evaluate_every or every(steps), given=assignments(set))
    domains = read(data, size, skip_corrupt, quiet)
    comparison = prepare(domains, algorithms, targets=targets, seeds=seeds, settings=settings, output=output)
    Job(comparison, device, threads, processes, quiet, format, retry_failed).go(dry_run)
