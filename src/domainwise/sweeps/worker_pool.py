"""Run trials in processes on this machine, which are replaced when they die."""

from __future__ import annotations

import os
import queue
import shutil
import stat
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from subprocess import TimeoutExpired

from domainwise.data.domains import Domains
from domainwise.errors import InputError
from domainwise.experiment.trial import Trial
from domainwise.files import LOCK, locked
from domainwise.sweeps.claims import Claims
from domainwise.sweeps.status import describe
from domainwise.sweeps.worker import GRACE, LOOK, Given, Heard, Place, Worker
from domainwise.training.checkpoint_files import saved
from domainwise.training.result import failed
from domainwise.training.run_trial import Watch
from domainwise.training.signals import Stopped, asked_again, at_once, listening, stop_requested

TOLD = 4  # trials that are named when all is stopped
STARTS = 4  # a process that was killed before it was ready may have been killed by accident
RETRIES = 1  # a process that was killed in the middle of a trial does not tell whether the trial is to blame


class Processes:
    """Keep one worker for each place, and give it the next trials whenever it has room for them."""

    def __init__(
        self,
        places: Sequence[Place],
        data: Domains,
        folder: Path,
        watch: Watch,
        timeout: float | None = None,
        retries: int | None = None,
    ) -> None:
        self.retries = RETRIES if retries is None else retries
        self.places, self.data, self.folder, self.watch, self.timeout = places, data, folder, watch, timeout
        self.waiting: deque[Given] = deque()
        self.heard: Heard = queue.Queue()
        self.workers: set[Worker] = set()
        self.false_starts = 0  # in a row

    def run(self, trials: Sequence[Trial]) -> None:
        self.waiting.extend(Given(trial) for trial in trials)
        with listening(again=at_once), parked_data(self.data) as parked, ExitStack() as stack:
            stack.callback(self._stop)
            for place in self.places[: len(trials)]:
                if not stop_requested():
                    self._start(place, parked)
            while any(worker.given for worker in self.workers) and not stop_requested():
                self._hear(parked)
            if number := stop_requested():
                self._put_aside(number)

    def _stop(self) -> None:
        """End all processes; what they are at is saved first, unless somebody does not want to wait for that."""
        for worker in self.workers:
            worker.process.terminate()
        end = time.monotonic() + GRACE
        for worker in self.workers:
            with suppress(TimeoutExpired):
                worker.process.wait(0 if asked_again() else max(0.0, end - time.monotonic()))
            worker.stop()

    def _put_aside(self, number: int) -> None:
        trials = [one.trial for worker in self.workers for one in worker.given.values()]
        self._stop()
        self.workers.clear()
        under_way = [f"{describe(trial)} ({self._saved(trial)})" for trial in trials]
        more = f" and {len(under_way) - TOLD} more" if len(under_way) > TOLD else ""
        told = f": {'; '.join(under_way[:TOLD])}{more}" if under_way else ""
        stopped = Stopped(f"stopped{told}. Start the same command again to go on from there", number)
        print(stopped.sentence, file=sys.stderr, flush=True)
        raise stopped

    def _saved(self, trial: Trial) -> str:
        with suppress(OSError):
            home = self.folder / "trials" / trial.id
            if (home / "result.json").exists():
                return "has ended"
            for newest in saved(home)[:1]:
                return f"saved after {int(newest.name.rpartition('-')[2])} of {trial.steps} updates"
        return "nothing saved yet"

    def _start(self, place: Place, parked: Path) -> None:
        try:
            worker = Worker(place, parked, self.folder, self.heard, self.timeout)
        except OSError as error:
            raise InputError(f"no process can be started for the trials: {error.strerror or error}") from error
        self.workers.add(worker)
        self._fill(worker)

    def _fill(self, worker: Worker) -> None:
        for one in list(self.waiting):
            if worker.takes(one):
                self.waiting.remove(one)
                worker.give(one)

    def _hear(self, parked: Path) -> None:
        for worker in list(self.workers):
            if worker.overdue():
                self._replace(worker, parked, late=True)
        try:
            worker, event = self.heard.get(timeout=min(self._patience(), LOOK))
        except queue.Empty:
            return
        if worker not in self.workers:
            return
        if event is None:
            self._replace(worker, parked)
            return
        if "wrong" in event:
            raise InputError(event["wrong"])
        if "ready" in event:
            worker.come_up()
            self.false_starts = 0
            return
        if (one := worker.given.get(event.pop("id"))) is None:
            return
        worker.alive(one)
        self.watch(one.trial, event)
        if "result" in event or "taken" in event:
            del worker.given[one.trial.id]
            self._fill(worker)

    def _patience(self) -> float:
        """Seconds until the first trial is overdue."""
        ends = [one.deadline for worker in self.workers for one in worker.given.values() if one.deadline is not None]
        return max(0.0, min(ends) - time.monotonic()) if ends else LOOK

    def _replace(self, worker: Worker, parked: Path, late: bool = False) -> None:
        """After the end of a process, or to end one that takes too long: its trials once more.

        Nobody knows which of several was to blame: each of them goes on by itself, so that it shows.
        """
        self.workers.remove(worker)
        worker.stop()
        alone = len(worker.given) == 1
        for one in worker.given.values():
            Claims(self.folder).free(one.trial.id)  # of the process that is no more
            if not worker.ready:
                self.waiting.append(replace(one, deadline=None))
            elif late and alone:
                self._fail(worker, one, f"it took longer than {self.timeout:g} s and was ended")
            elif one.attempt <= self.retries:
                self.waiting.append(one.again())
            else:
                code, words = worker.process.returncode, worker.last_words
                often = "once" if one.attempt == 1 else f"{one.attempt} times"
                message = f"its process ended {often} in the middle (exit code {code}): {words}"
                self._fail(worker, one, message)
        if not worker.ready:
            self._not_started(worker, late)
        if self.waiting:
            self._start(worker.place, parked)

    def _not_started(self, worker: Worker, late: bool) -> None:
        """No trial is to blame for a process that never got to one."""
        self.false_starts += 1
        if self.false_starts < STARTS:
            return
        ended = "did not come up in time" if late else f"ended at once (exit code {worker.process.returncode})"
        raise InputError(
            f"no process can be started for the trials: {STARTS} in a row {ended}: {worker.last_words}. Nothing was "
            "written down against a trial: when that has been put right, the same command goes on"
        )

    def _fail(self, worker: Worker, one: Given, message: str) -> None:
        self.watch(one.trial, {"result": failed(self.folder, one.trial, message, worker.place.options.device)})


PREFIX, DATA = "domainwise-", "data"


@contextmanager
def parked_data(data: Domains) -> Iterator[Path]:
    """Put the data into a folder below the system's temporary one, after removing those of killed processes."""
    with suppress(OSError):
        remove_abandoned(Path(tempfile.gettempdir()))
    with (
        tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as home,
        locked(Path(home) / LOCK, waiting=lambda: None),
    ):
        data.save(Path(home) / DATA)
        yield Path(home) / DATA


def remove_abandoned(folder: Path) -> None:
    """Remove the user's own folders of data that nobody holds any more; who has such data mapped keeps them."""
    if sys.platform == "win32":  # pragma: no cover  nothing is held there
        return
    for home in folder.glob(f"{PREFIX}*"):
        with suppress(OSError):  # it is gone, or another process holds it
            about = home.lstat()
            own = stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid()
            # A folder gets its data after its lock is held, and loses its lock before its data.
            if own and (home / LOCK).is_file() and (home / DATA).is_dir():
                with locked(home / LOCK) as certain:
                    if certain:
                        shutil.rmtree(home, ignore_errors=True)
