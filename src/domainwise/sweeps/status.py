"""Watch the work in an output folder: how far it is, how long the rest will take, and its records as they come."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any

from domainwise.errors import InputError, typed, warn
from domainwise.experiment import integrity
from domainwise.experiment.output_folder import is_ours, serves
from domainwise.experiment.records import Journal, Record, averages, publish
from domainwise.experiment.results import DAMAGED, Outcome, homes, listing, result_in, trial_in
from domainwise.experiment.trial import Trial
from domainwise.files import content_of
from domainwise.sweeps.claims import dead, read, silent

PLAN = "plan.json"
LOOK = 1.0  # seconds between two looks at what is new


@dataclass(frozen=True)
class Running:
    id: str
    name: str  # "erm on photo, seed 0"
    step: int
    steps: int
    where: str


@dataclass(frozen=True)
class Status:
    """Hold how far the work is. ``asked`` is what was asked for last; earlier trials count where they have ended."""

    asked: int
    ended: Mapping[str, int]  # "finished", "diverged", "failed", "damaged": how many
    running: Sequence[Running]
    waiting: int
    seconds: float | None  # of one trial, on average; None before the first has ended
    troubles: Sequence[Outcome]
    unknown: Mapping[str, str]  # damaged trials of which not even the settings can be read

    @property
    def left(self) -> float | None:
        """The seconds until all is done, at the pace of those that are running; None where it cannot be told."""
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
    """Return a description of every trial asked for last, by its id; nothing, with a note, where it is damaged."""
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
    """Return the averagers that were asked for beside the trials."""
    with suppress(integrity.Damaged):
        return str(integrity.read(folder / PLAN).get("average", "none"))
    return "none"


def describe(trial: Trial) -> str:
    draw = f", draw {trial.draw}" if trial.draw else ""
    where = f"on {'+'.join(trial.targets)}" if trial.targets else "on all domains"
    return f"{trial.label or trial.algorithm} {where}, seed {trial.seed}{draw}"


def pace(found: Iterable[Outcome]) -> float | None:
    """Return the seconds of a trial, measured on those that have finished."""
    seconds = [outcome.result["seconds"] for outcome in found if outcome.result["status"] == "finished"]
    return fmean(seconds) if seconds else None


def estimate(missing: Sequence[Trial], found: Iterable[Outcome], at_once: int) -> float | None:
    """Estimate the seconds that trials will take, from those that have finished with the same work in an update.

    Those of the same algorithm come first, if there are any; None where nothing like one of the trials has finished.
    """
    rates: dict[tuple[object, ...], dict[str, list[float]]] = {}
    for outcome in found:
        if outcome.result["status"] == "finished":
            rate = outcome.result["seconds"] / outcome.trial.steps
            rates.setdefault(_work(outcome.trial), {}).setdefault(outcome.trial.algorithm, []).append(rate)
    if not rates or any(_work(trial) not in rates for trial in missing):
        return None
    means = {work: {name: fmean(known) for name, known in of.items()} for work, of in rates.items()}
    every = ((trial, means[_work(trial)]) for trial in missing)
    return sum(own.get(trial.algorithm, fmean(own.values())) * trial.steps for trial, own in every) / at_once


def _work(trial: Trial) -> tuple[object, ...]:
    return trial.network, trial.input_size, trial.features, trial.precision


def working(folder: Path, names: Mapping[str, str] = MappingProxyType({})) -> list[Running]:
    """Return the trials that some process works on just now, as far as can be told."""
    found = []
    for path in sorted((folder / "claims").glob("[!.]*")):
        about = read(path)
        if about and not dead(about) and not silent(path):
            found.append(_described(path.name, names.get(path.name, path.name), about))
    return found


def _described(id: str, name: str, about: Mapping[str, Any]) -> Running:
    where = f"process {about['process']} on {about['machine'].split()[0]}"
    return Running(id, name, about["step"], about["steps"], where)


@typed
def follow(folder: Path | str, *, wait: bool = False) -> Iterator[tuple[Trial, Record]]:
    """Yield every trial of an output folder with each of its records, every step of a trial once.

    With ``wait`` it goes on, and yields what comes, until all trials that were asked for last have ended.
    """
    folder = Path(folder)
    if not is_ours(folder):
        raise InputError(f"{folder} is not a folder that domainwise has worked in: give the one after -o")
    return _followed(folder, wait)


def _followed(folder: Path, wait: bool) -> Iterator[tuple[Trial, Record]]:
    tails: dict[str, Tail] = {}
    while True:
        over = not wait or _all_ended(folder)  # looked at first: a result comes after the last record
        for path in homes(folder):
            yield from tails.setdefault(path.name, Tail(path)).new()
        if over:
            return
        time.sleep(LOOK)


class Tail:
    """Read the records of one trial that have not been seen yet.

    A trial that goes on from a checkpoint cuts its file and writes the same steps once more, so that a place in the
    file means nothing: a file that has changed is read from its start, and what tells records apart is their step. One
    is new too where averages have come to it, of a trial that was trained again for those.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trial: Trial | None = None
        self.looks: tuple[int, ...] = ()  # of the file when it was read
        self.seen: dict[int, set[str]] = {}  # by step, the averages that were there
        self.damaged = False

    def new(self) -> Iterator[tuple[Trial, Record]]:
        with suppress(FileNotFoundError):
            about = (self.folder / Journal.LEAN).stat()
            looks = (about.st_ino, about.st_size, about.st_mtime_ns)
            if self.looks and looks[0] != self.looks[0]:  # another file: perhaps of a run with other averagers
                self.trial = None
            if looks == self.looks or self.damaged or not self._known():
                return
            assert self.trial is not None
            text = content_of(self.folder / Journal.LEAN)
            self.looks = looks
            for record in _whole(text):
                names = {*averages(record, self.trial.average)}
                if record["step"] not in self.seen or names - self.seen[record["step"]]:
                    self.seen.setdefault(record["step"], set()).update(names)
                    yield self.trial, record

    def _known(self) -> bool:
        """Whether it can be told which trial it is; one that has ended must have the records it ended with."""
        if self.trial is None and os.path.lexists(self.folder / "trial.json"):
            try:
                self.trial = trial_in(self.folder)
                ended = os.path.lexists(self.folder / "result.json")
                result = result_in(self.folder, files=True) if ended else {}
                wrong = result["message"] if result.get("status") == DAMAGED else ""
            except integrity.Damaged as error:
                wrong = str(error)
            if wrong:
                self.damaged = True
                warn(f"{wrong}: this trial is left out")
        return self.trial is not None and not self.damaged


def _whole(text: bytes) -> Iterator[Record]:
    """Yield the records of whole lines; a line that is being written just now is read later."""
    for line in text.splitlines(keepends=True):
        with suppress(ValueError):
            if line.endswith(b"\n"):
                yield json.loads(line)


def _all_ended(folder: Path) -> bool:
    """Return whether the trials asked for last have ended, or all there are where that is not known."""
    asked = [folder / "trials" / id for id in planned(folder)] or homes(folder)
    if not asked or not all((home / "result.json").exists() for home in asked):
        return False
    average = average_planned(folder)
    return average == "none" or all(_has(home, average) for home in asked)


def _has(home: Path, average: str) -> bool:
    """Whether a trial has what was asked for, where nothing is damaged; who asks for more keeps what is there."""
    try:
        return serves(replace(trial_in(home), average=average), result_in(home))
    except integrity.Damaged:
        return True
