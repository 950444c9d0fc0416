"""Whole runs on real images on a GPU: how fast they start, alone and side by side; what precision costs; a surface.

    python benchmarks/pacs.py start packed precision deterministic surface --data pacs=DIR --weights FILE --out FOLDER

Every number is printed when it is known and appended to FOLDER/pacs.jsonl. A folder that has trials already is gone on
with, so start with a new one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from domainwise.experiment import records

TARGET = "sketch"
PARTS = ("start", "packed", "deterministic", "precision", "surface")


class Bench:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.out, self.steps = arguments.out, arguments.steps
        self.data = ["--data", arguments.data]
        self.common = [*self.data, "--preset", "domainbed", "--network", "resnet50.v1", "--weights", arguments.weights]
        self.out.mkdir(parents=True, exist_ok=True)

    def tell(self, **found: object) -> None:
        print(", ".join(f"{name} {value}" for name, value in found.items()), flush=True)
        with (self.out / "pacs.jsonl").open("a") as file:
            file.write(json.dumps(found) + "\n")

    def train(self, name: str, *options: object) -> tuple[float, list[list[dict[str, float]]]]:
        """Seconds until the first evaluation was written, and what each trial wrote."""
        folder = self.out / name
        where = ["--targets", TARGET, "--device", "cuda", "-o", folder]
        command = [sys.executable, "-m", "domainwise", "compare", *self.common, *where, *options]
        started = time.perf_counter()
        with (self.out / f"{name}.log").open("w") as log:
            process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log)
            while process.poll() is None and not any(file.stat().st_size for file in _written(folder)):
                time.sleep(0.05)
            first = time.perf_counter() - started
            if process.wait():
                raise SystemExit(f"{name} failed: see {log.name}")
        return first, [list(records.read(file)) for file in _written(folder)]

    def start(self) -> None:
        """Of a process from nothing, and of another after it."""
        for name in ("first", "second"):
            seconds, _ = self.train(f"start-{name}", "--algorithms", "arith", "--seeds", 1, "--steps", 31)
            self.tell(what=f"start of the {name} process until its first evaluation", seconds=round(seconds, 1))

    def packed(self) -> None:
        """Arith by itself and four at once, with an evaluation every 300 updates."""
        for many in (1, 4):
            options = ["--seeds", many, "--per-gpu", many, "--steps", 1201, "--evaluate-every", 300]
            _, found = self.train(f"packed-{many}", "--algorithms", "arith", *options)
            self.tell(what=f"{many} at once, all-in, each", ms=round(fmean(map(_pace, found)) / many, 2))

    def deterministic(self) -> None:
        options = ["--seeds", 1, "--steps", 601, "--evaluate-every", 300, "--deterministic"]
        _, found = self.train("deterministic", "--algorithms", "arith", *options)
        self.tell(what="deterministic, all-in", ms=round(_pace(found[0]), 2))

    def precision(self) -> None:
        """The same seeds in both: accuracy on the unseen domain, the mean over the last two thirds of training."""
        for precision in ("bf16", "fp32"):
            options = ["--seeds", 2, "--steps", self.steps, "--evaluate-every", 100, "--precision", precision]
            _, found = self.train(f"precision-{precision}", "--algorithms", "erm,arith", *options)
            self.tell(what=precision, late=[round(_late(run), 4) for run in found], ms=round(_pace(found[0]), 2))

    def surface(self) -> None:
        """Of a model that another part has left."""
        run = next((self.out / "packed-1" / "trials").iterdir())
        command = [sys.executable, "-m", "domainwise", "surface", run, *self.data, "--device", "cuda", "--quiet"]
        started = time.perf_counter()
        subprocess.run([str(word) for word in [*command, "-o", self.out / "surface.svg"]], check=True)
        self.tell(
            what="surface of 25 x 25 points, 1000 images a domain", seconds=round(time.perf_counter() - started, 1)
        )


def _written(folder: Path) -> Iterator[Path]:
    return folder.glob("trials/*/records.jsonl")


def _pace(run: list[dict[str, float]]) -> float:
    """Milliseconds per update with its share of evaluations, from the second evaluation on."""
    first, last = run[1], run[-1]
    return 1e3 * (last["seconds"] - first["seconds"]) / (last["step"] - first["step"])


def _late(run: list[dict]) -> float:
    return fmean(one["domains"][TARGET]["main"]["accuracy"] for one in run if 3 * one["step"] >= run[-1]["step"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--data", required=True, metavar="pacs=DIR")
    parser.add_argument("--weights", required=True, metavar="FILE")
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER")
    parser.add_argument("--steps", type=int, default=1501, help="of each trial of the comparison of precisions")
    arguments = parser.parse_args()
    bench = Bench(arguments)
    for part in arguments.parts:
        getattr(bench, part)()


if __name__ == "__main__":
    main()
