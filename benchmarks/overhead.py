"""What the drop-in costs over the loop one would write without it, and the package over torch at import.

Both sides of a ratio run in turn within one process (or one subprocess each), so that what else the machine does hits
both alike; the medians are compared.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD, Adam

from domainwise import MetaOptimizer

Batch = tuple[Tensor, Tensor]
INNER_LR, OUTER_LR = 1e-2, 1e-3


def network() -> nn.Sequential:
    """Small on purpose (two convolutions, 47,000 parameters): the shorter a forward pass, the more overhead shows."""
    torch.manual_seed(0)
    convolutions = [nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10))


def minibatches() -> list[Batch]:
    return [(torch.randn(32, 1, 28, 28), torch.randint(10, (32,))) for _ in range(3)]


def bare_round(legs: list[Batch]) -> Callable[[], object]:
    """The least that visits three minibatches in turn and steps Adam once: nothing is saved, put back or summed up."""
    net = network()
    inner, outer = SGD(net.parameters(), lr=INNER_LR), Adam(net.parameters(), lr=OUTER_LR)

    def step() -> None:
        for x, y in legs:
            inner.zero_grad()
            F.cross_entropy(net(x), y).backward()  # type: ignore[no-untyped-call]
            inner.step()
        outer.step()

    return step


def meta_round(legs: list[Batch]) -> Callable[[], object]:
    net = network()
    meta = MetaOptimizer(Adam(net.parameters(), lr=OUTER_LR), inner_lr=INNER_LR)

    def loss(batch: Batch) -> Tensor:
        return F.cross_entropy(net(batch[0]), batch[1])

    return lambda: meta.step(loss, legs)


def importing(statement: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, "-c", statement], check=True)


def medians(*sides: Callable[[], object], repeats: int) -> list[float]:
    """Median seconds of each side, run in turn after a first run that does not count."""
    seconds: list[list[float]] = [[] for _ in sides]
    for repeat in range(repeats + 1):
        for side, taken in zip(sides, seconds, strict=True):
            start = time.perf_counter()
            side()
            if repeat:
                taken.append(time.perf_counter() - start)
    return [median(taken) for taken in seconds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=100, help="rounds of each side")
    parser.add_argument("--imports", type=int, default=9, help="subprocesses of each kind")
    parser.add_argument("--threads", type=int, default=1, help="threads torch may use")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    legs = minibatches()
    bare, meta = medians(bare_round(legs), meta_round(legs), repeats=options.repeats)
    statements = ["import torch", "import domainwise", "from domainwise import MetaOptimizer"]
    imports = medians(*map(importing, statements), repeats=options.imports)
    rows = [
        ("three forward/backward/SGD steps and one Adam step", bare, bare),
        ("MetaOptimizer.step, 3 legs", meta, bare),
    ]
    rows += [(f"python -c '{what}'", took, imports[0]) for what, took in zip(statements, imports, strict=True)]
    print(f"{'':52}{'median ms':>10}{'ratio':>8}")
    for what, took, against in rows:
        print(f"{what:52}{1e3 * took:10.1f}{took / against:8.2f}")


if __name__ == "__main__":
    main()
