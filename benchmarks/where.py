"""Where the time of an update goes: kernels by what they do, and the largest of them.

    python benchmarks/where.py --algorithms erm,arith              # on a GPU, the shapes of PACS
    python benchmarks/where.py --device cpu --network small --size 32

Inside a CUDA graph every kernel is seen by itself. What is left between their sum and the time of an update is idle.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from domainwise.acceleration.benchmark import Setup, feed_of, prepared
from domainwise.acceleration.shared_device import arithmetic_units
from domainwise.algorithms import parse

KINDS = {
    "optimizer and walk": r"multi_tensor|foreach|adam",
    "compiled": r"triton",
    "convolutions, matrix products": r"conv|gemm|xmma|cutlass|cudnn|nvjet|dgrad|wgrad|fprop|mm\b",
    "copies": r"memcpy|memset|copy",
}
LARGEST = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--algorithms", default="erm,arith")
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--updates", type=int, default=10)
    given = parser.parse_args()
    precision = "fp32" if given.device == "cpu" else "bf16"
    setup = Setup(given.network, given.size, given.size + 3, device=given.device, precision=precision)
    for spec in parse(given.algorithms):
        with arithmetic_units(precision):
            algorithm, update = prepared(spec, setup, [])
            batches = feed_of(setup).draw(algorithm.fresh)
            show(spec.label, *measured(partial(update, batches), given.updates, given.device))


def measured(update: Callable[[], object], updates: int, device: str) -> tuple[float, Counter[str]]:
    """Milliseconds of an update by the clock, and of every kernel in it."""
    wait = torch.cuda.synchronize if device != "cpu" else lambda: None
    for _ in range(6):
        update()
    wait()
    started = time.perf_counter()
    for _ in range(updates):
        update()
    wait()
    clock = 1e3 * (time.perf_counter() - started) / updates
    with profile(activities=[ProfilerActivity.CPU if device == "cpu" else ProfilerActivity.CUDA]) as seen:
        for _ in range(updates):
            update()
        wait()
    kernels: Counter[str] = Counter()
    for event in seen.key_averages():
        if device == "cpu":
            kernels[event.key] += event.self_cpu_time_total / 1e3 / updates
        elif event.device_type == DeviceType.CUDA and not event.is_user_annotation:
            kernels[event.key] += event.self_device_time_total / 1e3 / updates
    return clock, kernels


def show(name: str, clock: float, kernels: Counter[str]) -> None:
    kinds: Counter[str] = Counter()
    for kernel, ms in kernels.items():
        found = (kind for kind, pattern in KINDS.items() if re.search(pattern, kernel, re.IGNORECASE))
        kinds[next(found, "others")] += ms
    print(f"\n{name}: {clock:.2f} ms per update, {kernels.total():.2f} in kernels")
    for kind, ms in kinds.most_common():
        print(f"{ms:8.2f} ms {ms / kernels.total():6.1%}  {kind}")
    print("the largest:")
    for kernel, ms in kernels.most_common(LARGEST):
        print(f"{ms:8.3f} ms  {kernel[:100]}")


if __name__ == "__main__":
    main()
