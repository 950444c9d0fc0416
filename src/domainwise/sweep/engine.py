"""Who runs the trials: this process, or several on this machine."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import torch

from domainwise.capture import Fast
from domainwise.data.domains import Domains
from domainwise.records import publish
from domainwise.sweep.execute import Watch, execute, result_of
from domainwise.sweep.pack import run_packed
from domainwise.trial import Trial

ATTEMPTS = 2  # a process that was killed in the middle of a trial does not tell whether the trial is to blame


@dataclass(frozen=True)
class Engine:
    """How trials are run: one by one, in processes on a CPU, or side by side in one process on a GPU.

    Threads are per process, and 1 gives the same numbers whatever else is going on.
    """

    processes: int = 1
    threads: int = 1
    device: str = "cpu"
    fast: Fast = Fast()

    def run(self, trials: Sequence[Trial], data: Domains, folder: Path, watch: Watch) -> None:
        """Run all of them, each into ``folder/trials/<id>``; at the end of each ``watch`` hears {"result": ...}."""
        if self.processes == 1 or len(trials) < 2:
            self._here(trials, data, folder, watch)
        elif self.device != "cpu":
            run_packed(trials, data, folder, at_once=self.processes, device=self.device, fast=self.fast, watch=watch)
        else:
            self._in_processes(trials, data, folder, watch)

    def _here(self, trials: Sequence[Trial], data: Domains, folder: Path, watch: Watch) -> None:
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            for trial in trials:
                result = execute(
                    trial, data, folder / "trials" / trial.id, device=self.device, fast=self.fast, watch=watch
                )
                watch(trial, {"result": result})
        finally:
            torch.set_num_threads(before)

    def _in_processes(self, trials: Sequence[Trial], data: Domains, folder: Path, watch: Watch) -> None:
        with ExitStack() as stack:
            parked = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="domainwise-")))
            data.save(parked)
            waiting = deque((trial, 1) for trial in trials)
            heard: queue.Queue[tuple[Worker, dict[str, Any] | None]] = queue.Queue()
            workers = {self._worker(parked, folder, heard, stack) for _ in range(min(self.processes, len(trials)))}
            for worker in workers:
                worker.give(*waiting.popleft())
            while any(worker.trial for worker in workers):
                worker, event = heard.get()
                trial = worker.trial
                if trial is None:
                    continue
                if event is None:  # it died
                    workers.remove(worker)
                    self._after_death(worker, waiting, folder, watch)
                    worker = self._worker(parked, folder, heard, stack)
                    workers.add(worker)
                else:
                    watch(trial, event)
                    if "result" not in event:
                        continue
                worker.trial = None
                if waiting:
                    worker.give(*waiting.popleft())

    def _worker(self, parked: Path, folder: Path, heard: queue.Queue[Any], stack: ExitStack) -> Worker:
        worker = Worker(
            [str(parked), str(folder), self.device, json.dumps(asdict(self.fast)), str(self.threads)], heard
        )
        stack.callback(worker.stop)
        return worker

    def _after_death(self, worker: Worker, waiting: deque[tuple[Trial, int]], folder: Path, watch: Watch) -> None:
        trial, attempt = worker.trial, worker.attempt
        assert trial is not None
        if attempt < ATTEMPTS:
            waiting.append((trial, attempt + 1))
            return
        code, words = worker.process.wait(), worker.last_words()
        message = f"its process ended {ATTEMPTS} times in the middle (exit code {code}): {words}"
        result = result_of(trial, "failed", message, 0, [], 0.0, self.device)
        publish(folder / "trials" / trial.id / "result.json", result)
        watch(trial, {"result": result})


class Worker:
    """A process that runs one trial after another. It is given lines of JSON and answers with lines of JSON."""

    def __init__(self, arguments: list[str], heard: queue.Queue[Any]) -> None:
        self.trial: Trial | None = None
        self.attempt = 0
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
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has died: the listener says so
            self.process.stdin.write(json.dumps(trial.to_json()) + "\n")
            self.process.stdin.flush()

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
