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
    said: float  # seconds until it has said what was waited for, or to its end
    busy: float  # seconds of a core
    memory: float  # MB at its peak

    @property
    def over(self) -> bool:
        return self.said > SECONDS or self.memory > MEMORY

    def __str__(self) -> str:
        first = f" ({self.said:.1f} s until it says so)" if self.said < self.seconds else ""
        numbers = f"{self.seconds:6.1f} s{self.busy:6.1f} s of a core{self.memory:6.0f} MB"
        return f"{self.command:<28}{numbers}{first}{'   over the limit' * self.over}"


def measured(name: str, *arguments: str, until: str = "") -> Cost:
    """Of a command in a process of its own, with all that it imports; ``until`` is part of a line it says."""
    started, said, lines = time.perf_counter(), 0.0, []
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    child = subprocess.Popen([sys.executable, "-m", "domainwise", *arguments], **pipes)
    for line in child.stderr:
        lines.append(line)
        if until and until in line:
            said = time.perf_counter() - started
    _, code, usage = os.wait4(child.pid, 0)
    took = time.perf_counter() - started
    if code or (until and not said):
        sys.exit(f"domainwise {' '.join(arguments)} failed:\n{''.join(lines[-20:])}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Cost(name, took, said or took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit / 1e6)


def commands(folder: Path, many: Sequence[str]) -> list[Cost]:
    sweep = ["sweep", "--data", "digits", "--algorithms", "all", *many, "--device", "cpu", "-o", str(folder)]
    return [
        measured("status, for the first time", "status", str(folder)),
        measured("status", "status", str(folder)),
        measured("report", "report", str(folder)),
        measured("sweep --dry-run", *sweep, "--dry-run"),
        measured("sweep, nothing to run", *sweep, until="already and are not repeated"),
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
    print(*costs, sep="\n")
    print(f"the page: {page:.1f} MB{'   over the limit' * (page > PAGE)}")
    sys.exit(any(cost.over for cost in costs) or page > PAGE)


if __name__ == "__main__":
    main()
