"""Write the result of a trial that has ended, and replace it where the trial was trained once more."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, cast

import torch

from domainwise.experiment.integrity import Damaged, digest, read, sealed
from domainwise.experiment.metrics import measures, tested, worst
from domainwise.experiment.output_folder import ended, served
from domainwise.experiment.records import DomainScores, Measures, ModelResult, Record, Result, averaged, publish_once
from domainwise.experiment.results import OUTCOMES, READ
from domainwise.experiment.selection import selected, summary
from domainwise.experiment.trial import Trial
from domainwise.files import exists, make_folder, names_in
from domainwise.machine import versions_and_commit
from domainwise.saved_models.saved import CONFIG, WEIGHTS


def result_of(
    trial: Trial, status: str, message: str, step: int, records: Sequence[Record], seconds: float, device: str
) -> Result:
    """Return the content of result.json: all that tables need to know of a trial that has ended."""
    finished = status == "finished"
    numbers: ModelResult = _numbers(trial, records) if finished else {"selected": None, "last": None}
    return {
        "id": trial.id,
        "status": status,
        "message": message,
        "step": step,
        "selected": numbers["selected"],
        "last": numbers["last"],
        "averages": {name: _numbers(trial, own) for name, own in of_averages(trial, records)} if finished else {},
        "average": trial.average,  # as asked for: there may have been nothing to average yet
        "seconds": seconds,
        "device": device,
        "threads": torch.get_num_threads(),
        "versions": versions_and_commit(),
    }


def failed(folder: Path, trial: Trial, message: str, device: str) -> Result:
    """Publish the failure of a trial whose process could not do so; what was there before stays, and is returned."""
    home, result = folder / "trials" / trial.id, result_of(trial, "failed", message, 0, [], 0.0, device)
    make_folder(home)
    publish_once(home / "trial.json", sealed(trial.shared()))
    publish_once(home / "result.json", sealed({"files": {}, **result}))
    return served(home, trial) or result


def of_averages(trial: Trial, records: Sequence[Record]) -> Iterator[tuple[str, list[Record]]]:
    """Yield every average that there came to be, with its records."""
    for name in trial.averages:
        if own := averaged(records, name):
            yield name, own


def steps_of(result: Result) -> dict[str, int]:
    """Return the selected steps of the model and of its averages."""
    models: dict[str, ModelResult] = {"model": result, **result["averages"]}
    return {which: one["selected"]["step"] for which, one in models.items() if one["selected"] is not None}


def counts_of(trial: Trial, records: Sequence[Record]) -> dict[str, DomainScores]:
    """Return the confusion and calibration counts of the selected model, for every domain."""
    own = {name: selected(models, trial)["domains"] for name, models in of_averages(trial, records)}
    return {"model": selected(records, trial)["domains"], **own}


def _numbers(trial: Trial, records: Sequence[Record]) -> ModelResult:
    chosen = selected(records, trial)
    return {
        "selected": {
            **summary(chosen, trial.targets, trial.test, trial.selection),
            "measures": _measures(trial, chosen),
        },
        "last": summary(records[-1], trial.targets, trial.test, trial.selection),
    }


BY_GROUP = ("worst_group", "percentile_10", "judged")


def _measures(trial: Trial, record: Record) -> Measures:
    """Means over targets of all but accuracy; and the target that does worst, or where none is held out the source."""
    domains = record["domains"]
    unseen = {name: tested(domains[name], trial.test) for name in trial.targets}
    found = [measures(part) for part in unseen.values()]
    name, accuracy = worst(unseen or {name: parts["holdout"] for name, parts in domains.items() if "holdout" in parts})
    keys = [key for key in found[0] if key not in ("accuracy", "loss")] if found else []
    means = {key: fmean(one[key] for one in found) for key in keys}
    by_group = {key: value for part in unseen.values() for key, value in part.get("metrics", {}).items()}
    told = {key: by_group[key] for key in BY_GROUP if key in by_group}
    return cast(Measures, {**means, **told, "worst_domain": name, "worst_accuracy": accuracy})


def models_in(folder: Path) -> list[Path]:
    """Return the folders of the models that a trial's folder holds."""
    homes = [folder / name for name in names_in(folder)]
    homes += [home / name for home in homes for name in names_in(home)]
    return sorted(home for home in homes if exists(home / CONFIG))


def digests(folder: Path) -> dict[str, Any]:
    """Return the hashes and lengths of the files of a trial that has ended, by their names in its folder."""
    found = {name: digest(folder / name) for name in (*READ, OUTCOMES) if (folder / name).is_file()}
    for home in models_in(folder):
        name = home.relative_to(folder).as_posix()
        with suppress(Damaged, FileNotFoundError, IsADirectoryError):  # of an earlier run, and no model any more
            known = read(home / CONFIG).get("files", {})  # as many gigabytes as there are models are not read again
            weights = {WEIGHTS: known.get(WEIGHTS) or digest(home / WEIGHTS), **known}
            found |= {
                f"{name}/{CONFIG}": digest(home / CONFIG),
                **{f"{name}/{file}": weights[file] for file in weights},
            }
    return found


AGAIN = "again"


def begin_again(trial: Trial, result: Result, folder: Path) -> tuple[Trial, Path]:
    """Return a trial to train once more for averages that it lacks, and the folder to train it in.

    It gets the averages that it has already too: all that is read of a trial is of one and the same run.
    """
    home = folder / AGAIN
    home.mkdir(exist_ok=True)
    names = dict.fromkeys([*trial.averages, *result["averages"]])
    return replace(trial, average=",".join(names)), home


def finish_again(folder: Path) -> None:
    """Let a trial that was trained once more take the place of what was there, if it has finished.

    In between there is no result: whoever comes next goes on with this.
    """
    home = folder / AGAIN
    if home.is_symlink():  # never made here: what it leads to is somebody else's
        home.unlink()
    if (ended(home, certain=True) or {}).get("status") != "finished":
        # Where nothing is left that it would be beside:
        if (ended(folder, certain=True) or {}).get("status") in (None, "failed"):
            shutil.rmtree(home, ignore_errors=True)
        return
    (folder / "result.json").unlink(missing_ok=True)
    fresh = sorted(path for path in home.iterdir() if path.name != "result.json")  # "best" before its averages
    stale = folder.glob("best-average*") if (home / "best").exists() else ()
    for path in [*stale, *(folder / one.name for one in fresh if one.is_dir())]:
        path.unlink() if path.is_symlink() else shutil.rmtree(path, ignore_errors=True)
    for path in fresh:
        path.replace(folder / path.name)
    (home / "result.json").replace(folder / "result.json")
    shutil.rmtree(home, ignore_errors=True)
