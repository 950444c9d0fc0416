"""Run several trials on one device at once: while one waits for its small kernels, another has work for it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Literal

import torch

from domainwise.acceleration.shared_device import one_thread, with_device_lock
from domainwise.data.domains import Domains
from domainwise.errors import InputError
from domainwise.experiment.records import Event
from domainwise.experiment.trial import Trial
from domainwise.sweeps.work import work
from domainwise.training.run_options import RunOptions
from domainwise.training.run_trial import Watch
from domainwise.training.signals import ask_to_stop, listening

Many = int | Literal["auto"]

AT_MOST = 4  # of "auto": more of them do not make a large GPU faster (docs/performance.md)
SETTLED = 10  # updates after which a trial has taken all the memory it will take
SPARED = 0.2  # of the memory that is free then, for evaluations and for others


def run_packed(
    trials: Iterable[Trial | None],
    data: Domains,
    folder: Path,
    *,
    at_once: Many = 4,
    options: RunOptions = RunOptions(device="cuda"),  # noqa: B008  frozen
    watch: Watch = lambda trial, event: None,
) -> None:
    """Run trials in threads of this process, ``at_once`` of them side by side, each on a stream of its own.

    Each comes out as it would alone, and what goes wrong in one ends only that one. "auto" is as many as fit into the
    memory, judging from the first one. Trials that draw from torch's global generator while they train (dropout) would
    disturb each other and are refused.
    """
    waiting, room, lock = Waiting(trials, alone=at_once == 1), Room(at_once, options.device), threading.Lock()
    errors: list[BaseException] = []

    def tell(trial: Trial, event: Event) -> None:
        room.heard(event)
        with lock:
            watch(trial, event)

    def keep_running(place: int) -> None:
        try:
            with own_stream(options.device):
                if room.admits(place):
                    for trial in waiting:
                        tell(trial, work(trial, data, folder, options, tell))
                        if torch.device(options.device).type != "cpu":
                            with_device_lock(gc.collect)  # a network and its replaced forwards hold each other
        except BaseException as error:  # not of a trial, which would be its result: a full disk, a device that is lost
            errors.append(error)
            waiting.closed = True
            ask_to_stop()
            room.known.set()

    with listening(), one_thread() if room.most > 1 else nullcontext():
        side_by_side(keep_running, room.most)
        if errors:
            raise errors[0]


def side_by_side(run: Callable[[int], None], many: int) -> None:
    """Call a function with every number below ``many``: once in this thread, which hears signals, else in others."""
    threads = [threading.Thread(target=run, args=(place,), daemon=True) for place in range(1, many)]
    for thread in threads:
        thread.start()
    run(0)
    for thread in threads:
        thread.join()


def own_stream(device: str) -> AbstractContextManager[object]:
    if torch.device(device).type != "cuda":
        return nullcontext()
    return torch.cuda.stream(torch.cuda.Stream(device))  # type: ignore[no-untyped-call]


class Waiting(Iterator[Trial]):
    """Give one trial to each who asks, in turn. None among them means that there is none yet."""

    def __init__(self, trials: Iterable[Trial | None], alone: bool) -> None:
        if isinstance(trials, Sequence) and not alone:
            check(trials)
        self.trials, self.lock, self.closed = iter(trials), threading.Lock(), False

    def __next__(self) -> Trial:
        with self.lock:
            while not self.closed:
                trial = next(self.trials)
                if trial is not None:
                    return trial
        raise StopIteration


def check(trials: Sequence[Trial]) -> None:
    """Refuse trials that cannot share a process."""
    if any(trial.dropout for trial in trials):
        raise InputError(
            "trials with dropout cannot share a process: their random numbers would mix; run them one by one"
        )
    if len({trial.precision for trial in trials}) > 1:
        raise InputError("trials of different precision cannot share a process, which has one setting for all")


class Room:
    """Decide how many trials run at once; with "auto" only one, until it is known how much memory that takes."""

    def __init__(self, at_once: Many, device: str) -> None:
        self.device, self.most = device, AT_MOST if at_once == "auto" else at_once
        self.known, self.admitted = threading.Event(), self.most
        if at_once == "auto":
            self.before = self._free()
        else:
            self.known.set()

    def admits(self, place: int) -> bool:
        if place:
            self.known.wait()
        return place < self.admitted

    def heard(self, event: Event) -> None:
        if not self.known.is_set() and (event.get("step", 0) >= SETTLED or "result" in event or "taken" in event):
            self.admitted = fitting(self.before, self._free(), self.most)
            self.known.set()

    def _free(self) -> int:
        return torch.cuda.mem_get_info(self.device)[0] if torch.device(self.device).type == "cuda" else 0


def fitting(before: int, after: int, most: int) -> int:
    """Return how many trials fit, from the bytes that were free before the first and while it runs."""
    taken = before - after
    return most if taken <= 0 else min(most, 1 + int((1 - SPARED) * after / taken))
