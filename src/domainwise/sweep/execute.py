"""One trial from start to result, with its files."""

from __future__ import annotations

import platform
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy
import torch

from domainwise._version import __version__
from domainwise.capture import Fast
from domainwise.counts import measures, worst
from domainwise.data.domains import Domains
from domainwise.errors import InputError
from domainwise.keeper import Keeper
from domainwise.loop import Diverged, run
from domainwise.records import Record, append, lean, publish
from domainwise.select import selected, summary, validation
from domainwise.trial import Trial

Watch = Callable[[Trial, dict[str, Any]], None]


def execute(
    trial: Trial,
    data: Domains,
    folder: Path,
    *,
    device: str = "cpu",
    fast: Fast = Fast(),  # noqa: B008  frozen
    keep: bool = True,
    watch: Watch = lambda trial, event: None,
) -> dict[str, Any]:
    """Run a trial and leave its settings, records, result and, with ``keep``, its best model in its folder.

    ``watch`` hears {"step": 120} now and then, {"step": ..., "validation": ...} at every evaluation, and {"note": ...}.
    """
    folder.mkdir(parents=True, exist_ok=True)
    publish(folder / "trial.json", trial.to_json())
    for name in ("result.json", "records.jsonl", "counts.json"):
        (folder / name).unlink(missing_ok=True)
    records: list[Record] = []
    keeper = Keeper(trial, keep=keep)
    started, status, message, step = time.perf_counter(), "finished", "", trial.steps - 1
    try:
        for record in run(
            trial,
            data,
            device=device,
            fast=fast,
            keeper=keeper,
            tick=lambda step: watch(trial, {"step": step}),
            say=lambda sentence: watch(trial, {"note": sentence}),
        ):
            append(folder / "records.jsonl", lean(record))
            records.append(record)
            watch(trial, {"step": record["step"] + 1, "validation": validation(record, trial.targets)})
    except Diverged as error:
        status, message, step = "diverged", str(error), error.step
    except Exception as error:
        status, message, step = "failed", _told(error), len(records)
        (folder / "error.txt").write_text(traceback.format_exc(), encoding="utf-8")
    result = result_of(trial, status, message, step, records, time.perf_counter() - started, device)
    if status == "finished":
        publish(folder / "counts.json", counts_of(trial, records))
        keeper.write(folder)
    publish(folder / "result.json", result)
    return result


def result_of(
    trial: Trial, status: str, message: str, step: int, records: Sequence[Record], seconds: float, device: str
) -> dict[str, Any]:
    """The content of result.json: all that tables need to know of a trial that has ended."""
    finished = status == "finished"
    return {
        "id": trial.id,
        "status": status,
        "message": message,
        "step": step,
        **(_numbers(trial, records) if finished else {"selected": None, "last": None}),
        "averages": {trial.average: _numbers(trial, averaged(records))} if finished and averaged(records) else {},
        "seconds": seconds,
        "device": device,
        "threads": torch.get_num_threads(),
        "versions": versions(),
    }


def averaged(records: Sequence[Record]) -> list[Record]:
    """The records of the averaged model, as if it were a run of its own."""
    return [{**record, "domains": record["average"]} for record in records if "average" in record]


def counts_of(trial: Trial, records: Sequence[Record]) -> dict[str, Any]:
    """What the selected model made of every domain: confusion and calibration counts."""
    found = {"model": selected(records, trial)["domains"]}
    if models := averaged(records):
        found[trial.average] = selected(models, trial)["domains"]
    return found


def _numbers(trial: Trial, records: Sequence[Record]) -> dict[str, Any]:
    chosen = selected(records, trial)
    return {
        "selected": {**summary(chosen, trial.targets, trial.test), "measures": _measures(trial, chosen)},
        "last": summary(records[-1], trial.targets, trial.test),
    }


def _measures(trial: Trial, record: Record) -> dict[str, Any]:
    """Beside accuracy, on the main part of the targets; and the domain that does worst, a source by its hold-out."""
    domains = record["domains"]
    found = [measures(domains[name]["main"]) for name in trial.targets]
    name, accuracy = worst({name: parts.get("main", parts["holdout"]) for name, parts in domains.items()})
    means = {key: fmean(one[key] for one in found) for key in found[0] if key not in ("accuracy", "loss")}
    return {**means, "worst_domain": name, "worst_accuracy": accuracy}


def versions() -> dict[str, str]:
    return {
        "domainwise": __version__,
        "torch": str(torch.__version__),
        "numpy": numpy.__version__,
        "python": platform.python_version(),
    }


def _told(error: Exception) -> str:
    return (
        str(error)
        if isinstance(error, InputError)
        else f"{type(error).__name__}: {error} (the traceback is in error.txt)"
    )
