"""What came of a set of trials, read back from their folder."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from domainwise import records
from domainwise.trial import SEARCHED, Trial


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
    trials = folder / "trials"
    with _no_looking_for_cycles():
        return [Outcome(Trial.from_json(line["trial"]), line["result"], trials / line["id"]) for line in _lines(folder)]


def ended(folder: Path) -> dict[str, dict[str, Any]]:
    """The same results by the ids of their trials, for who needs no more."""
    with _no_looking_for_cycles():
        return {line["id"]: line["result"] for line in _lines(folder)}


@contextmanager
def _no_looking_for_cycles() -> Iterator[None]:
    """All that is read stays, and Python would go through it again and again: a third of the time."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _lines(folder: Path) -> list[dict[str, Any]]:
    """What was read before is kept in one file, index.jsonl, which may be deleted at any time: every line of it counts
    only as long as the result it was made from is the same."""
    known, lines = _remembered(folder / INDEX)
    found, fresh = [], []
    for id, stamp in sorted(_stamps(folder / "trials").items()):
        line = known.get(id)
        if line is None or line["stamp"] != stamp:
            about = {name: _json(folder / "trials" / id / f"{name}.json") for name in ("trial", "result")}
            line = {"id": id, "stamp": stamp, **about}
            fresh.append(line)
        found.append(line)
    if fresh:
        _remember(folder / INDEX, fresh, anew=lines > 2 * len(known))
    return found


INDEX = "index.jsonl"


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _stamps(trials: Path) -> dict[str, list[int]]:
    """Of every trial that has ended, when its result was written and how long it is."""
    found = {}
    with suppress(FileNotFoundError), os.scandir(trials) as entries:
        for entry in entries:
            with suppress(OSError):
                about = os.stat(f"{entry.path}/result.json")  # noqa: PTH116  ten thousand of them
                found[entry.name] = [about.st_mtime_ns, about.st_size]
    return found


_READ: dict[tuple[str, int, int], tuple[dict[str, Any], int]] = {}  # the last index read, for one that is the same


def _remembered(index: Path) -> tuple[dict[str, Any], int]:
    """The last line about every trial, and the number of lines; one that was cut while being written is left out."""
    known: dict[str, Any] = {}
    lines = 0
    with suppress(OSError):
        about = index.stat()
        same = (str(index.absolute()), about.st_mtime_ns, about.st_size)
        if same not in _READ:
            _READ.clear()
            _READ[same] = _parsed(index)
        known, lines = _READ[same]
    return known, lines


def _parsed(index: Path) -> tuple[dict[str, Any], int]:
    known, lines = {}, 0
    with suppress(OSError), index.open(encoding="utf-8", errors="replace") as file:
        for text in file:
            lines += 1
            with suppress(ValueError, KeyError, TypeError):
                line = json.loads(text)
                known[line["id"]] = line
    return known, lines


def _remember(index: Path, fresh: list[dict[str, Any]], anew: bool) -> None:
    text = "".join(json.dumps(line) + "\n" for line in fresh)
    with suppress(OSError):  # a folder that is not ours to write to is read as well without
        if anew:
            index.unlink(missing_ok=True)
        with index.open("a", encoding="utf-8") as file:
            file.write("\n" * bool(file.tell()) + text)  # after a line that may have been cut


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
    differing = {label: [name for name in _SETTINGS if len({_told(trial, name) for trial in trials} - {None}) > 1]
                 for label, trials in groups.items()}  # fmt: skip
    return [
        replace(outcome, trial=_labelled(outcome.trial, names))
        if (names := differing[outcome.trial.label])
        else outcome
        for outcome in found
    ]


# What a table does not spread over rows and columns by itself. Hyperparameters are in the label where they were given.
_SETTINGS = [
    f.name
    for f in fields(Trial)
    if f.compare and f.name not in ("fingerprint", "targets", "hyperparameters", "seed", "algorithm")
]


def _told(trial: Trial, name: str) -> Any:
    """A setting that tells trials apart; None for what a search has drawn, which belongs to the one searched for."""
    return None if trial.draw and name in SEARCHED else getattr(trial, name)


def _labelled(trial: Trial, differing: list[str]) -> Trial:
    told = {name: _told(trial, name) for name in differing}
    about = ", ".join(f"{name}={str(value)[:12]}" for name, value in told.items() if value is not None)
    return replace(trial, label=f"{trial.label} [{about}]") if about else trial
