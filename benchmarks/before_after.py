"""Compare the speed of two versions of the code on one machine: milliseconds of a captured update, and of a start.

    python benchmarks/before_after.py OLD/src src [--algorithms erm,arith] [--rounds 3] [--weights FILE]

Each version runs in processes of its own, in turn, so that whatever else the machine does slows both alike. Machines
differ by more than versions do: only the ratio in one call counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from statistics import median

ONE = """
import json, sys, time
started = time.perf_counter()
import torch
from domainwise.algorithms import create
from domainwise.acceleration.cuda_graph import Fast, prepare, updater
from domainwise.networks.network import build
name, updates = sys.argv[1], int(sys.argv[2])
torch.manual_seed(0)
shape = (224, 224, 3)
net = build("resnet50.v1", shape, 7).to("cuda")
given = [(3, 224, 224)] if "shape" in signature(prepare).parameters else []  # of versions before
prepare(net, *given, precision="bf16", fast=Fast())
algorithm = create(name).setup(net, seed=0)
update = updater(algorithm, capture=True, say=lambda sentence: print(sentence, file=sys.stderr))
x = [torch.randn(32, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last) for _ in range(3)]
batches = [(image, torch.randint(7, (32,), device="cuda")) for image in x]
update(batches)
torch.cuda.synchronize()
first = time.perf_counter() - started
for _ in range(10):
    update(batches)
times = []
for _ in range(updates // 20):
    torch.cuda.synchronize()
    since = time.perf_counter()
    for _ in range(20):
        update(batches)
    torch.cuda.synchronize()
    times.append((time.perf_counter() - since) / 20 * 1000)
print(json.dumps({"first": first, "update": sorted(times)[len(times) // 2]}))
"""


def measured(source: str, algorithm: str, updates: int) -> dict[str, float]:
    environment = {**os.environ, "PYTHONPATH": source}
    done = subprocess.run(
        [sys.executable, "-c", ONE, algorithm, str(updates)], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{source} failed:\n{done.stderr[-3000:]}")
    print(done.stderr[-300:], end="", file=sys.stderr)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", help="the src folders to compare, the older one first")
    parser.add_argument("--algorithms", default="erm,arith")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=200)
    given = parser.parse_args()
    for algorithm in given.algorithms.split(","):
        found: dict[str, list[dict[str, float]]] = {source: [] for source in given.sources}
        for _ in range(given.rounds):
            for source in given.sources:
                found[source].append(measured(source, algorithm, given.updates))
        base = median(one["update"] for one in found[given.sources[0]])
        for source, runs in found.items():
            update = median(one["update"] for one in runs)
            starts = ", ".join(f"{one['first']:.1f}" for one in runs)
            print(f"{algorithm}: {source}: {update:.2f} ms an update ({update / base:.3f}), first after {starts} s")


if __name__ == "__main__":
    main()
