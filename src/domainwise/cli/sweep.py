from __future__ import annotations

from typing import Annotated

import typer

from domainwise.cli import options as o


def sweep(
    data: o.Data,
    algorithms: Annotated[
        str, typer.Option(help="erm,fish,arith(inner_steps=3),my_idea.py:MyIdea(strength=0.2) or all.")
    ],
    targets: Annotated[
        str, typer.Option(help="Domains to hold out, one after the other: a,b or all; a+b at once.")
    ] = "all",
    seeds: Annotated[int, typer.Option(help="How many seeds.")] = 3,
    draws: Annotated[
        int, typer.Option(min=1, help="Hyperparameters of each: the defaults, and DomainBed's random search.")
    ] = 20,
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
    processes: o.Processes = None,
    per_gpu: o.PerGPU = "auto",
    format: o.TableFormat = o.Format.table,
    quiet: o.Quiet = False,
    dry_run: o.DryRun = False,
    skip_corrupt: o.SkipCorrupt = False,
    retry_failed: o.RetryFailed = False,
    keep: o.Keep = o.Kept.none,
    snapshots: o.Snapshots = 0,
    timeout: o.Timeout = None,
    engine: o.EngineNamed = o.Engine.local,
    address: o.Address = None,
) -> None:
    """Compare with hyperparameters searched at random: of every seed and target the draw that validates best counts."""
    from domainwise.api import prepare
    from domainwise.capture import Fast
    from domainwise.cli.job import Job, device_named, many
    from domainwise.cli.reading import Ask, read

    device = device_named(device, elsewhere=engine == o.Engine.ray)
    ask = Ask(preset, network, weights, steps, batch, size, evaluate_every, balanced, precision, device, set)
    domains, settings = read(data, ask, cache, skip_corrupt, quiet)
    comparison = prepare(
        domains,
        algorithms,
        targets=targets,
        seeds=seeds,
        settings=settings,
        average=average,
        draws=draws,
        output=output,
    )
    job = Job(
        comparison,
        device,
        threads,
        processes,
        quiet,
        format,
        retry_failed,
        Fast(not no_compile, not no_capture, deterministic),
        keep.value,
        timeout,
        snapshots=snapshots,
        evaluate_all=evaluate_all,
        per_gpu=many(per_gpu),
        engine=engine,
        address=address,
    )
    job.go(dry_run)
