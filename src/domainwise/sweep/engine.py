"""Who runs the trials: this process, several on this machine, or (in ray.py) those of a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from domainwise.capture import Fast
from domainwise.data.domains import Domains
from domainwise.sweep.claims import Claims
from domainwise.sweep.execute import Watch
from domainwise.sweep.folder import ended
from domainwise.sweep.pack import run_packed
from domainwise.sweep.processes import Processes
from domainwise.sweep.work import work
from domainwise.trial import Trial

LOOK = 0.5  # seconds between two looks at what others are doing


class Runs(Protocol):
    """What an engine is: something that sees to it that every trial comes to its end."""

    def run(self, trials: Sequence[Trial], data: Domains, folder: Path, watch: Watch) -> None:
        """Run all of them, each into ``folder/trials/<id>``; at the end of each ``watch`` hears {"result": ...}.

        Others may be at work in the same folder: what they come to first is heard with "elsewhere" beside it.
        """


@dataclass(frozen=True)
class Engine:
    """How trials are run: one by one, in processes on a CPU, or side by side in one process on a GPU.

    Threads are per process, and 1 gives the same numbers whatever else is going on. With a timeout every trial is in a
    process that can be ended.
    """

    processes: int = 1
    threads: int = 1
    device: str = "cpu"
    fast: Fast = Fast()
    keep: bool = True
    timeout: float | None = None

    def run(self, trials: Sequence[Trial], data: Domains, folder: Path, watch: Watch) -> None:
        run_shared(trials, folder, watch, lambda free, hear: self._some(free, data, folder, hear))

    def _some(self, trials: Sequence[Trial], data: Domains, folder: Path, watch: Watch) -> None:
        if self.timeout is not None or (self.device == "cpu" and self.processes > 1 and len(trials) > 1):
            Processes(self, data, folder, watch).run(trials)
        elif self.processes > 1 and len(trials) > 1:
            self._packed(trials, data, folder, watch)
        else:
            self._here(trials, data, folder, watch)

    def _here(self, trials: Sequence[Trial], data: Domains, folder: Path, watch: Watch) -> None:
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            for trial in trials:
                watch(trial, work(trial, data, folder, device=self.device, fast=self.fast, keep=self.keep, watch=watch))
        finally:
            torch.set_num_threads(before)

    def _packed(self, trials: Sequence[Trial], data: Domains, folder: Path, watch: Watch) -> None:
        """Those that draw random numbers while they train would disturb each other, and run by themselves."""
        together = [trial for trial in trials if not trial.dropout]
        run_packed(
            together, data, folder, at_once=self.processes, device=self.device, fast=self.fast, keep=self.keep,
            watch=watch,
        )  # fmt: skip
        self._here([trial for trial in trials if trial.dropout], data, folder, watch)


def run_shared(
    trials: Sequence[Trial], folder: Path, watch: Watch, run: Callable[[Sequence[Trial], Watch], None]
) -> None:
    """Run those that nobody is at, and wait for the others, until all of them have ended."""
    left = {trial.id: trial for trial in trials}
    claims = Claims(folder)

    def hear(trial: Trial, event: dict[str, Any]) -> None:
        if "result" in event and left.pop(trial.id, None) is None:
            return
        if "taken" not in event:
            watch(trial, event)

    while left:
        free = [trial for trial in left.values() if claims.free(trial.id)]
        if free:
            run(free, hear)
        else:
            time.sleep(LOOK)
        for trial in list(left.values()):
            if result := ended(folder / "trials" / trial.id):
                hear(trial, {"result": result, "elsewhere": True})
