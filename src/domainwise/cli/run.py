from __future__ import annotations

from typing import Annotated

import typer

from domainwise.cli import options as o


def run(
    data: o.Data,
    algorithm: Annotated[str, typer.Option(help="One algorithm, for example arith(inner_steps=3).")],
    target: Annotated[str, typer.Option(help="The domain to hold out.")],
    seed: Annotated[int, typer.Option(help="The seed of this trial.")] = 0,
    preset: o.Preset = "quick",
    network: o.Network = None,
    weights: o.Weights = None,
    steps: o.Steps = None,
    batch: o.BatchSize = None,
    size: o.Size = None,
    evaluate_every: o.Every = None,
    evaluate_all: o.EvaluateAll = False,
    balanced: o.Balanced = False,
    average: o.Average = "none",
    set: o.Set = None,
    output: o.Output = None,
    cache: o.Cache = None,
    device: o.Device = "auto",
    precision: o.Precision = None,
    no_compile: o.NoCompile = False,
    no_capture: o.NoCapture = False,
    deterministic: o.Deterministic = False,
    threads: o.Threads = None,
    format: o.TableFormat = o.Format.table,
    quiet: o.Quiet = False,
    dry_run: o.DryRun = False,
    skip_corrupt: o.SkipCorrupt = False,
    retry_failed: o.RetryFailed = False,
    keep: o.Keep = o.Kept.best,
    snapshots: o.Snapshots = 0,
    timeout: o.Timeout = None,
) -> None:
    """Run one trial: one algorithm, one target, one seed."""
    from domainwise.api import prepare
    from domainwise.capture import Fast
    from domainwise.cli.job import Job, device_named
    from domainwise.cli.reading import Ask, read

    device = device_named(device)
    ask = Ask(preset, network, weights, steps, batch, size, evaluate_every, balanced, precision, device, set)
    domains, settings = read(data, ask, cache, skip_corrupt, quiet)
    comparison = prepare(
        domains,
        algorithm,
        targets=[target],
        seeds=[seed],
        settings=settings,
        average=average,
        output=output,
        command="run",
    )
    job = Job(
        comparison,
        device,
        threads,
        None,
        quiet,
        format,
        retry_failed,
        Fast(not no_compile, not no_capture, deterministic),
        keep.value,
        timeout,
        snapshots=snapshots,
        evaluate_all=evaluate_all,
    )
    job.go(dry_run)
