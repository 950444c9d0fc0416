"""DomainBed's runs as trials of ours, and our trials as its runs, so that each side's programs read both.

A line that is written has ``env{i}_in_acc`` where the main part was evaluated: without ``--evaluate-all`` only the
target's was, and no selection method of DomainBed asks for a source's. ``epoch`` is left out for the same reason: it
needs the sizes of all parts. DomainBed selects among all lines, so only those are written that the trial could select.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from domainwise.data.splits import OFFICIAL
from domainwise.errors import InputError
from domainwise.experiment.integrity import digest, sealed
from domainwise.experiment.output_folder import is_ours, marked, publish_mark, refuse_file
from domainwise.experiment.records import Record, Result, append, finite, publish
from domainwise.experiment.results import Outcome
from domainwise.experiment.selection import Run, by_validation, eligible, summary
from domainwise.experiment.trial import Trial
from domainwise.interop.domainbed import ALGORITHMS, DATASETS, Imported, Sweep

PARTS = {"main": "in", "holdout": "out"}


def convert(sweep: Sweep, folder: Path) -> list[Path]:
    """Write every complete run with one target as a trial; returns the folders written.

    Runs with two targets serve leave-one-domain-out selection only and would be columns of their own in a report.
    """
    _mark(folder, {one.run.data for one in sweep.runs})
    incomplete = sweep.incomplete
    kept = [one for one in sweep.runs if len(one.run.targets) == 1 and one not in incomplete]
    batches = _batches(kept)
    return [_written(one, _trial(one, batches[one.run.data, one.run.algorithm]), folder) for one in kept]


def _written(one: Imported, trial: Trial, folder: Path) -> Path:
    own = folder / "trials" / trial.id
    own.mkdir(parents=True, exist_ok=True)
    publish(own / "trial.json", sealed(trial.shared()))
    (own / "records.jsonl").unlink(missing_ok=True)
    for record in one.run.records:
        append(own / "records.jsonl", record)
    files = {"records.jsonl": digest(own / "records.jsonl")}
    publish(own / "result.json", sealed({**_result(one, trial), "files": files}))
    return own


def _trial(one: Imported, batch: int) -> Trial:
    run = one.run
    return Trial(
        data=run.data,
        fingerprint=f"domainbed:{run.data}",
        targets=run.targets,
        algorithm=run.algorithm,
        hyperparameters={**one.hparams, "hparams_seed": run.draw},
        network="domainbed",
        weights="unknown",
        batch=batch,
        steps=one.last + 1,
        holdout=one.args.get("holdout_fraction", 0.2),
        evaluate_every=one.args.get("checkpoint_freq") or _interval(one),
        seed=run.seed,
        label=run.algorithm,
    )


def _batches(runs: Sequence[Imported]) -> dict[tuple[str, str], int]:
    """The batch size of an algorithm on a data set, or 0 where it was drawn.

    The draws of an algorithm are one row of a table: their hyperparameters, batch size among them, tell them apart.
    """
    sizes: dict[tuple[str, str], set[int]] = {}
    for one in runs:
        sizes.setdefault((one.run.data, one.run.algorithm), set()).add(int(one.hparams.get("batch_size", 0)))
    return {key: own.pop() if len(own) == 1 else 0 for key, own in sizes.items()}


def _interval(one: Imported) -> int:
    steps = [record["step"] for record in one.run.records]
    return steps[1] - steps[0] if len(steps) > 1 else one.last + 1


def _result(one: Imported, trial: Trial) -> Result:
    records = one.run.records
    return {
        "id": trial.id,
        "status": "finished",
        "message": "",
        "step": one.last,
        "selected": summary(by_validation(records, trial.targets), trial.targets),
        "last": summary(records[-1], trial.targets),
        "averages": {},
        "seconds": records[-1]["seconds"],
        "device": "unknown",
        "threads": None,
        "versions": {},
    }


def _mark(folder: Path, datasets: set[str]) -> None:
    refuse_file(folder)
    if folder.exists() and not is_ours(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} has files that are not from domainwise: choose an empty or a new folder with -o")
    folder.mkdir(parents=True, exist_ok=True)
    about = marked(folder)
    about["data"].update({name: f"domainbed:{name}" for name in sorted(datasets)})
    publish_mark(folder, about)


def export(outcomes: Sequence[Outcome], folder: Path) -> list[Path]:
    """Write ``results.jsonl`` and ``done`` for every finished trial, each in its own folder; returns the folders.

    Trials that diverged or failed are left out: DomainBed would report what they reached before as their result.
    """
    refuse_file(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is there already and not empty: choose an empty or a new folder with -o")
    finished = [outcome for outcome in outcomes if outcome.result["status"] == "finished"]
    if not finished:
        raise InputError("no trial has finished: there is nothing to export")
    if any(outcome.trial.targets == (OFFICIAL,) for outcome in finished):
        raise InputError(
            "trials on an official split test on no domain of their own, as DomainBed's do: none is exported"
        )
    draws = _draw_numbers(finished)
    written = []
    for outcome in finished:
        own = folder / (outcome.folder.name + "-average" * outcome.averaged)
        if own.exists():  # the first of several averages of a run has the plain name
            own = own.with_name("-".join([own.name, *re.findall(r"[\w.=]+", outcome.average)]))
        own.mkdir(parents=True)
        lines = [json.dumps(finite(line), sort_keys=True) + "\n" for line in _lines(outcome, draws[id(outcome)])]
        (own / "results.jsonl").write_text("".join(lines), encoding="utf-8")
        (own / "done").write_text("done", encoding="utf-8")
        written.append(own)
    return written


def _draw_numbers(outcomes: Sequence[Outcome]) -> dict[int, int]:
    """id(outcome) -> hparams_seed: the place of its draw among those of its algorithm and seed."""
    runs = {id(outcome): Run.of(outcome.trial, ()) for outcome in outcomes}
    groups: dict[tuple[str, str, int], set[int | str]] = {}
    for run in runs.values():
        groups.setdefault((run.data, run.algorithm, run.seed), set()).add(run.draw)
    numbers = {group: sorted(draws, key=str) for group, draws in groups.items()}
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


def dataset_of(trial: Trial) -> str:
    """Return DomainBed's name of a data set; ours where it does not know it."""
    return _spelled(trial.data, tuple(DATASETS)) or trial.data


def algorithm_of(trial: Trial) -> str:
    """Return DomainBed's name of a plain algorithm; one with other settings keeps them and stays a row of its own."""
    label = trial.label or trial.algorithm
    if trial.algorithm == "causirl" and re.fullmatch(r"causirl(\(distance='\w+'\))?", label):
        label = f"causirl{trial.hyperparameters.get('distance', 'coral')}"
    return _spelled(label, ALGORITHMS) or label


def _spelled(name: str, known: tuple[str, ...]) -> str:
    return {_bare(one): one for one in known}.get(_bare(name), "")


def _bare(name: str) -> str:
    return name.replace("_", "").lower()
