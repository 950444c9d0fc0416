"""Run trials in this process: each claimed, so that no other takes it, and several side by side on one GPU."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Literal

import torch

from domainwise.acceleration.shared_device import one_thread, with_device_lock
from domainwise.data.domains import Domains
from domainwise.errors import InputError
from domainwise.experiment.output_folder import ended, served
from domainwise.experiment.records import Event
from domainwise.experiment.trial import Trial
from domainwise.files import LOCK, exists, lock_trial, names_in
from domainwise.sweeps.claims import Claim, Lost, at_work
from domainwise.training.checkpoint_files import clear
from domainwise.training.run_options import RunOptions
from domainwise.training.run_trial import Watch, execute
from domainwise.training.signals import ask_to_stop, listening


def work(trial: Trial, data: Domains, folder: Path, options: RunOptions, watch: Watch) -> Event:
    """Run a trial unless it has ended already, or another process is at it.

    Returns an event: {"result": ...}, with "elsewhere" where another process came to it; or {"taken": True}.
    """
    path = folder / "trials" / trial.id
    claim = Claim(folder, trial)
    if not claim.take():
        result = served(path, trial)
        return {"result": result, "elsewhere": True} if result else {"taken": True}

    def listen(trial: Trial, event: Event) -> None:
        claim.heard(event)
        watch(trial, event)

    with claim:
        if result := served(path, trial):  # since the driver looked
            return {"result": result, "elsewhere": True}
        watch(trial, {"step": 0})
        with suppress(Lost):
            return {"result": execute(trial, data, path, options, watch=listen)}
    return {"taken": True}


class _Busy(Exception):  # noqa: N818  a finding
    """Somebody is at the trial."""


def tidy(folder: Path) -> list[str]:
    """Take away the locks, claims and checkpoints of trials in an output folder that have ended and nobody is at.

    A process that was killed right after it had published a result leaves them. Returns the ids of these trials.
    """
    with suppress(OSError):
        trials, claimed = folder / "trials", {*names_in(folder / "claims")}
        ids = [id for id in names_in(trials) if id in claimed or exists(trials / id / LOCK)]
        return [id for id in ids if _tidied(trials / id, folder / "claims" / id)]
    return []


def _tidied(home: Path, claim: Path) -> bool:
    with suppress(OSError, InputError, _Busy):  # what cannot be read just now is left for later
        result = ended(home, certain=True)
        if result is None or at_work(claim):
            return False
        with lock_trial(home, _busy):
            if result["status"] in ("finished", "diverged"):  # one that failed can go on from its checkpoint
                clear(home)
        claim.unlink(missing_ok=True)
        return True
    return False


def _busy(sentence: str) -> None:
    raise _Busy(sentence)


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
