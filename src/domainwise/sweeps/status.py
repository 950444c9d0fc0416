"""How far the work in a folder is: what has ended, what is running, and how long the rest will take."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any

from domainwise.errors import InputError, warn
from domainwise.experiment import integrity
from domainwise.experiment.output_folder import is_ours, serves
from domainwise.experiment.records import publish
from domainwise.experiment.results import DAMAGED, Outcome, listing
from domainwise.experiment.trial import Trial
from domainwise.sweeps.claims import dead, read, silent

PLAN = "plan.json"


@dataclass(frozen=True)
class Running:
    id: str
    name: str  # "erm on photo, seed 0"
    step: int
    steps: int
    where: str


@dataclass(frozen=True)
class Status:
    """``asked`` is what was asked for last; trials of earlier requests count where they have ended."""

    asked: int
    ended: Mapping[str, int]  # "finished", "diverged", "failed", "damaged": how many
    running: Sequence[Running]
    waiting: int
    seconds: float | None  # of one trial, on average; None before the first has ended
    troubles: Sequence[Outcome]
    unknown: Mapping[str, str]  # damaged trials of which not even the settings can be read

    @property
    def left(self) -> float | None:
        """Seconds until all is done, at the pace of those that are running; None where it cannot be told."""
        if self.seconds is None or not self.running:
            return None
        begun = sum(1 - one.step / one.steps for one in self.running)
        return (self.waiting + begun) * self.seconds / len(self.running)


def status(folder: Path) -> Status:
    if not is_ours(folder):
        raise InputError(f"{folder} is not a folder that domainwise has worked in: give the one after -o")
    asked, trials = planned(folder), listing(folder)
    found, unknown = trials.outcomes, trials.unknown
    average = average_planned(folder)
    found = [
        one for one in found if one.folder.name not in asked or serves(replace(one.trial, average=average), one.result)
    ]
    done = {*unknown, *(outcome.folder.name for outcome in found)}
    running = [one for one in working(folder, asked) if one.id not in done]
    return Status(
        asked=len(asked),
        ended=Counter([*(outcome.result["status"] for outcome in found), *(DAMAGED for _ in unknown)]),
        running=running,
        waiting=len(asked.keys() - done - {one.id for one in running}),
        seconds=pace(found),
        troubles=[outcome for outcome in found if outcome.result["status"] != "finished"],
        unknown=unknown,
    )


def write_plan(folder: Path, trials: Sequence[Trial]) -> None:
    named = {trial.id: describe(trial) for trial in trials}
    averages = dict.fromkeys(name for trial in trials for name in trial.averages)
    integrity.make_way(folder / PLAN)
    publish(folder / PLAN, integrity.sealed({"trials": named, "average": ",".join(averages) or "none"}))


def planned(folder: Path) -> dict[str, str]:
    """A description of every trial asked for last, by its id. Nothing, and a note, where it is damaged."""
    if not os.path.lexists(folder / PLAN):
        return {}
    try:
        asked = integrity.read(folder / PLAN).get("trials")
        if not isinstance(asked, dict) or not all(isinstance(name, str) for name in asked.values()):
            raise integrity.Damaged(folder / PLAN, "is damaged: it names no trials")
        return asked
    except integrity.Damaged as error:
        warn(f"{error}: what was asked for last is not known until the next command")
        return {}


def average_planned(folder: Path) -> str:
    """The averagers that were asked for beside them."""
    with suppress(integrity.Damaged):
        return str(integrity.read(folder / PLAN).get("average", "none"))
    return "none"


def describe(trial: Trial) -> str:
    draw = f", draw {trial.draw}" if trial.draw else ""
    where = f"on {'+'.join(trial.targets)}" if trial.targets else "on all domains"
    return f"{trial.label or trial.algorithm} {where}, seed {trial.seed}{draw}"


def pace(found: Iterable[Outcome]) -> float | None:
    """Seconds of a trial, measured on those that have finished."""
    seconds = [outcome.result["seconds"] for outcome in found if outcome.result["status"] == "finished"]
    return fmean(seconds) if seconds else None


def estimate(missing: Sequence[Trial], found: Iterable[Outcome], at_once: int) -> float | None:
    """Seconds that trials will take, from those that have finished: of the same algorithm where there are some."""
    rates: dict[str, list[float]] = {}
    for outcome in found:
        if outcome.result["status"] == "finished":
            rate = outcome.result["seconds"] / outcome.trial.steps
            rates.setdefault(outcome.trial.algorithm, []).append(rate)
    if not rates:
        return None
    overall = fmean(fmean(known) for known in rates.values())
    own = {name: fmean(known) for name, known in rates.items()}
    return sum(own.get(trial.algorithm, overall) * trial.steps for trial in missing) / at_once


def working(folder: Path, names: Mapping[str, str] = MappingProxyType({})) -> list[Running]:
    """What some process is at just now, as far as can be told."""
    found = []
    for path in sorted((folder / "claims").glob("[!.]*")):
        about = read(path)
        if about and not dead(about) and not silent(path):
            found.append(_described(path.name, names.get(path.name, path.name), about))
    return found


def _described(id: str, name: str, about: Mapping[str, Any]) -> Running:
    where = f"process {about['process']} on {about['machine'].split()[0]}"
    return Running(id, name, about["step"], about["steps"], where)
