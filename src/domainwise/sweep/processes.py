"""Processes on this machine that run trials as they are given them, and are replaced when they die."""

from __future__ import annotations

import queue
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

from domainwise.data.domains import Domains
from domainwise.sweep.claims import Claims
from domainwise.sweep.execute import Watch, result_of
from domainwise.sweep.folder import failed
from domainwise.sweep.given import GRACE, Given, Place, Worker
from domainwise.trial import Trial

ATTEMPTS = 2  # a process that was killed in the middle of a trial does not tell whether the trial is to blame


class Processes:
    """One worker for each place, given the next trials whenever it has room for them."""

    def __init__(
        self, places: Sequence[Place], data: Domains, folder: Path, watch: Watch, timeout: float | None = None
    ) -> None:
        self.places, self.data, self.folder, self.watch, self.timeout = places, data, folder, watch, timeout
        self.waiting: deque[Given] = deque()
        self.heard: queue.Queue[tuple[Worker, dict[str, Any] | None]] = queue.Queue()
        self.workers: set[Worker] = set()

    def run(self, trials: Sequence[Trial]) -> None:
        self.waiting.extend(Given(trial) for trial in trials)
        with ExitStack() as stack:
            parked = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="domainwise-")))
            stack.callback(self._stop)
            self.data.save(parked)
            for place in self.places[: len(trials)]:
                self._start(place, parked)
            while any(worker.given for worker in self.workers):
                self._hear(parked)

    def _stop(self) -> None:
        for worker in self.workers:
            worker.process.terminate()
        for worker in self.workers:
            with suppress(TimeoutExpired):
                worker.process.wait(GRACE)
            worker.stop()

    def _start(self, place: Place, parked: Path) -> None:
        worker = Worker(place, parked, self.folder, self.heard, self.timeout)
        self.workers.add(worker)
        self._fill(worker)

    def _fill(self, worker: Worker) -> None:
        for one in list(self.waiting):
            if worker.takes(one):
                self.waiting.remove(one)
                worker.give(one)

    def _hear(self, parked: Path) -> None:
        for worker in list(self.workers):
            if late := worker.overdue():
                self._replace(worker, parked, late)
        try:
            worker, event = self.heard.get(timeout=self._patience())
        except queue.Empty:
            return
        if worker not in self.workers:
            return
        if event is None:
            self._replace(worker, parked)
            return
        if (one := worker.given.get(event.pop("id"))) is None:
            return
        worker.alive(one)
        self.watch(one.trial, event)
        if "result" in event or "taken" in event:
            del worker.given[one.trial.id]
            self._fill(worker)

    def _patience(self) -> float | None:
        """Seconds until the first trial is overdue."""
        ends = [one.deadline for worker in self.workers for one in worker.given.values() if one.deadline is not None]
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _replace(self, worker: Worker, parked: Path, late: Given | None = None) -> None:
        """After the end of a process, or to end it: its trials once more, but not the one that took too long.

        Nobody knows which of several was to blame: each of them goes on by itself, so that it shows.
        """
        self.workers.remove(worker)
        worker.stop()
        for one in worker.given.values():
            Claims(self.folder).free(one.trial.id)  # of the process that is no more
            if one is late:
                self._fail(worker, one, f"it took longer than {self.timeout:g} s and was ended")
            elif late or one.attempt < ATTEMPTS:
                self.waiting.append(one.again(blamed=not late))
            else:
                code, words = worker.process.returncode, worker.last_words
                message = f"its process ended {ATTEMPTS} times in the middle (exit code {code}): {words}"
                self._fail(worker, one, message)
        if self.waiting:
            self._start(worker.place, parked)

    def _fail(self, worker: Worker, one: Given, message: str) -> None:
        result = result_of(one.trial, "failed", message, 0, [], 0.0, worker.place.how.device)
        self.watch(one.trial, {"result": failed(self.folder, one.trial, result)})
