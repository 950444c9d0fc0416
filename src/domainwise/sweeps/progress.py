"""Say what is to be run, show how far it is (bars, or a line for each trial that ends), and say what failed."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import torch
from torch import nn

from domainwise.averaging import averagers
from domainwise.data.domains import HOLDOUT, TEST, VAL, Domains
from domainwise.data.splits import is_official, official_rows
from domainwise.errors import counted, legible, sentence
from domainwise.experiment.outcomes import bytes_kept
from domainwise.experiment.records import Event, Result
from domainwise.experiment.results import Outcome, outcomes
from domainwise.experiment.trial import Trial
from domainwise.machine import free_disk, human_duration, human_size
from domainwise.networks.network import Network
from domainwise.saved_models.build import algorithm_of, network_of
from domainwise.saved_models.keep import Keep, checked, spread
from domainwise.sweeps.engine import Runs
from domainwise.sweeps.status import describe, estimate, working
from domainwise.terminal import console, draws_bars, lively, plain_streams
from domainwise.training.run_trial import Watch

if TYPE_CHECKING:
    from domainwise.experiment.trial import Trial


SOON = 2.0  # seconds: what is over by then shows no bars that nobody asked for


def display(trials: int, progress: bool | None) -> Silence | Bars:
    """Return what shows the progress of so many trials; None is bars where somebody looks on and it lasts."""
    if not lively(progress):
        return Silence()
    return Bars(trials, after=0.0 if progress else SOON) if draws_bars() else Lines(trials)


class Silence:
    """Show nothing."""

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
    """Draw a bar for the whole and one for each trial that is running: rate, time left, current validation."""

    def __init__(self, trials: int, *, after: float = 0.0) -> None:
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
        self.shown, self.begin = False, time.perf_counter() + after

    def __enter__(self) -> Self:
        self._show()
        return self

    def _show(self) -> None:
        if not self.shown and time.perf_counter() >= self.begin:
            self.shown = True
            self.progress.start()
            self.open.enter_context(plain_streams())  # past those of the bars, which obey

    def __exit__(self, *error: object) -> None:
        self.open.close()
        self.progress.stop()

    def watch(self, trial: Trial, event: Event) -> None:
        """Draw what an event says of a trial."""
        self._show()
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
    """Say how a trial has ended."""
    if result["status"] != "finished":
        return f"{result['status']}: {result['message']}"
    selected = result["selected"] or {}
    target, validation = selected["target"], f"validation {selected['validation']:.1%}"
    return f"{validation if target is None else f'{target:.1%} ({validation})'} in {result['seconds']:.1f} s"


def outlook(
    trials: Sequence[Trial], missing: Sequence[Trial], data: Domains, folder: Path, runs: Runs
) -> Iterator[str]:
    """Yield sentences on what is about to be run: how much, on what, how long it takes and how much disk."""
    done, first = len(trials) - len(missing), trials[0]
    weights = {"none": "not pretrained", "pretrained": "pretrained"}.get(first.weights, "with weights from a file")
    many = f"{counted(len(trials), 'trial')} of {first.steps} updates on {first.data}"
    chosen = f" ({reason})" if (reason := first.origins.get("network", "")).startswith("auto") else ""
    yield f"{many}, network {first.network}, {weights}{chosen}: {named(trials)}"
    if done:
        more = ", nor get snapshots that they have not" if runs.options.snapshots else ""
        yield f"{done} of them are in {folder} already and are not repeated{more}"
    if missing and (found := outcomes(folder)):
        yield f"{len(missing)} to run, {runs.at_once} at once: {_time(estimate(missing, found, runs.at_once))}"
    if missing:
        yield _disk(missing, data, folder, runs)
    if others := working(folder):
        yield f"other processes are at work in this folder ({len(others)} trials just now): the work is shared"


def _disk(missing: Sequence[Trial], data: Domains, folder: Path, runs: Runs) -> str:
    at_once, needed = min(runs.at_once, len(missing)), partial(disk_needed, data=data, keep=runs.options.keep)
    each = {one.label: needed(one, snapshots=runs.options.snapshots) for one in {t.label: t for t in missing}.values()}
    shared, running = (at_once * max(getattr(one, what) for one in each.values()) for what in ("shared", "running"))
    kept = shared + sum(each[trial.label].afterwards for trial in missing)
    free = free_disk(folder)
    enough = "" if kept + running < free else ": that will not be enough, see --keep and --snapshots"
    models = f"{human_size(kept)} for what stays and " if kept else ""
    return f"disk: about {models}{human_size(running)} while it runs; {human_size(free)} are free{enough}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "how long it takes is unknown until the first have finished"
    return f"about {human_duration(round(seconds))}, at the pace of those that have finished"


def named(trials: Sequence[Trial]) -> str:
    """Name the algorithms, targets, seeds and draws of trials."""
    algorithms = Counter(trial.label for trial in trials)
    targets = Counter("+".join(trial.targets) for trial in trials)
    seeds = Counter(trial.seed for trial in trials)
    draws = 1 + max(trial.draw for trial in trials)
    searched = f"; {draws} draws" * (draws > 1)
    return f"{', '.join(algorithms)}; target {', '.join(targets)}; {counted(len(seeds), 'seed')}{searched}"


def troubles(found: Iterable[Outcome]) -> Iterator[str]:
    """Yield a sentence for each algorithm of which trials came to no good end, however many."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in found:
        groups.setdefault((outcome.trial.label, outcome.result["status"]), []).append(outcome)
    for (label, status), troubled in groups.items():
        first = troubled[0].trial
        where = f"the first on {'+'.join(first.targets)} with seed {first.seed}"
        yield f"{label}: {len(troubled)} {status}, {where}: {troubled[0].result['message']}"


def all_of(*watches: Watch | None) -> Watch:
    """Return a watcher that passes on what it hears to several."""

    def watch(trial: Trial, event: Event) -> None:
        for one in watches:
            if one:
                one(trial, event)

    return watch


ADAM = 2  # copies of the weights that an optimizer keeps
HEADER = 2**12  # bytes of a file beside its tensors
GENERATORS = 2**16  # bytes of their states, and of all that is not tensors


class Disk(NamedTuple):
    """Hold estimates in bytes, rather too large than too small."""

    running: int  # by the two checkpoints of a trial that runs and its evaluations, beside the rest
    afterwards: int  # by the models that are kept, and the counts of the selected one
    shared: int = 0  # by the frozen part of the models, which those of one process have in one file


def disk_needed(trial: Trial, data: Domains, *, keep: Keep = "best", snapshots: int = 0) -> Disk:
    """Estimate the room that one trial takes, from its network, which is made and thrown away."""
    net, frozen = _network(trial, data), trial.features == "frozen"
    weights = _bytes(net.head if frozen else net)
    variants = 1 + len(trial.averages)
    best = 0 if checked(keep) == "none" else variants
    evaluations = math.ceil(trial.steps / trial.evaluate_every) + 1
    models = best + (variants * evaluations if keep == "all" else 0) + len(spread(snapshots, trial.steps))
    inner = ADAM if trial.hyperparameters.get("inner") in ("adam", "amsgrad", "momentum") else 0
    copies = 1 + ADAM + inner + best + _averaged(trial)
    told, seen = variants * _counts(trial, data), variants * _outcomes(trial, data)
    running = 2 * (weights * copies + seen + GENERATORS) + evaluations * told
    return Disk(running, weights * models + told + seen, _bytes(net.featurizer) if frozen and models else 0)


def _bytes(module: nn.Module) -> int:
    return HEADER + int(sum(tensor.numel() * tensor.element_size() for tensor in module.state_dict().values()))


CELL = 40  # bytes of a number of images in counts.json, with what says of which classes


def _counts(trial: Trial, data: Domains) -> int:
    """The bytes that one evaluation says of all classes, for every domain and part of one."""
    cells = len(data.classes) ** 2
    return sum(HEADER + CELL * min(2 * cells, len(domain)) for domain in data)


def _outcomes(trial: Trial, data: Domains) -> int:
    """The bytes of what one model made of every image of the hold-outs and the targets."""
    parts = [len(domain) * (1 if domain.name in trial.targets else trial.holdout) for domain in data]
    if is_official(data, trial.targets):
        parts = [len(rows) for part in (HOLDOUT, VAL, TEST) for rows in official_rows(data, part).values()]
    return HEADER * (1 + 2 * len(parts)) + math.ceil(sum(parts)) * bytes_kept(len(data.classes))


def _network(trial: Trial, data: Domains) -> Network:
    """Make the network of shapes without content, which takes no time, where it is one of ours and can be.

    Whoever wrote another may keep some of its tensors.
    """

    def made() -> Network:
        return network_of(trial, algorithm_of(trial), data.layout, len(data.classes), filled=False)

    with torch.random.fork_rng(devices=[]):
        if not trial.network_file:
            with suppress(Exception), torch.device("meta"):
                return made()
        return made()


def _averaged(trial: Trial) -> int:
    """Copies of the weights that the averagers keep."""
    each = averagers(trial.average).values()
    return sum(2 + max(getattr(one, "tolerance", 0), getattr(one, "converge", 0)) for one in each)
