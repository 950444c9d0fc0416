"""One trial from start to result, with its files."""

from __future__ import annotations

import platform
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import torch

from domainwise._version import __version__
from domainwise.data.domains import Domains
from domainwise.errors import InputError
from domainwise.loop import Diverged, run
from domainwise.records import Record, append, publish
from domainwise.select import by_validation, summary, validation
from domainwise.trial import Trial

Watch = Callable[[Trial, dict[str, Any]], None]


def execute(
    trial: Trial, data: Domains, folder: Path, *, device: str = "cpu", watch: Watch | None = None
) -> dict[str, Any]:
    """Run a trial and leave trial.json, records.jsonl and result.json in its folder. Returns the result.

    ``watch`` hears {"step": 120} now and then, and {"step": ..., "validation": ...} at every evaluation.
    """
    folder.mkdir(parents=True, exist_ok=True)
    publish(folder / "trial.json", trial.to_json())
    lines = folder / "records.jsonl"
    lines.unlink(missing_ok=True)
    tell = watch or (lambda trial, event: None)
    records: list[Record] = []
    started, status, message, step = time.perf_counter(), "finished", "", trial.steps - 1
    try:
        for record in run(trial, data, device=device, tick=lambda step: tell(trial, {"step": step})):
            append(lines, record)
            records.append(record)
            tell(trial, {"step": record["step"] + 1, "validation": validation(record, trial.targets)})
    except Diverged as error:
        status, message, step = "diverged", str(error), error.step
    except Exception as error:
        status, message, step = "failed", _told(error), len(records)
        (folder / "error.txt").write_text(traceback.format_exc(), encoding="utf-8")
    result = result_of(trial, status, message, step, records, time.perf_counter() - started, device)
    publish(folder / "result.json", result)
    return result


def result_of(
    trial: Trial, status: str, message: str, step: int, records: list[Record], seconds: float, device: str
) -> dict[str, Any]:
    """The content of result.json: all that tables need to know of a trial that has ended."""
    finished = status == "finished"
    return {
        "id": trial.id,
        "status": status,
        "message": message,
        "step": step,
        "selected": summary(by_validation(records, trial.targets), trial.targets) if finished else None,
        "last": summary(records[-1], trial.targets) if finished else None,
        "seconds": seconds,
        "device": device,
        "threads": torch.get_num_threads(),
        "versions": versions(),
    }


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
