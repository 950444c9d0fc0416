"""Trials as the paper's tables lay them out, ended with numbers that are chosen, as if they had been run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from made_seals import reseal

from domainwise.api import Comparison
from domainwise.data.domains import Domains
from domainwise.data.sources.arrays import domains
from domainwise.experiment import records, selection as select
from domainwise.experiment.settings import Settings, resolve
from domainwise.experiment.trial import Trial

PACS = ("art_painting", "cartoon", "photo", "sketch")
OFFICE_HOME = ("Art", "Clipart", "Product", "Real World")


def tiny(name: str = "pacs", names: tuple[str, ...] = PACS) -> Domains:
    """Data that bears the name and the domains of a benchmark, and nothing else of it."""
    images = np.zeros((10, 8, 8, 1), dtype=np.uint8)
    arrays = {domain: (images + i, np.arange(10) % 2) for i, domain in enumerate(names)}
    return domains(arrays, name=name, classes=["low", "high"])


def settings(preset: str = "domainbed", **given: Any) -> Settings:
    small = {"network": "small", "weights": "none", "steps": 301, "evaluate_every": 100, "input_size": 8}
    return resolve(preset, benchmark="pacs", device="cpu", given={**small, **given})


def rises(trial: Trial) -> float:
    """An accuracy for every trial that tells them apart."""
    place = {name: at for at, name in enumerate(sorted({*PACS, *OFFICE_HOME, *trial.targets}))}
    return 0.5 + 0.02 * place[trial.targets[0]] + 0.01 * trial.seed + 0.03 * (trial.algorithm == "arith")


def ended(
    comparison: Comparison,
    accuracy: Callable[[Trial], float] = rises,
    *,
    swad: float | None = None,
    diverged: Callable[[Trial], bool] = lambda trial: False,
) -> Path:
    """Four evaluations for each, the third of them selected; ``swad`` is what averaging adds."""
    for trial in comparison.trials:
        folder = comparison.folder / "trials" / trial.id
        folder.mkdir(parents=True, exist_ok=True)
        records.publish(folder / "trial.json", replace(trial, select_every=1).to_json())
        made = [_record(trial, comparison.data, accuracy(trial), at) for at in range(4)]
        if swad is not None:
            made[-1]["average"] = _record(trial, comparison.data, accuracy(trial) + swad, 2)["domains"]
        (folder / "records.jsonl").unlink(missing_ok=True)
        for record in made:
            records.append(folder / "records.jsonl", record)
        records.publish(folder / "result.json", _result(trial, made, diverged(trial)))
        reseal(folder)
    return comparison.folder


def _record(trial: Trial, data: Domains, accuracy: float, at: int) -> dict[str, Any]:
    """The accuracy itself at the third of four evaluations, less before and after it."""
    less = (0.4, 0.1, 0.0, 0.05)[at]
    scores = {name: {"accuracy": accuracy - less, "loss": 1.0, "count": 8} for name in data.names}
    parts = {name: {"main" if name in trial.targets else "holdout": score} for name, score in scores.items()}
    return {"step": 100 * at, "seconds": 1.0, "loss": 1.0, "domains": parts}


def _result(trial: Trial, made: list[dict[str, Any]], diverged: bool) -> dict[str, Any]:
    averaged = [{**record, "domains": record["average"]} for record in made if "average" in record]
    return {
        "id": trial.id,
        "status": "diverged" if diverged else "finished",
        "message": "the loss is not finite" if diverged else "",
        "step": 300,
        **({"selected": None, "last": None} if diverged else _numbers(trial, made)),
        "averages": {trial.average: _numbers(trial, averaged)} if averaged and not diverged else {},
        "seconds": 1.0,
        "device": "cpu",
        "threads": 1,
        "versions": {"domainwise": "0.1.0", "torch": "2.13.0"},
    }


def _numbers(trial: Trial, made: list[dict[str, Any]]) -> dict[str, Any]:
    best = select.by_validation(made, trial.targets)
    return {name: select.summary(one, trial.targets) for name, one in (("selected", best), ("last", made[-1]))}
