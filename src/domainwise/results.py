"""What came of a set of trials, read back from their folder."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from domainwise import records
from domainwise.trial import Trial


@dataclass(frozen=True)
class Outcome:
    """A trial and what came of it.

    ``result`` is the content of result.json:
    {"id": ..., "status": "finished" | "diverged" | "failed", "message": "" or a sentence, "step": the last one made,
     "selected": null or {"step": 250, "validation": 0.95, "target": 0.81, "targets": {"75": 0.81}},
     "last": the same of the last record, "averages": {"swad": {"selected": ..., "last": ...}},
     "seconds": 3.2, "device": "cpu", "threads": 1,
     "versions": {"domainwise": "0.1.0", "torch": ..., "python": ..., "numpy": ...}}
    """

    trial: Trial
    result: dict[str, Any]
    folder: Path
    averaged: bool = False  # whether this is the averaged model of the run

    def records(self) -> list[records.Record]:
        found = records.read(self.folder / "records.jsonl")
        if not self.averaged:
            return list(found)
        return [{**record, "domains": record["average"]} for record in found if "average" in record]


def outcomes(folder: Path) -> list[Outcome]:
    """Every trial of an output folder that has come to an end, well or badly."""
    found = []
    for result in sorted((folder / "trials").glob("*/result.json")):
        settings = json.loads((result.parent / "trial.json").read_text(encoding="utf-8"))
        found.append(Outcome(Trial.from_json(settings), json.loads(result.read_text(encoding="utf-8")), result.parent))
    return found


def variants(found: Iterable[Outcome]) -> list[Outcome]:
    """Each of them, and after it the averaged models of the same run as outcomes of their own."""
    return [one for outcome in found for one in (outcome, *_averages(outcome))]


def _averages(outcome: Outcome) -> list[Outcome]:
    trial = outcome.trial
    return [
        Outcome(
            replace(trial, label=f"{trial.label} + {name}"),
            {**outcome.result, **numbers, "averages": {}},
            outcome.folder,
            averaged=True,
        )
        for name, numbers in outcome.result.get("averages", {}).items()
    ]


def told_apart(found: Iterable[Outcome]) -> list[Outcome]:
    """The same with labels that say what differs, where one label stands for trials with different settings."""
    found = list(found)
    groups: dict[str, list[Trial]] = {}
    for outcome in found:
        groups.setdefault(outcome.trial.label, []).append(outcome.trial)
    differing = {label: [name for name in _SETTINGS if len({getattr(trial, name) for trial in trials}) > 1]
                 for label, trials in groups.items()}  # fmt: skip
    return [replace(outcome, trial=_labelled(outcome.trial, differing[outcome.trial.label])) for outcome in found]


# What a table does not spread over rows and columns by itself. Hyperparameters are in the label where they were given.
_SETTINGS = [
    f.name
    for f in fields(Trial)
    if f.compare and f.name not in ("fingerprint", "targets", "hyperparameters", "seed", "algorithm")
]


def _labelled(trial: Trial, differing: list[str]) -> Trial:
    about = ", ".join(f"{name}={str(getattr(trial, name))[:12]}" for name in differing)
    return replace(trial, label=f"{trial.label} [{about}]") if about else trial
