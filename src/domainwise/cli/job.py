"""What demo, compare and run do once they know what to run."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import typer

from domainwise.api import Comparison, Results
from domainwise.capture import Fast
from domainwise.cli.options import Format
from domainwise.cli.progress import display
from domainwise.errors import InputError
from domainwise.results import Outcome
from domainwise.sweep.engine import Engine


@dataclass(frozen=True)
class Job:
    comparison: Comparison
    device: str
    threads: int | None
    processes: int | None
    quiet: bool
    format: Format
    retry_failed: bool = False
    fast: Fast = Fast()

    def go(self, dry_run: bool = False) -> None:
        """Run what is missing, print the table, write the report. Exit code 1 where a trial came to no good end."""
        missing = self.comparison.missing(self.retry_failed)
        device = device_named(self.device)
        self._announce(len(missing))
        if dry_run:
            self._list(missing)
            return
        threads = self.threads or threads_for(self.comparison.trials[0].network)
        engine = Engine(self.processes or processes_for(device, threads), threads, device, self.fast)
        with display(len(missing), quiet=self.quiet) as shown:
            results = self.comparison.run(engine, shown.watch, self.retry_failed)
        report = results.report(results.folder / "report.html")
        self._print(results)
        self._say(f"report: {report}")
        if results.troubled:
            raise typer.Exit(1)

    def _announce(self, missing: int) -> None:
        trials = self.comparison.trials
        done = len(trials) - missing
        first = trials[0]
        weights = {"none": "not pretrained", "pretrained": "pretrained"}.get(first.weights, "with weights from a file")
        network = f"network {first.network}, {weights}"
        many = f"{len(trials)} trial{'s' * (len(trials) != 1)}"
        self._say(f"{many} of {first.steps} updates on {first.data}, {network}: {counts(trials)}")
        if done:
            self._say(f"{done} of them are in {self.comparison.folder} already and are not repeated")

    def _list(self, missing: Sequence[Any]) -> None:
        for trial in missing:
            print(f"{trial.id}  {trial.label}  target {'+'.join(trial.targets)}  seed {trial.seed}")
        print(f"{len(missing)} trials to run, results in {self.comparison.folder}")

    def _print(self, results: Results) -> None:
        print(results.table(self.format))
        for (label, status), outcomes in troubles(results).items():
            first = outcomes[0].trial
            where = f"the first on {'+'.join(first.targets)} with seed {first.seed}"
            self._say(f"{label}: {len(outcomes)} {status}, {where}: {outcomes[0].result['message']}")

    def _say(self, line: str) -> None:
        if not self.quiet:
            print(line, file=sys.stderr, flush=True)


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
    return f"{', '.join(algorithms)}; target {', '.join(targets)}; {len(seeds)} seed{'s' * (len(seeds) > 1)}"


def device_named(text: str) -> str:
    if text == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(text)
    except RuntimeError as error:
        raise InputError(f'"{text}" is no device: use cpu, cuda, cuda:1 or auto') from error
    if device.type == "cuda" and (not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count()):
        raise InputError(f'"{text}" is not here: torch sees {torch.cuda.device_count()} GPUs; use --device cpu')
    return text


def threads_for(network: str) -> int:
    """One for networks so small that several threads would mostly wait for each other."""
    return 1 if network in ("small", "mnist") else cores()


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processes_for(device: str, threads: int) -> int:
    return max(1, cores() // threads) if device == "cpu" else 1
