"""Say how far each family of the study on PACS is (docs/study.md), and leave of its records what is committed.

    python benchmarks/study.py progress [--out results/study]
    python benchmarks/study.py tidy [--out results/study]

Trials are run by the code of one commit, with its own copy of this file: README.md beside this file says how.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import NamedTuple

from domainwise.experiment import integrity
from domainwise.experiment.records import publish

ROOT = Path(__file__).parents[1]
COMMIT = "e77a76f0815e62478cb5dfdf72466c6a7c77dfcb"  # whose code runs every trial
WEIGHTS = "12e0940455fd188819e65ad3b05417089de66c1ea9fe02367ad2a8154b42bf75"
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
    parser.add_argument("what", choices=("progress", "tidy"))
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "study")
    given = parser.parse_args()
    if given.what == "tidy":
        tidy(given.out)
    print(progress(given.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
