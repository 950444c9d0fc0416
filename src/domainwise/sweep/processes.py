"""Processes on this machine that run one trial after another, and are replaced when they die."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from domainwise.data.domains import Domains
from domainwise.sweep.claims import Claims
from domainwise.sweep.execute import Watch, result_of
from domainwise.sweep.folder import failed
from domainwise.trial import Trial

if TYPE_CHECKING:
    from domainwise.sweep.engine import Engine

ATTEMPTS = 2  # a process that was killed in the middle of a trial does not tell whether the trial is to blame
GRACE = 10.0  # seconds for a trial to put itself aside when everything stops


class Processes:
    """As many workers as the engine says, each given the next trial when it has done with one."""

    def __init__(self, engine: Engine, data: Domains, folder: Path, watch: Watch) -> None:
        self.engine, self.data, self.folder, self.watch = engine, data, folder, watch
        self.waiting: deque[tuple[Trial, int]] = deque()
        self.heard: queue.Queue[tuple[Worker, dict[str, Any] | None]] = queue.Queue()
        self.workers: set[Worker] = set()

    def run(self, trials: Sequence[Trial]) -> None:
        self.waiting.extend((trial, 1) for trial in trials)
        with ExitStack() as stack:
            parked = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="domainwise-")))
            stack.callback(self._stop)
            self.data.save(parked)
            for _ in range(min(self.engine.processes, len(trials))):
                self._start(parked)
            while any(worker.trial for worker in self.workers):
                self._hear(parked)

    def _stop(self) -> None:
        for worker in self.workers:
            worker.process.terminate()
        for worker in self.workers:
            with suppress(subprocess.TimeoutExpired):
                worker.process.wait(GRACE)
            worker.stop()

    def _start(self, parked: Path) -> None:
        engine = self.engine
        how = [engine.device, json.dumps(asdict(engine.fast)), json.dumps(engine.keep), str(engine.threads)]
        worker = Worker([str(parked), str(self.folder), *how], self.heard, engine.timeout)
        self.workers.add(worker)
        self._next(worker)

    def _next(self, worker: Worker) -> None:
        worker.trial = None
        if self.waiting:
            worker.give(*self.waiting.popleft())

    def _hear(self, parked: Path) -> None:
        for late in [worker for worker in self.workers if worker.overdue()]:
            self._replace(late, parked, f"it took longer than {self.engine.timeout:g} s and was ended")
        try:
            worker, event = self.heard.get(timeout=self._patience())
        except queue.Empty:
            return
        trial = worker.trial
        if trial is None or worker not in self.workers:
            return
        if event is None:
            self._replace(worker, parked, None)
            return
        worker.alive()
        self.watch(trial, event)
        if "result" in event or "taken" in event:
            self._next(worker)

    def _patience(self) -> float | None:
        """Seconds until the first trial is overdue."""
        ends = [worker.deadline for worker in self.workers if worker.trial and worker.deadline is not None]
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _replace(self, worker: Worker, parked: Path, reason: str | None) -> None:
        """After the end of a process: its trial once more, unless there is a reason not to."""
        trial, words = worker.trial, worker.last_words()
        assert trial is not None
        self.workers.remove(worker)
        worker.stop()
        Claims(self.folder).free(trial.id)  # of the process that is no more
        if reason is None and worker.attempt < ATTEMPTS:
            self.waiting.append((trial, worker.attempt + 1))
        else:
            code = worker.process.returncode
            self._fail(trial, reason or f"its process ended {ATTEMPTS} times in the middle (exit code {code}): {words}")
        self._start(parked)

    def _fail(self, trial: Trial, message: str) -> None:
        result = result_of(trial, "failed", message, 0, [], 0.0, self.engine.device)
        self.watch(trial, {"result": failed(self.folder, trial, result)})


class Worker:
    """A process that is given lines of JSON and answers with lines of JSON."""

    def __init__(self, arguments: list[str], heard: queue.Queue[Any], timeout: float | None) -> None:
        self.trial: Trial | None = None
        self.attempt = 0
        self.timeout, self.waking = timeout, True
        self._set_deadline()
        self.errors: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed in stop()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "domainwise.sweep.worker", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            encoding="utf-8",
            env={**os.environ, "OMP_NUM_THREADS": arguments[-1], "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=os.name != "nt",  # Ctrl-C is ours to pass on
        )
        threading.Thread(target=self._listen, args=(heard,), daemon=True).start()

    def give(self, trial: Trial, attempt: int) -> None:
        self.trial, self.attempt = trial, attempt
        self._set_deadline()
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has died: the listener says so
            self.process.stdin.write(json.dumps(trial.to_json()) + "\n")
            self.process.stdin.flush()

    def alive(self) -> None:
        """The time of a first trial counts from when the process has started up."""
        if self.waking:
            self.waking = False
            self._set_deadline()

    def overdue(self) -> bool:
        return self.trial is not None and self.deadline is not None and time.monotonic() >= self.deadline

    def _set_deadline(self) -> None:
        self.deadline: float | None = None if self.timeout is None else time.monotonic() + self.timeout

    def last_words(self) -> str:
        self.errors.seek(0)
        lines = self.errors.read().strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def stop(self) -> None:
        with suppress(OSError):
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.errors):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()

    def _listen(self, heard: queue.Queue[Any]) -> None:
        assert self.process.stdout is not None
        with suppress(ValueError, OSError):  # closed by stop()
            for line in self.process.stdout:
                heard.put((self, json.loads(line)))
        heard.put((self, None))
