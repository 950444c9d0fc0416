"""DomainBed sweeps, made up and written as DomainBed writes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from domainwise.interop.domainbed import read
from domainwise.interop.domainbed_tables import FORMATS, Table, tables

Line = dict[str, Any]

TRIALS, DRAWS, STEPS = range(3), range(2), (0, 300, 600)


def line(step: int, accuracies: Sequence[float], **args: Any) -> Line:
    """``accuracies``: in and out of environment 0, in and out of environment 1, ..."""
    keys = [f"env{i}_{part}_acc" for i in range(len(accuracies) // 2) for part in ("in", "out")]
    settings = {"trial_seed": 0, "hparams_seed": 0, "steps": None, "holdout_fraction": 0.2, **args}
    return {
        "args": {"dataset": "VLCS", "algorithm": "ERM", "task": "domain_generalization", **settings},
        "hparams": {"lr": 5e-5 + 1e-6 * settings["hparams_seed"], "batch_size": 32 - settings["hparams_seed"]},
        "step": step,
        "epoch": step / 7,
        "step_time": 0.5,
        "loss": float("nan") if step == 0 else 0.1,
        **dict(zip(keys, accuracies, strict=True)),
    }


def write(folder: Path, lines: Sequence[Line | str], *, done: bool = True) -> None:
    folder.mkdir(parents=True)
    texts = [one if isinstance(one, str) else json.dumps(one, sort_keys=True) + "\n" for one in lines]
    (folder / "results.jsonl").write_text("".join(texts))
    (folder / "model.pkl").write_bytes(b"not a model")
    if done:
        (folder / "done").write_text("done")


def write_sweep(folder: Path, dataset: str = "VLCS", algorithms: Sequence[str] = ("ERM",), pairs: bool = True) -> Path:
    """Every combination of targets, trial and draw, with accuracies that look random."""
    random = np.random.RandomState(len(dataset))
    targets = [[i] for i in range(4)] + [list(two) for two in combinations(range(4), 2) if pairs]
    for algorithm in algorithms:
        for number, (envs, trial, draw) in enumerate((e, t, d) for e in targets for t in TRIALS for d in DRAWS):
            args = {"algorithm": algorithm, "test_envs": envs, "trial_seed": trial, "hparams_seed": draw}
            made = [line(step, random.rand(8).round(4).tolist(), dataset=dataset, **args) for step in STEPS]
            write(folder / f"{dataset}-{algorithm}-{number:03}", made)
    return folder


def write_flat(folder: Path, env: int, accuracies: Sequence[float], algorithm: str = "ERM") -> None:
    """Runs with one target and one evaluation each, one run per trial."""
    for trial, accuracy in enumerate(accuracies):
        made = line(0, [accuracy] * 8, test_envs=[env], trial_seed=trial, algorithm=algorithm)
        write(folder / f"{algorithm}-{env}-{trial}", [made])


def table(found: Sequence[Table], rule: str, dataset: str = "VLCS") -> Table:
    return next(one for one in found if (one.rule, one.dataset) == (rule, dataset))


def text_of(*folders: Path) -> str:
    found = read(*folders)
    return FORMATS["table"](tables(found), found.records)
