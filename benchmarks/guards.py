"""What it costs to compare, before every replay of an update, what its step read in Python with what it was.

Updates with and without the comparison run in turn within one process; the medians are compared. On a CPU only the
comparison itself is timed, since nothing is replayed there in training.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from domainwise.acceleration.cuda_graph import Fast, prepare, updater
from domainwise.acceleration.recorders import Tapes
from domainwise.acceleration.recording import Captured
from domainwise.algorithms import create
from domainwise.networks.network import build

CLASSES, WARM_UP = 7, 6


def captured(text: str, options: argparse.Namespace) -> tuple[Captured, list[Any]]:
    """An update that has been recorded, and minibatches for it."""
    algorithm = create(text)
    torch.manual_seed(0)
    shape = (options.size, options.size, 3)
    net = build(options.network, shape, CLASSES, extra_channels=algorithm.extra_channels).to(options.device)
    prepare(net, precision=options.precision, fast=Fast(compile=options.compile))
    algorithm.setup(net, seed=0)
    images, labels = (options.batch, 3, options.size, options.size), (options.batch,)
    batches = [
        (torch.randn(images, device=options.device), torch.randint(CLASSES, labels, device=options.device))
        for _ in range(3)
    ]
    update = updater(algorithm, capture=True, say=print, recorder=None if options.device == "cuda" else Tapes())
    assert isinstance(update, Captured)
    for _ in range(WARM_UP):
        update(batches)
    return update, batches


def milliseconds(call: Callable[[], object], device: str) -> float:
    start = time.perf_counter()
    call()
    if device == "cuda":
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--algorithms", default="erm,arith,irm,fishr,mldg")
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--size", type=int, default=224, help="pixels on a side")
    parser.add_argument("--batch", type=int, default=32, help="images of each of three domains")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    for text in options.algorithms.split(","):
        update, batches = captured(text, options)
        (recording,) = update.kept.values()
        notes = recording.notes
        alone = median(milliseconds(notes.changed, "cpu") for _ in range(options.rounds))
        values = len(notes.values) + len(notes.several) + len(notes.tensors)
        print(f"{text:12} {values:6} values compared in {1e3 * alone:6.1f} us", end="")
        if options.device == "cuda":
            sides: dict[bool, list[float]] = {True: [], False: []}
            for i in range(2 * options.rounds):
                # An attribute of the instance stands before the method.
                vars(notes).pop("changed", None) if i % 2 else vars(notes).update(changed=lambda: "")
                sides[bool(i % 2)].append(milliseconds(lambda: update(batches), "cuda"))  # noqa: B023
            with_it, without = median(sides[True]), median(sides[False])
            print(
                f"; an update takes {with_it:.3f} ms with it and {without:.3f} without: {with_it / without:.4f}", end=""
            )
        print()


if __name__ == "__main__":
    main()
