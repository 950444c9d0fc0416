"""A worker process that runs the trials it is given, and the handle that its driver has on it.

The driver writes trials to its standard input, a line of JSON each, and reads events from its standard output.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, cast

import torch

from domainwise.data.domains import Domains
from domainwise.errors import InputError
from domainwise.experiment.records import Event
from domainwise.experiment.trial import Trial
from domainwise.machine import child_environment
from domainwise.sweeps.in_process import AT_MOST, Many, run_packed
from domainwise.training.run_options import RunOptions
from domainwise.training.signals import listening, stop_requested

STARTING = 120.0  # seconds for a process to come up, whatever the timeout of a trial
GRACE = 30.0  # seconds for a trial to put itself aside when everything stops
LOOK = 0.2  # seconds between two looks at whether to stop


@dataclass(frozen=True)
class Place:
    """Say where trials run: on which device, and how many of them at once."""

    options: RunOptions
    room: Many = 1
    threads: int = 1

    @property
    def most(self) -> int:
        return AT_MOST if self.room == "auto" else self.room


@dataclass(eq=False)
class Given:
    """Hold a trial on its way through the processes."""

    trial: Trial
    attempt: int = 1
    deadline: float | None = None

    @property
    def alone(self) -> bool:
        """Whether the trial needs a process to itself: to see if it is to blame, or for its random numbers."""
        return self.attempt > 1 or self.trial.dropout > 0

    def again(self) -> Given:
        return replace(self, attempt=self.attempt + 1, deadline=None)


class Message(Event, total=False):
    """Hold one line that a worker process writes: an event of the trial ``id``, or about the process itself."""

    id: str
    ready: bool  # it has read the data
    wrong: str  # no trial is to blame: the run ends with this sentence


Heard = queue.Queue[tuple["Worker", Message | None]]  # None: the process has ended


class Worker:
    """Handle a worker process, from the driver's side."""

    def __init__(
        self,
        place: Place,
        parked: Path,
        folder: Path,
        heard: Heard,
        timeout: float | None,
    ) -> None:
        self.place, self.timeout, self.waking, self.ready = place, timeout, True, False
        self.given: dict[str, Given] = {}
        self.last_words = ""
        self.errors: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed in stop()
        arguments = [parked, folder, json.dumps(place.options.to_json()), place.room, place.threads]
        fixed = {"OMP_NUM_THREADS": str(place.threads), **child_environment()}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "domainwise.sweeps.worker", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            encoding="utf-8",
            env={**os.environ, **fixed},
            start_new_session=os.name != "nt",  # Ctrl-C is ours to pass on
        )
        threading.Thread(target=self._listen, args=(heard,), daemon=True).start()

    def takes(self, one: Given) -> bool:
        """Return whether there is room for a trial beside those that are here, and they can share the process."""
        others = self.given.values()
        if not others:
            return True
        apart = one.alone or any(other.alone or other.trial.precision != one.trial.precision for other in others)
        return len(others) < self.place.most and not apart

    def give(self, one: Given) -> None:
        self.given[one.trial.id] = one
        if self.waking:  # a process that never comes up is overdue as well
            self._set_deadline(one)
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has died: the listener says so
            self.process.stdin.write(json.dumps(one.trial.to_json()) + "\n")
            self.process.stdin.flush()

    def come_up(self) -> None:
        """Note that the process has read the data: from now on, time is that of trials."""
        self.ready = True
        for one in self.given.values():
            self._set_deadline(one)

    def alive(self, one: Given) -> None:
        """Note a sign of life of a trial, whose time counts from the first of them."""
        if self.waking:
            self.waking = False
            for other in self.given.values():
                other.deadline = None
        if one.deadline is None:
            self._set_deadline(one)

    def overdue(self) -> bool:
        ends = [one.deadline for one in self.given.values() if one.deadline is not None]
        return bool(ends) and time.monotonic() >= min(ends)

    def _set_deadline(self, one: Given) -> None:
        limit = self.timeout if self.timeout is None or self.ready else max(self.timeout, STARTING)
        one.deadline = None if limit is None else time.monotonic() + limit

    def stop(self) -> None:
        with suppress(OSError):
            self.process.kill()
        self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().strip().splitlines()
        self.last_words = lines[-1] if lines else "it said nothing"
        for pipe in (self.process.stdin, self.process.stdout, self.errors):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()

    def _listen(self, heard: Heard) -> None:
        assert self.process.stdout is not None
        with suppress(ValueError, OSError):  # closed by stop()
            for line in self.process.stdout:
                heard.put((self, json.loads(line)))
        heard.put((self, None))


def main(parked: str, folder: str, options: str, at_once: str, threads: str) -> None:
    torch.set_num_threads(int(threads))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    sys.stdout = sys.stderr  # what an algorithm prints must not end up among the answers
    given: queue.Queue[str] = queue.Queue()
    threading.Thread(target=listen, args=(given,), daemon=True).start()
    data = Domains.open(Path(parked))

    def say(message: Message) -> None:
        with suppress(BrokenPipeError):  # the one that gives the trials is no more: what runs is saved, by `listen`
            answers.write(json.dumps(message) + "\n")
            answers.flush()

    say({"ready": True})
    many: Many = "auto" if at_once == "auto" else int(at_once)
    try:
        # Whoever shuts a machine down may tell every process, and the driver tells this one too: once is enough.
        with listening(again=lambda number: None):
            run_packed(
                trials(given),
                data,
                Path(folder),
                at_once=many,
                options=RunOptions.from_json(json.loads(options)),
                watch=lambda trial, event: say(cast(Message, {"id": trial.id, **event})),
            )
    except InputError as error:  # nothing that one trial is to blame for
        say({"wrong": str(error)})


def trials(given: queue.Queue[str]) -> Iterator[Trial | None]:
    """Yield the trials that this process is given, until somebody asks to stop."""
    while not stop_requested():
        try:
            yield Trial.from_json(json.loads(given.get(timeout=LOOK)))
        except queue.Empty:
            yield None


def listen(given: queue.Queue[str]) -> None:
    """End the process, in the middle of a trial if need be, when the one that gives the trials is no more."""
    for line in sys.stdin:
        given.put(line)
    os.kill(os.getpid(), signal.SIGTERM)  # a trial that can put itself aside does so
    time.sleep(GRACE)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
