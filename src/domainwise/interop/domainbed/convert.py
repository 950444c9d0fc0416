"""DomainBed's runs as trials of ours, so that everything that reads our folders reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from domainwise.errors import InputError
from domainwise.experiment.integrity import digest, sealed
from domainwise.experiment.output_folder import is_ours, marked, publish_mark, refuse_file
from domainwise.experiment.records import Result, append, publish
from domainwise.experiment.selection import by_validation, summary
from domainwise.experiment.trial import Trial
from domainwise.interop.domainbed.read import Imported, Sweep


def convert(sweep: Sweep, folder: Path) -> list[Path]:
    """Write a trial for every complete run with one target; the folders written.

    Runs with two targets are for leave-one-domain-out selection alone and would be columns of their own in a report.
    """
    _mark(folder, {one.run.data for one in sweep.runs})
    incomplete = sweep.incomplete
    kept = [one for one in sweep.runs if len(one.run.targets) == 1 and one not in incomplete]
    batches = _batches(kept)
    return [_written(one, _trial(one, batches[one.run.data, one.run.algorithm]), folder) for one in kept]


def _written(one: Imported, trial: Trial, folder: Path) -> Path:
    own = folder / "trials" / trial.id
    own.mkdir(parents=True, exist_ok=True)
    publish(own / "trial.json", sealed(trial.to_json()))
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
    """The batch size of a data set's algorithm, or 0 where it was drawn: draws of an algorithm are one row of a table,
    and what tells them apart are the hyperparameters, which have it too."""
    found: dict[tuple[str, str], set[int]] = {}
    for one in runs:
        found.setdefault((one.run.data, one.run.algorithm), set()).add(int(one.hparams.get("batch_size", 0)))
    return {key: sizes.pop() if len(sizes) == 1 else 0 for key, sizes in found.items()}


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
