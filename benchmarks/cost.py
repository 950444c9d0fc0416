"""What one update of every algorithm costs, relative to ERM on the same number of images.

Each runs in turn with ERM, again and again, so that what else the machine does hits both alike; medians are compared.
Penalties that wait for their turn (``anneal``) count from the start.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch

from domainwise.acceleration.cuda_graph import Fast, prepare, updater
from domainwise.algorithms import Algorithm, create, hypers, names
from domainwise.networks.network import build

CLASSES, WARM_UP = 7, 6
BESIDES = ["causirl(distance='mmd')", "mldg(pairs='split', held_out=2)", "hutchinson(draws=300)"]


def active(text: str) -> Algorithm:
    algorithm = create(text)
    return create(text, anneal=0) if "anneal" in hypers(type(algorithm)) else algorithm


def updates(text: str, options: argparse.Namespace) -> Callable[[], object]:
    algorithm = active(text)
    torch.manual_seed(0)
    shape = (options.size, options.size, 3)
    net = build(options.network, shape, CLASSES, extra_channels=algorithm.extra_channels).to(options.device)
    prepare(net, precision=options.precision, fast=Fast(compile=False))
    algorithm.setup(net, seed=0)
    batches = [
        (
            torch.randn(options.batch, 3, options.size, options.size, device=options.device),
            torch.randint(CLASSES, (options.batch,), device=options.device),
        )
        for _ in range(options.domains)
    ]
    update = updater(algorithm, capture=options.graph)
    return lambda: update(batches)


def seconds(update: Callable[[], object], device: str) -> float:
    start = time.perf_counter()
    update()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def measure(text: str, erm: Callable[[], object], options: argparse.Namespace) -> tuple[float, float]:
    """Median milliseconds of an update, and of ERM's in between."""
    update = updates(text, options)
    taken: list[tuple[float, float]] = []
    for _ in range(options.rounds + WARM_UP):
        taken.append((seconds(update, options.device), seconds(erm, options.device)))
    ours, theirs = zip(*taken[WARM_UP:], strict=True)
    del update
    gc.collect()  # a graph keeps all of its memory to itself
    return 1000 * median(ours), 1000 * median(theirs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="small", help="small, mnist, a timm name, or FILE.py:FUNCTION")
    parser.add_argument("--size", type=int, default=32, help="pixels on a side")
    parser.add_argument("--batch", type=int, default=32, help="images of each domain")
    parser.add_argument("--domains", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--graph", action="store_true", help="on cuda: replay updates as CUDA graphs")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--label", default="", help="what to call this measurement where it is written")
    parser.add_argument("--machine", default="", help="what it was measured on")
    parser.add_argument("--write", type=Path, help="put the ratios into this JSON file, which docs/ reads")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    texts = [*names(), *BESIDES]
    erm = updates("erm", options)
    measured = {text: measure(text, erm, options) for text in texts}
    images = f"{options.domains} x {options.batch} images of {options.size} x {options.size}"
    print(f"{images}, {options.network}, {options.precision} on {options.device}")
    for text, (ours, theirs) in sorted(measured.items(), key=lambda item: item[1][0] / item[1][1]):
        print(f"{text:34}{ours:9.1f} ms, ERM {theirs:7.1f} ms: {ours / theirs:6.2f} x")
    if options.write:
        known = json.loads(options.write.read_text()) if options.write.exists() else {}
        setting = f"{options.machine}, network {Path(options.network).name}, {options.precision}, {images}"
        known[options.label] = {"setting": setting} | {
            text: round(ours / theirs, 2) for text, (ours, theirs) in measured.items()
        }
        options.write.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
