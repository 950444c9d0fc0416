"""What demo, compare, sweep and run do once they know what to run."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from domainwise.api import Comparison, Results
from domainwise.cli.commands.report import print_answer
from domainwise.cli.live_report import Refreshing
from domainwise.cli.option_groups import Beside, Cluster, Machine, Many, run_options
from domainwise.errors import InputError
from domainwise.experiment.results import Outcome, outcomes
from domainwise.experiment.trial import Trial
from domainwise.machine import choose_device, free_disk, human_duration, human_size, processes_for, threads_for
from domainwise.sweeps.disk_space import disk_needed
from domainwise.sweeps.engine import Engine, Runs
from domainwise.sweeps.progress import display
from domainwise.sweeps.shared_gpu import Many as AtOnce
from domainwise.sweeps.status import estimate, working


@dataclass(frozen=True)
class Job:
    comparison: Comparison
    machine: Machine
    beside: Beside = Beside()
    many: Many = Many(per_gpu="1")
    cluster: Cluster = Cluster()

    def go(self, dry_run: bool = False) -> None:
        """Run what is missing, print the table, write the report. Exit code 1 where a trial came to no good end."""
        results = self.run(dry_run)
        if results is None:
            return
        self._print(results)
        self._say(f"report: {results.report(self._report)}")
        if results.troubled:
            raise typer.Exit(1)

    def run(self, dry_run: bool = False) -> Results | None:
        """Run what is missing, with a display of how far it is; None where it is only listed."""
        missing = self.comparison.missing(self.machine.retry_failed)
        engine = self._engine()
        runs = self._runs(engine)
        self._announce(missing, engine.at_once)
        if dry_run:
            self._list(missing)
            return None
        with display(len(missing), quiet=self.machine.quiet) as shown:
            page = Refreshing(self.comparison, len(missing), self._report, shown.watch)
            return self.comparison.run(runs, page.hear, self.machine.retry_failed)

    @property
    def _report(self) -> Path:
        return self.comparison.folder / "report.html"

    def _engine(self) -> Engine:
        machine = self.machine
        device = choose_device(machine.device, elsewhere=self.cluster.elsewhere)
        threads = machine.threads or threads_for(self.comparison.trials[0].network)
        if self.many.processes and device != "cpu":
            raise InputError("--processes is for a CPU; on a GPU, --per-gpu says how many trials run side by side")
        return Engine(
            run_options(device, machine, self.beside),
            self.many.processes or processes_for(device, threads),
            threads,
            read_many(self.many.per_gpu),
            machine.timeout,
            self.many.retries,
        )

    def _runs(self, engine: Engine) -> Runs:
        if not self.cluster.elsewhere:
            return engine
        from domainwise.sweeps.ray_engine import RayEngine

        return RayEngine(engine, self.cluster.address)

    def _announce(self, missing: Sequence[Trial], at_once: int) -> None:
        trials = self.comparison.trials
        done = len(trials) - len(missing)
        first = trials[0]
        weights = {"none": "not pretrained", "pretrained": "pretrained"}.get(first.weights, "with weights from a file")
        reason = first.origins.get("network", "")
        network = f"network {first.network}, {weights}" + f" ({reason})" * reason.startswith("auto")
        many = f"{len(trials)} trial{'s' * (len(trials) != 1)}"
        self._say(f"{many} of {first.steps} updates on {first.data}, {network}: {counts(trials)}")
        if done:
            more = ", nor get snapshots that they have not" if self.beside.snapshots else ""
            self._say(f"{done} of them are in {self.comparison.folder} already and are not repeated{more}")
        if missing and (found := outcomes(self.comparison.folder)):
            seconds = estimate(missing, found, at_once)
            self._say(f"{len(missing)} to run, {at_once} at once: {told_time(seconds)}")
        if missing:
            self._say(self._disk(missing, at_once))
        if others := working(self.comparison.folder):
            self._say(f"other processes are at work in this folder ({len(others)} trials just now): the work is shared")

    def _disk(self, missing: Sequence[Trial], at_once: int) -> str:
        one = disk_needed(
            missing[0], self.comparison.data, keep=self.beside.keep.value, snapshots=self.beside.snapshots
        )
        kept, running = one.afterwards * len(missing), one.running * min(at_once, len(missing))
        free = free_disk(self.comparison.folder)
        enough = "" if kept + running < free else ": that will not be enough, see --keep and --snapshots"
        models = f"{human_size(kept)} for what stays and " if kept else ""
        return f"disk: about {models}{human_size(running)} while it runs; {human_size(free)} are free{enough}"

    def _list(self, missing: Sequence[Trial]) -> None:
        for trial in missing:
            print(f"{trial.id}  {trial.label}  target {'+'.join(trial.targets)}  seed {trial.seed}  draw {trial.draw}")
        print(f"{len(missing)} trials to run, results in {self.comparison.folder}")

    def _print(self, results: Results) -> None:
        print(results.table(self.machine.format))
        print_answer(results, self.machine.format, self.machine.quiet)
        for (label, status), troubled in troubles(results).items():
            first = troubled[0].trial
            where = f"the first on {'+'.join(first.targets)} with seed {first.seed}"
            self._say(f"{label}: {len(troubled)} {status}, {where}: {troubled[0].result['message']}")

    def _say(self, line: str) -> None:
        if not self.machine.quiet:
            print(line, file=sys.stderr, flush=True)


def read_many(text: str) -> AtOnce:
    """How many trials on one GPU."""
    if text == "auto":
        return "auto"
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise InputError(f'--per-gpu is how many trials run side by side on a GPU, or auto: got "{text}"')
    return int(text)


def told_time(seconds: float | None) -> str:
    if seconds is None:
        return "how long it takes is unknown until the first have finished"
    return f"about {human_duration(round(seconds))}, at the pace of those that have finished"


def troubles(results: Results) -> dict[tuple[str, str], list[Outcome]]:
    """What came to no good end, by algorithm: one sentence for each, however many trials it cost."""
    found: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in results.troubled:
        found.setdefault((outcome.trial.label, outcome.result["status"]), []).append(outcome)
    return found


def counts(trials: Sequence[Any]) -> str:
    algorithms = Counter(trial.label for trial in trials)
    targets = Counter("+".join(trial.targets) for trial in trials)
    seeds = Counter(trial.seed for trial in trials)
    draws = 1 + max(trial.draw for trial in trials)
    searched = f"; {draws} draws" * (draws > 1)
    return f"{', '.join(algorithms)}; target {', '.join(targets)}; {len(seeds)} seed{'s' * (len(seeds) > 1)}{searched}"
