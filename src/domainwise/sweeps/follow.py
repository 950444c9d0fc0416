"""The records of an output folder one after the other, also while trials are being run: for trackers of all kinds."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from domainwise.errors import InputError, typed, warn
from domainwise.experiment import integrity
from domainwise.experiment.output_folder import is_ours, serves
from domainwise.experiment.records import Journal, Record, averages
from domainwise.experiment.results import DAMAGED, homes, result_in, trial_in
from domainwise.experiment.trial import Trial
from domainwise.files import content_of
from domainwise.sweeps.status import average_planned, planned

LOOK = 1.0  # seconds between two looks at what is new


@typed
def follow(folder: Path | str, *, wait: bool = False) -> Iterator[tuple[Trial, Record]]:
    """Every trial of an output folder with each of its records, every step of a trial once.

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
    """The records of one trial that have not been seen yet.

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
    """Without the line that is being written just now; what a file that changed meanwhile leaves torn is read later."""
    for line in text.splitlines(keepends=True):
        with suppress(ValueError):
            if line.endswith(b"\n"):
                yield json.loads(line)


def _all_ended(folder: Path) -> bool:
    """Of the trials that were asked for last; of all there are, where that is not known."""
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
