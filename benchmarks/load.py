"""What ten thousand ended trials in one folder cost the commands that read them: seconds and memory of each."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# Nothing else is imported: a process takes the memory of the one that starts it for its own peak.

SECONDS, MEMORY, PAGE = 5.0, 1000.0, 10.0  # the most of each: s, MB, MB


@dataclass(frozen=True)
class Cost:
    command: str
    seconds: float
    busy: float  # seconds of a core: what it would take by itself
    memory: float  # MB at its peak

    @property
    def over(self) -> bool:
        return self.seconds > SECONDS or self.memory > MEMORY


def measured(name: str, *arguments: str) -> Cost:
    """Of a command in a process of its own, with all that it imports."""
    started = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen([sys.executable, "-m", "domainwise", *arguments], stdout=said, stderr=said)
        _, code, usage = os.wait4(child.pid, 0)
        took = time.perf_counter() - started
        if code:
            said.seek(0)
            sys.exit(f"domainwise {' '.join(arguments)} failed:\n{said.read().decode()[-2000:]}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Cost(name, took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit / 1e6)


def commands(folder: Path, many: Sequence[str]) -> list[Cost]:
    sweep = ["sweep", "--data", "digits", "--algorithms", "all", *many, "--device", "cpu", "-o", str(folder)]
    return [
        measured("status, for the first time", "status", str(folder)),
        measured("status", "status", str(folder)),
        measured("report", "report", str(folder)),
        measured("sweep --dry-run", *sweep, "--dry-run"),
        measured("sweep, nothing to run", *sweep),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--draws", type=int, default=31, help="18 algorithms x 6 targets x 3 seeds x 31 is 10,044")
    parser.add_argument("--folder", type=Path, help="One that many_trials.py has made with as many seeds and draws.")
    options = parser.parse_args()
    many = [f"--seeds={options.seeds}", f"--draws={options.draws}"]
    with tempfile.TemporaryDirectory(prefix="domainwise-load-") as place:
        folder = options.folder or Path(place) / "many"
        if options.folder is None:
            maker = Path(__file__).with_name("many_trials.py")
            subprocess.run([sys.executable, str(maker), str(folder), *many], check=True)
        costs = commands(folder, many)
        page = (folder / "report.html").stat().st_size / 1e6
    for cost in costs:
        told = f"{cost.seconds:6.1f} s, {cost.busy:4.1f} s of a core{cost.memory:8.0f} MB"
        print(f"{cost.command:<28}{told}{'   over the limit' * cost.over}")
    print(f"{'the page':<28}{page:33.1f} MB{'   over the limit' * (page > PAGE)}")
    sys.exit(any(cost.over for cost in costs) or page > PAGE)


if __name__ == "__main__":
    main()
