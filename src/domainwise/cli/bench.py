from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from domainwise.cli import options as o


class BenchFormat(StrEnum):
    table = "table"
    json = "json"


def bench(
    algorithms: Annotated[str, typer.Option(help="Which ones, or all.")] = "erm,fish,arith",
    network: Annotated[
        str, typer.Option(help="small, or a timm backbone; its weights do not matter here.")
    ] = "resnet50",
    size: Annotated[int, typer.Option(help="Side of what the network sees.")] = 224,
    batch: Annotated[int, typer.Option(help="Images of each domain in an update.")] = 32,
    domains: Annotated[int, typer.Option(help="Source domains.")] = 3,
    updates: Annotated[int, typer.Option(help="Updates to time.")] = 30,
    device: o.Device = "auto",
    precision: o.Precision = None,
    no_compile: o.NoCompile = False,
    no_capture: o.NoCapture = False,
    threads: o.Threads = None,
    format: Annotated[BenchFormat, typer.Option("--format", help="How it is printed.")] = BenchFormat.table,
) -> None:
    """Measure how fast this machine trains: milliseconds per update, images per second, memory."""
    import json
    import sys

    import torch
    from rich.console import Console
    from rich.table import Table

    from domainwise.algorithms import parse
    from domainwise.bench import Setup, measure, table
    from domainwise.capture import Fast
    from domainwise.cli.job import cores, device_named

    device = device_named(device)
    torch.set_num_threads(threads or cores())
    setup = Setup(
        network, size, size + 3, domains=domains, batch=batch, device=device, updates=updates,
        precision=precision or ("fp32" if device == "cpu" else "bf16"), fast=Fast(not no_compile, not no_capture),
    )  # fmt: skip
    timings = []
    for spec in parse(algorithms):
        print(f"measuring {spec.label} ...", file=sys.stderr, flush=True)
        timings.append(measure(spec, setup))
    if format is BenchFormat.json:
        print(json.dumps(table(timings), indent=1))
        return
    shown = Table(
        "algorithm", "update", "all-in", "images/s", "evaluation", "memory", "start", box=None, padding=(0, 2)
    )
    for t in timings:
        memory = "" if t.memory_gib is None else f"{t.memory_gib:.2f} GiB"
        shown.add_row(
            t.algorithm, f"{t.update_ms:.2f} ms", f"{t.all_in_ms:.2f} ms", f"{t.images_per_second:.0f}",
            f"{t.evaluation_per_second:.0f} images/s", memory, f"{t.start_s:.1f} s",
        )  # fmt: skip
    Console(highlight=False).print(shown)
    for t in timings:
        if t.note:
            print(t.note, file=sys.stderr)
