"""Whether an update takes longer where there are more domains that take no part in it.

    python benchmarks/domains.py                          # about two minutes

Tables of 10, 100, 1000 and 10,000 domains with 1 to 40 rows each, of which an update takes eight. All sizes are updated
in turn, so that the rest of the machine slows them alike: ratios of medians are what to read.
"""

from __future__ import annotations

import time
import warnings
from argparse import ArgumentParser
from statistics import median

import numpy as np
import torch

from domainwise import domains
from domainwise.acceleration.shared_device import directly
from domainwise.algorithms import parse
from domainwise.data.domains import Domains
from domainwise.errors import Note
from domainwise.experiment.settings import resolve
from domainwise.training.plan import plan
from domainwise.training.run_options import RunOptions
from domainwise.training.setup import Setup, set_up

COUNTS = (10, 100, 1000, 10_000)
COLUMNS, TAKEN, BATCH = 64, 8, 8


def made(count: int) -> Domains:
    """Make so many domains of 1 to 40 rows."""
    random = np.random.default_rng(0)
    sizes = [1 + i % 40 for i in range(count)]
    arrays = {f"d{i}": (random.normal(size=(n, COLUMNS)), np.arange(n) % 2) for i, n in enumerate(sizes)}
    return domains(arrays, name=f"{count} domains", classes=["no", "yes"])


def begun(data: Domains, algorithm: str, by: str) -> Setup:
    """Return a training on all domains but the last."""
    settings = resolve(given={"domains_per_step": TAKEN, "batch": BATCH, "domains_by": by})
    (trial,) = plan(data, parse(algorithm), [(data.names[-1],)], [0], settings)
    return set_up(trial, data, RunOptions(), print, directly)


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--algorithms", default="erm,fish,arith,coral,fishr(anneal=0)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", Note)
    tables = {count: made(count) for count in COUNTS}
    print(f"{'algorithm':<20}{'by':<9}" + "".join(f"{count:>12,}" for count in COUNTS))
    for spec in parse(options.algorithms):
        for by in ("uniform", "size"):
            setups = {count: begun(data, spec.label, by) for count, data in tables.items()}
            times: dict[int, list[float]] = {count: [] for count in COUNTS}
            for update in range(options.updates + 20):
                for count, setup in setups.items():
                    started = time.perf_counter()
                    setup.train()
                    if update >= 20:
                        times[count].append(time.perf_counter() - started)
            first = median(times[COUNTS[0]])
            told = [f"{1000 * first:.2f} ms", *(f"{median(times[count]) / first:.2f}" for count in COUNTS[1:])]
            print(f"{spec.label:<20}{by:<9}" + "".join(f"{one:>12}" for one in told), flush=True)


if __name__ == "__main__":
    main()
