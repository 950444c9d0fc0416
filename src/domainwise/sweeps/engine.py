"""Run trials in this process, in several on this machine, or (in ray_engine.py) on a cluster."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import torch

from domainwise.data.domains import Domains
from domainwise.errors import InputError
from domainwise.experiment.output_folder import served
from domainwise.experiment.records import Event
from domainwise.experiment.settings import number, whole
from domainwise.experiment.trial import Trial
from domainwise.machine import check_count, processes_for, threads_for
from domainwise.sweeps.claims import Claims
from domainwise.sweeps.in_process import Many, work
from domainwise.sweeps.worker import Place
from domainwise.sweeps.worker_pool import Processes
from domainwise.training.frozen import compute_ahead
from domainwise.training.result import failed
from domainwise.training.run_options import RunOptions
from domainwise.training.run_trial import DeviceLost, Watch

LONGEST = 10**8  # seconds: three years
LOOK = 0.5  # seconds between two looks at what others are doing


class Runs(Protocol):
    """An engine: it sees to it that every trial comes to its end."""

    @property
    def options(self) -> RunOptions:
        """Return the options of every run."""

    @property
    def at_once(self) -> int:
        """Return how many trials run side by side."""

    def run(self, trials: Sequence[Trial], data: Domains, folder: Path, watch: Watch) -> None:
        """Run all of them, each into ``folder/trials/<id>``; at the end of each ``watch`` hears {"result": ...}.

        Others may be at work in the same folder: what they come to first is heard with "elsewhere" beside it.
        """


@dataclass(frozen=True)
class Engine:
    """Run trials one by one here, in processes on a CPU, or several side by side in one process for each GPU.

    Threads are per process, and 1 gives the same numbers whatever else is going on. Where there are several trials for
    a GPU, or a timeout, they are in processes of their own: those can be ended, and a device error ends only them.
    """

    options: RunOptions = RunOptions()  # its device "cuda" is all GPUs
    processes: int = 1  # on a CPU
    threads: int = 1
    per_gpu: Many = 1
    timeout: float | None = None
    retries: int | None = None  # of a trial whose process has died; None is RETRIES
    here: bool = False  # run all in this process, for algorithms that no other knows

    def __post_init__(self) -> None:
        check_count("processes", self.processes)
        check_count("threads", self.threads)
        if self.per_gpu != "auto":
            check_count("per_gpu", self.per_gpu)
        if self.timeout is not None and not (number(self.timeout) and 0 < self.timeout <= LONGEST):
            raise InputError(f"timeout is in seconds, above 0 and up to {LONGEST:,}, got {self.timeout!r}")
        if self.retries is not None and not whole(self.retries, least=0):
            raise InputError(f"retries says how many, so 0 or more, got {self.retries!r}")

    @property
    def places(self) -> list[Place]:
        if not self._on_gpu:
            return [Place(self.options, 1, self.threads)] * self.processes
        one = torch.device(self.options.device).index is not None
        devices = [self.options.device] if one else [f"cuda:{i}" for i in range(torch.cuda.device_count())]
        return [Place(replace(self.options, device=device), self.per_gpu, self.threads) for device in devices]

    @property
    def at_once(self) -> int:
        """How many trials run at once. At least one: the GPUs of a cluster are not seen from everywhere."""
        return max(1, sum(place.most for place in self.places))

    def run(self, trials: Sequence[Trial], data: Domains, folder: Path, watch: Watch) -> None:
        run_shared(trials, folder, watch, lambda free, hear: self._some(free, data, folder, hear))

    def _some(self, trials: Sequence[Trial], data: Domains, folder: Path, watch: Watch) -> None:
        apart = self.timeout is not None or (len(trials) > 1 and (self._on_gpu or self.processes > 1))
        if apart and not self.here:
            if not self._on_gpu:
                compute_ahead(trials, data, self.options, lambda sentence: watch(trials[0], {"note": sentence}))
            Processes(self.places, data, folder, watch, self.timeout, self.retries).run(trials)
        else:
            self._here(trials, data, folder, watch)

    def _here(self, trials: Sequence[Trial], data: Domains, folder: Path, watch: Watch) -> None:
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            for trial in trials:
                watch(trial, self._one(trial, data, folder, watch))
                if self._on_gpu:
                    gc.collect()  # a network and how its modules compute hold each other, and memory of the GPU
        finally:
            torch.set_num_threads(before)

    def _one(self, trial: Trial, data: Domains, folder: Path, watch: Watch) -> Event:
        try:
            return work(trial, data, folder, self.options, watch)
        except DeviceLost as error:
            return {"result": failed(folder, trial, str(error), self.options.device)}

    @property
    def _on_gpu(self) -> bool:
        return torch.device(self.options.device).type != "cpu"


def run_shared(
    trials: Sequence[Trial], folder: Path, watch: Watch, run: Callable[[Sequence[Trial], Watch], None]
) -> None:
    """Run those that nobody is at, and wait for the others, until all of them have ended."""
    left = {trial.id: trial for trial in trials}
    claims = Claims(folder)

    def hear(trial: Trial, event: Event) -> None:
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
            if result := served(folder / "trials" / trial.id, trial):
                hear(trial, {"result": result, "elsewhere": True})


def largest(trials: Sequence[Trial]) -> str:
    """Return the network that takes most to train; where all train heads on frozen features, a linear one."""
    return next((trial.network for trial in trials if trial.features == "trained"), "linear")


def runs_for(
    network: str,
    options: RunOptions,
    *,
    processes: int | None = None,
    threads: int | None = None,
    per_gpu: Many = "auto",
    timeout: float | None = None,
    retries: int | None = None,
    engine: str = "local",
    address: str | None = None,
    in_memory: Sequence[str] = (),
) -> Runs:
    """Return the engine that runs trials as they are asked for, and what suits this machine where nothing is said.

    ``in_memory`` names algorithms that are classes of this program and lie in no file: their trials run here.
    """
    if in_memory and (processes not in (None, 1) or timeout is not None or engine == "ray"):
        raise InputError(
            f"{', '.join(in_memory)} was defined in this program and lies in no file, so that no other process can run "
            "it: leave out processes, timeout and engine, or write it into a file and name that as file.py:Class"
        )
    if address is not None and engine != "ray":
        raise InputError("the address is of a Ray cluster: ask for the engine ray too, or leave it out")
    if processes is not None and options.device != "cpu":
        raise InputError("processes are for a CPU; on a GPU, per_gpu says how many trials run side by side")
    threads = check_count("threads", threads_for(network) if threads is None else threads)
    processes = processes_for(options.device, threads) if processes is None else processes
    many = 1 if in_memory else processes
    local = Engine(options, many, threads, per_gpu, timeout, retries, here=bool(in_memory))
    if engine == "local":
        return local
    from domainwise.sweeps.ray_engine import RayEngine

    return RayEngine(local, address)
