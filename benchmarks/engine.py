"""What handing out trials costs: many trials of a known length on a few processes, against the time they need."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from domainwise import compare
from domainwise.data.domains import Domains
from domainwise.data.sources.arrays import domains

SLEEPS = """
import time
from domainwise.algorithms import Algorithm, algorithm

@algorithm
class Sleeps(Algorithm):
    def update(self, batches):
        time.sleep({seconds})
        return super().update(batches)
"""


def dots() -> Domains:
    """As little data as will do: loading and evaluating are not what is measured."""
    random = np.random.RandomState(0)
    made = {name: (random.randint(0, 255, (10, 8, 8, 1)).astype(np.uint8), np.arange(10) % 2) for name in "abc"}
    return domains(made, name="dots", classes=["even", "odd"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one trial")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sleeps.py"
        file.write_text(SLEEPS.format(seconds=options.seconds / 2), encoding="utf-8")
        started, heard = time.perf_counter(), []
        results = compare(
            dots(), f"{file}:Sleeps", targets="c", seeds=options.trials, steps=2, output=Path(folder) / "out",
            processes=options.processes, watch=lambda trial, event: heard.append(time.perf_counter()),
        )  # fmt: skip
        took = time.perf_counter() - started
    if results.troubled:
        sys.exit(results.troubled[0].result["message"])
    alone = sum(outcome.result["seconds"] for outcome in results.outcomes) / options.processes
    print(f"{options.trials} trials of {options.seconds:g} s on {options.processes} processes: {took:.1f} s,")
    print(f"{took / alone - 1:.1%} more than the {alone:.1f} s that the trials took by themselves;")
    print(f"{heard[0] - started:.1f} s of it until the first process was ready")


if __name__ == "__main__":
    main()
