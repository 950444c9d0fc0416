"""Show how far trials are: live bars on a terminal, a line for each that ends elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from domainwise.errors import legible, sentence
from domainwise.experiment.records import Event, Result
from domainwise.machine import human_duration
from domainwise.sweeps.status import describe
from domainwise.terminal import console, plain_streams

if TYPE_CHECKING:
    from domainwise.experiment.trial import Trial


def display(trials: int, *, quiet: bool) -> Silence | Bars:
    if quiet:
        return Silence()
    return Bars(trials) if sys.stderr.isatty() else Lines(trials)


class Silence:
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def watch(self, trial: Trial, event: Event) -> None:
        pass


class Lines(Silence):
    """One line for every trial that ends, on standard error."""

    def __init__(self, trials: int) -> None:
        self.trials, self.ended, self.started = trials, 0, time.perf_counter()
        self.running: dict[str, float] = {}  # how much of each is done

    def watch(self, trial: Trial, event: Event) -> None:
        if "step" in event:
            self.running[trial.id] = event["step"] / trial.steps
        if "note" in event:
            print(event["note"], file=sys.stderr, flush=True)
        if "result" in event:
            self.ended += 1
            self.running.pop(trial.id, None)
            done = self.ended + sum(self.running.values())  # those side by side are nearly done when the first ends
            left = (time.perf_counter() - self.started) / done * (self.trials - done)
            by = " by another process" if "elsewhere" in event else ""
            about = f"{describe(trial)}: {told(event['result'])}{by}"
            line = f"[{self.ended}/{self.trials}] {about}, about {human_duration(round(left))} left"
            print(line, file=sys.stderr, flush=True)


class Bars:
    """A bar for the whole and one for each trial that is running: rate, time left, current validation."""

    def __init__(self, trials: int) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(elapsed_when_finished=False),
            TextColumn("{task.fields[note]}", markup=False),
            console=console(stderr=True),
            transient=True,
            redirect_stdout=sys.stdout.isatty(),  # what goes to a file goes there
        )
        self.all = self.progress.add_task("all trials", total=trials, note="")
        self.tasks: dict[str, Any] = {}
        self.started: dict[str, float] = {}
        self.failed, self.open = 0, ExitStack()

    def __enter__(self) -> Self:
        self.progress.start()
        self.open.enter_context(plain_streams())  # past those of the bars, which obey
        return self

    def __exit__(self, *error: object) -> None:
        self.open.close()
        self.progress.stop()

    def watch(self, trial: Trial, event: Event) -> None:
        if "elsewhere" in event:
            self.progress.advance(self.all)
            return
        if trial.id not in self.tasks:
            self.tasks[trial.id] = self.progress.add_task(legible(describe(trial)), total=trial.steps, note="")
            self.started[trial.id] = time.perf_counter()
        task = self.tasks[trial.id]
        if "result" in event:
            self.progress.remove_task(task)
            self.progress.advance(self.all)
            if event["result"]["status"] != "finished":
                self.failed += 1
                self.progress.update(self.all, note=f"{self.failed} failed")
                self.progress.console.print(sentence(f"{describe(trial)}: {told(event['result'])}"), markup=False)
            return
        if "note" in event:
            self.progress.console.print(sentence(event["note"]), markup=False)
            return
        self.progress.update(task, completed=event["step"])
        if "validation" in event:
            rate = event["step"] / max(time.perf_counter() - self.started[trial.id], 1e-9)
            self.progress.update(task, note=f"{rate:.0f} updates/s, validation {event['validation']:.1%}")


def told(result: Result) -> str:
    if result["status"] != "finished":
        return f"{result['status']}: {result['message']}"
    selected = result["selected"] or {}
    target, validation = selected["target"], f"validation {selected['validation']:.1%}"
    return f"{validation if target is None else f'{target:.1%} ({validation})'} in {result['seconds']:.1f} s"
