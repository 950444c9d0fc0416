"""Make an output folder full of ended trials, each with the files of a real one: what load.py measures on."""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from pathlib import Path
from typing import Any

from domainwise.api import Comparison, prepare
from domainwise.data.sources.open import open_data
from domainwise.experiment.integrity import digest, sealed
from domainwise.experiment.output_folder import opened
from domainwise.experiment.results import READ
from domainwise.experiment.settings import resolve
from domainwise.experiment.trial import Trial
from domainwise.sweeps.engine import Engine
from domainwise.sweeps.status import write_plan

TARGET = "75"  # of the trial that is really run
SCORES = ("accuracy", "loss", "validation", "target", TARGET)

Files = dict[str, Any]  # name -> content


def laid_out(algorithms: str, targets: str, seeds: int, draws: int, folder: Path) -> Comparison:
    settings = resolve(benchmark="digits", device="cpu")
    return prepare(
        open_data("digits"), algorithms, targets=targets, seeds=seeds, draws=draws, settings=settings, output=folder
    )


def real() -> Files:
    """What one trial on the digits leaves behind."""
    with tempfile.TemporaryDirectory() as folder:
        comparison = laid_out("erm", TARGET, 1, 1, Path(folder))
        (outcome,) = comparison.run(Engine(keep="none"), lambda trial, event: None).outcomes
        counts = json.loads((outcome.folder / "counts.json").read_text(encoding="utf-8"))
        return {"result": outcome.result, "counts": counts, "records": outcome.records()}


def varied(value: Any, target: str, dice: random.Random) -> Any:
    """The same for another target, which changes places with the real one; every score is a little lower."""
    if not isinstance(value, dict):
        return value
    names = {TARGET: target, target: TARGET}
    return {
        names.get(key, key): item * dice.uniform(0.9, 1)
        if isinstance(item, float) and key in SCORES
        else varied(item, target, dice)
        for key, item in value.items()
    }


def fill(comparison: Comparison, found: Files) -> None:
    with opened(comparison.folder, comparison.data):
        write_plan(comparison.folder, comparison.trials)
    dice = random.Random(0)
    for trial in comparison.trials:
        write(comparison.folder / "trials" / trial.id, trial, found, dice)


def write(path: Path, trial: Trial, found: Files, dice: random.Random) -> None:
    (target,) = trial.targets
    path.mkdir(parents=True)
    result, counts = varied(found["result"], target, dice), varied(found["counts"], target, dice)
    lines = [json.dumps(varied(record, target, dice)) + "\n" for record in found["records"]]
    (path / "records.jsonl").write_text("".join(lines), encoding="utf-8")
    (path / "counts.json").write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
    files = {name: digest(path / name) for name in READ}
    contents = {"trial": trial.to_json(), "result": {**result, "id": trial.id, "files": files}}
    for name, content in contents.items():
        (path / f"{name}.json").write_text(json.dumps(sealed(content), indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--draws", type=int, default=31)
    options = parser.parse_args()
    comparison = laid_out("all", "all", options.seeds, options.draws, options.folder)
    fill(comparison, real())
    print(f"{len(comparison.trials)} trials in {options.folder}")


if __name__ == "__main__":
    main()
