from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from domainwise.cli import options as o
from domainwise.machine import check_count, choose_device, cores
from domainwise.terminal import pace

if TYPE_CHECKING:
    from domainwise.acceleration.benchmark import Timing


class BenchFormat(StrEnum):
    """Name how timings are printed."""

    table = "table"
    json = "json"


MOST = 4096
SLOW = (
    "on a CPU an update of a backbone takes seconds, and all of this many minutes: --updates 3, or --network small "
    "--size 64, gives a first answer"
)
# Of every column its title and how wide it is.
_COLUMNS = {"update, ms": 10, "all-in, ms": 10, "images/s": 8, "evaluated/s": 11, "memory, GiB": 11, "start, s": 8}


@dataclass(frozen=True)
class Speed:
    """Say on what is measured, and in which way."""

    panel: ClassVar[str] = "This machine"

    device: o.Device = "auto"
    precision: o.Precision = None
    no_compile: o.NoCompile = False
    no_capture: o.NoCapture = False
    threads: o.Threads = None


@o.grouped
def bench(
    algorithms: Annotated[str, typer.Option(help="Algorithms to measure, or all.")] = "erm,fish,arith",
    network: Annotated[
        str, typer.Option(help="small, or a timm backbone; its weights do not matter here.")
    ] = "resnet50",
    size: Annotated[int, typer.Option(min=1, max=MOST, help="Side of what the network sees.")] = 224,
    batch: Annotated[int, typer.Option(min=1, max=MOST, help="Images of each domain in an update.")] = 32,
    domains: Annotated[int, typer.Option(min=1, max=MOST, help="Source domains.")] = 3,
    updates: Annotated[int, typer.Option(min=1, max=MOST, help="Updates to time.")] = 30,
    *,
    speed: Speed,
    format: Annotated[BenchFormat, typer.Option("--format", help="Format of the table.")] = BenchFormat.table,
) -> None:
    """Measure how fast this machine trains: milliseconds per update, images per second, memory."""

    import torch

    from domainwise.acceleration.benchmark import Setup, measure, table
    from domainwise.acceleration.cuda_graph import Fast
    from domainwise.algorithms import parse

    device = choose_device(speed.device)
    torch.set_num_threads(check_count("threads", cores() if speed.threads is None else speed.threads))
    setup = Setup(
        network, size, size + 3, domains=domains, batch=batch, device=device, updates=updates,
        precision=speed.precision or ("fp32" if device == "cpu" else "bf16"),
        fast=Fast(not speed.no_compile, not speed.no_capture),
    )  # fmt: skip
    specs = parse(algorithms)
    name = torch.cuda.get_device_name(device) if device != "cpu" else f"cpu, {torch.get_num_threads()} threads"
    print(f"{name}; torch {torch.__version__}, {setup.precision}", file=sys.stderr)
    if device == "cpu" and network not in ("small", "mnist"):
        print(SLOW, file=sys.stderr)
    width, timings = max(len("algorithm"), *(len(spec.label) for spec in specs)), []
    for spec in specs:
        print(f"measuring {spec.label} ...", file=sys.stderr, flush=True)
        with pace("updates and evaluations", quiet=device != "cpu") as tick:  # on a GPU it would be measured too
            timings.append(measure(spec, setup, tick))
        if format is BenchFormat.table:
            if len(timings) == 1:
                print(f"{'algorithm':{width}}", *(f"{title:>{wide}}" for title, wide in _COLUMNS.items()), sep="  ")
            cells = zip(_numbers(timings[-1]), _COLUMNS.values(), strict=True)
            print(f"{spec.label:{width}}", *(f"{cell:>{wide}}" for cell, wide in cells), sep="  ", flush=True)
    if format is BenchFormat.json:
        print(json.dumps(table(timings), indent=1))
    for t in timings:
        if t.note:
            print(t.note, file=sys.stderr)


def _numbers(timing: Timing) -> list[str]:
    memory = "" if timing.memory_gib is None else f"{timing.memory_gib:.2f}"
    speeds = [f"{timing.images_per_second:.0f}", f"{timing.evaluation_per_second:.0f}"]
    return [f"{timing.update_ms:.2f}", f"{timing.all_in_ms:.2f}", *speeds, memory, f"{timing.start_s:.1f}"]
