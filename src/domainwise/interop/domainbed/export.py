"""Our trials as DomainBed's runs, so that its programs read them.

A line has ``env{i}_in_acc`` where the main part was evaluated: without ``--evaluate-all`` that is the target's alone,
and no selection method of DomainBed asks for a source's. ``epoch`` is left out for the same reason: it needs the sizes
of all parts. DomainBed chooses among all lines there are, so those are written that the trial itself could choose.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from domainwise.errors import InputError
from domainwise.experiment.output_folder import refuse_file
from domainwise.experiment.records import Record, finite
from domainwise.experiment.results import Outcome
from domainwise.experiment.selection import Run, eligible
from domainwise.interop.domainbed.names import algorithm_of, dataset_of

PARTS = {"main": "in", "holdout": "out"}


def export(outcomes: Sequence[Outcome], folder: Path) -> list[Path]:
    """Write ``results.jsonl`` and ``done`` for every finished trial, each in a folder of its own; the folders written.

    Trials that diverged or failed are left out: DomainBed would take what they reached before for their result.
    """
    refuse_file(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is there already and not empty: choose an empty or a new folder with -o")
    finished = [outcome for outcome in outcomes if outcome.result["status"] == "finished"]
    if not finished:
        raise InputError("no trial has finished: there is nothing to export")
    draws = _numbered(finished)
    written = []
    for outcome in finished:
        own = folder / (outcome.folder.name + "-average" * outcome.averaged)
        if own.exists():  # of several averages beside one run the first is just that
            own = own.with_name("-".join([own.name, *re.findall(r"[\w.=]+", outcome.average)]))
        own.mkdir(parents=True)
        lines = [json.dumps(finite(line), sort_keys=True) + "\n" for line in _lines(outcome, draws[id(outcome)])]
        (own / "results.jsonl").write_text("".join(lines), encoding="utf-8")
        (own / "done").write_text("done", encoding="utf-8")
        written.append(own)
    return written


def _numbered(outcomes: Sequence[Outcome]) -> dict[int, int]:
    """id(outcome) -> hparams_seed: the number of its draw among those of its algorithm and seed."""
    runs = {id(outcome): Run.of(outcome.trial, ()) for outcome in outcomes}
    groups: dict[tuple[str, str, int], set[int | str]] = {}
    for run in runs.values():
        groups.setdefault((run.data, run.algorithm, run.seed), set()).add(run.draw)
    numbers = {group: sorted(found, key=str) for group, found in groups.items()}
    return {key: numbers[run.data, run.algorithm, run.seed].index(run.draw) for key, run in runs.items()}


def _lines(outcome: Outcome, draw: int) -> Iterator[dict[str, Any]]:
    trial, step, seconds = outcome.trial, -1, 0.0
    hparams: dict[str, Any] = {"batch_size": trial.batch, "resnet_dropout": trial.dropout, **trial.used}
    draw = hparams.pop("hparams_seed", draw)  # a trial that came from DomainBed keeps its own
    for record in eligible(outcome.records(), trial):
        domains = list(record["domains"])
        yield {
            "args": _args(outcome, domains, draw),
            "hparams": hparams,
            "step": record["step"],
            "step_time": (record["seconds"] - seconds) / max(1, record["step"] - step),
            "loss": record.get("loss"),
            **_accuracies(record),
        }
        step, seconds = record["step"], record["seconds"]


def _args(outcome: Outcome, domains: Sequence[str], draw: int) -> dict[str, Any]:
    trial = outcome.trial
    return {
        "algorithm": algorithm_of(trial),
        "checkpoint_freq": math.lcm(trial.evaluate_every, trial.select_every),
        "dataset": dataset_of(trial),
        "domains": domains,  # not DomainBed's, which knows its domains by number
        "holdout_fraction": trial.holdout,
        "hparams_seed": draw,
        "seed": trial.seed,
        "steps": trial.steps,
        "task": "domain_generalization",
        "test_envs": [domains.index(name) for name in trial.targets],
        "trial_seed": trial.seed,
        "uda_holdout_fraction": 0,
    }


def _accuracies(record: Record) -> dict[str, float]:
    return {
        f"env{i}_{PARTS[part]}_acc": scores["accuracy"]
        for i, parts in enumerate(record["domains"].values())
        for part, scores in parts.items()
    }
