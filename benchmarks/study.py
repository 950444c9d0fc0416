"""Run the next trials of the study on PACS (docs/study.md), or say how far each family is.

    python benchmarks/study.py run P --data pacs=DIR --weights FILE [--out results/study] [--seconds 540]
    python benchmarks/study.py progress [--out results/study]

``run`` goes on where the folder of the family ends, and stops by itself after so many seconds; what was not finished
then goes on from its checkpoint on the same machine, and from its start on another.
``tidy`` leaves the files that are committed.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from domainwise.experiment import integrity
from domainwise.experiment.records import publish

ROOT = Path(__file__).parents[1]
SHORT = ("--steps", "1001", "--evaluate-every", "50")
LONG = ("--average", "swad,ma")


class Family(NamedTuple):
    algorithms: str
    seeds: str
    options: tuple[str, ...]
    trials: int


FAMILIES = {
    "P": Family("erm,arith", "100-107", SHORT, 64),
    "L": Family("erm,arith", "100-102", (*LONG, "--set", "lr=1e-5"), 24),
    "E": Family("erm,arith", "100-107", LONG, 64),
    "C": Family("fish,arith(inner_lr=0)", "100-107", SHORT, 64),
    "K": Family("fish(inner_steps=3,inner_lr=0.003),arith(inner_steps=3,inner_lr=0.003)", "100-103", SHORT, 32),
}
KEPT = ("trial.json", "result.json", "records.jsonl", "counts.json")


def command(name: str, data: str, weights: str, out: Path) -> list[str]:
    """The family's comparison, as anybody would type it."""
    family = FAMILIES[name]
    return [
        *(sys.executable, "-m", "domainwise", "compare", "--data", data, "--algorithms", family.algorithms),
        *("--seeds", family.seeds, "--preset", "swad", "--network", "resnet50.v1", "--weights", weights),
        *(*family.options, "--keep", "none", "--device", "cuda", "--per-gpu", "4", "-o", str(out / name)),
    ]


def run(name: str, data: str, weights: str, out: Path, seconds: float) -> int:
    """Run what is missing of a family; its table is not shown, since nobody looks at half a family."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / f"{name}.log").open("a") as log:
        process = subprocess.Popen([*command(name, data, weights, out), "-q"], stdout=subprocess.DEVNULL, stderr=log)
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def progress(out: Path) -> str:
    """How many trials of each family have come to an end, and nothing of what came out of them."""
    lines = []
    for name, family in FAMILIES.items():
        ended = [json.loads(path.read_text())["status"] for path in (out / name).glob("trials/*/result.json")]
        other = len(ended) - ended.count("finished")
        lines.append(f"{name}: {len(ended)} of {family.trials} trials" + f", {other} not finished well" * bool(other))
    return "\n".join(lines)


def tidy(out: Path) -> None:
    """Leave what is to be committed: records without places on the machine that made them."""
    for folder in out.glob("*/trials/*"):
        if not (folder / "result.json").exists():
            continue
        for path in folder.iterdir():
            if path.is_file() and path.name not in KEPT:
                path.unlink()
        about = integrity.read(folder / "trial.json")
        publish(folder / "trial.json", integrity.sealed({**about, "weights_file": Path(about["weights_file"]).name}))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "progress", "tidy"))
    parser.add_argument("family", nargs="?", choices=FAMILIES)
    parser.add_argument("--data", default="pacs=PACS")
    parser.add_argument("--weights", default="resnet50_v1.safetensors")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "study")
    parser.add_argument("--seconds", type=float, default=540)
    given = parser.parse_args()
    if given.what == "run":
        if given.family is None:
            parser.error(f"say which family to run: {', '.join(FAMILIES)}")
        return run(given.family, given.data, given.weights, given.out, given.seconds)
    if given.what == "tidy":
        tidy(given.out)
    print(progress(given.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
