"""What a person sees while trials run: live bars on a terminal, a line per trial elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from domainwise.trial import Trial


def display(trials: int, *, quiet: bool) -> Silence | Bars:
    if quiet:
        return Silence()
    return Bars(trials) if sys.stderr.isatty() else Lines(trials)


class Silence:
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def watch(self, trial: Trial, event: dict[str, Any]) -> None:
        pass


class Lines(Silence):
    """One line for every trial that ends, on standard error."""

    def __init__(self, trials: int) -> None:
        self.trials, self.ended, self.started = trials, 0, time.perf_counter()

    def watch(self, trial: Trial, event: dict[str, Any]) -> None:
        if "note" in event:
            print(event["note"], file=sys.stderr, flush=True)
        if "result" in event:
            self.ended += 1
            left = (time.perf_counter() - self.started) / self.ended * (self.trials - self.ended)
            line = f"[{self.ended}/{self.trials}] {describe(trial)}: {told(event['result'])}, about {left:.0f} s left"
            print(line, file=sys.stderr, flush=True)


class Bars:
    """A bar for the whole and one for each trial that is running: rate, time left, current validation."""

    def __init__(self, trials: int) -> None:
        from rich.console import Console
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
            console=Console(stderr=True),
            transient=True,
        )
        self.all = self.progress.add_task("all trials", total=trials, note="")
        self.tasks: dict[str, Any] = {}
        self.started: dict[str, float] = {}

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.progress.stop()

    def watch(self, trial: Trial, event: dict[str, Any]) -> None:
        if trial.id not in self.tasks:
            self.tasks[trial.id] = self.progress.add_task(describe(trial), total=trial.steps, note="")
            self.started[trial.id] = time.perf_counter()
        task = self.tasks[trial.id]
        if "result" in event:
            self.progress.remove_task(task)
            self.progress.advance(self.all)
            if event["result"]["status"] != "finished":
                self.progress.console.print(f"{describe(trial)}: {told(event['result'])}", markup=False)
            return
        if "note" in event:
            self.progress.console.print(event["note"], markup=False)
            return
        self.progress.update(task, completed=event["step"])
        if "validation" in event:
            rate = event["step"] / max(time.perf_counter() - self.started[trial.id], 1e-9)
            self.progress.update(task, note=f"{rate:.0f} updates/s, validation {event['validation']:.1%}")


def describe(trial: Trial) -> str:
    return f"{trial.label or trial.algorithm} on {'+'.join(trial.targets)}, seed {trial.seed}"


def told(result: dict[str, Any]) -> str:
    if result["status"] != "finished":
        return f"{result['status']}: {result['message']}"
    chosen = result["selected"]
    return f"{chosen['target']:.1%} (validation {chosen['validation']:.1%}) in {result['seconds']:.1f} s"
