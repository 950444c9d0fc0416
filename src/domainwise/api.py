"""Comparisons from Python; the command line is a thin layer over this."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainwise.algorithms import parse
from domainwise.data.domains import Domains
from domainwise.errors import InputError
from domainwise.results import Outcome, outcomes, told_apart
from domainwise.sweep.engine import Engine
from domainwise.sweep.execute import Watch
from domainwise.sweep.folder import claimed
from domainwise.sweep.plan import Settings, plan, targets_of
from domainwise.trial import Trial

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Results:
    """What came of a comparison: ``table()`` to print, ``frame()`` to compute with, ``report(path)`` to look at."""

    outcomes: tuple[Outcome, ...]
    folder: Path

    @classmethod
    def open(cls, folder: Path | str) -> Results:
        """All that has ended in an output folder."""
        found = tuple(told_apart(outcomes(Path(folder))))
        if not found:
            raise InputError(f"{folder} has no finished trials: give the folder that a comparison wrote to")
        return cls(found, Path(folder))

    @property
    def troubled(self) -> list[Outcome]:
        """Those that diverged or failed."""
        return [outcome for outcome in self.outcomes if outcome.result["status"] != "finished"]

    def table(self, format: str = "table") -> str:
        from domainwise.report.tables import accuracy_table

        return accuracy_table(self.outcomes).render(format)

    def frame(self) -> pd.DataFrame:
        from domainwise.report.tables import frame

        return frame(self.outcomes)

    def report(self, path: Path | str) -> Path:
        from domainwise.report.document import write

        return write(self.outcomes, Path(path))


@dataclass(frozen=True)
class Comparison:
    """What is to be run, and where: laid out before anything starts."""

    data: Domains
    trials: tuple[Trial, ...]
    folder: Path

    def missing(self, retry_failed: bool = False) -> list[Trial]:
        """The trials that have not come to an end yet."""
        ended = {
            outcome.trial.id
            for outcome in outcomes(self.folder)
            if not (retry_failed and outcome.result["status"] == "failed")
        }
        return [trial for trial in self.trials if trial.id not in ended]

    def run(self, engine: Engine, watch: Watch, retry_failed: bool = False) -> Results:
        with claimed(self.folder, self.data):
            engine.run(self.missing(retry_failed), self.data, self.folder, watch)
            return self.results()

    def results(self) -> Results:
        found = {outcome.trial.id: outcome for outcome in outcomes(self.folder)}
        return Results(tuple(found[trial.id] for trial in self.trials if trial.id in found), self.folder)


def prepare(
    data: Domains,
    algorithms: str | Sequence[str],
    *,
    targets: str | Sequence[str] = "all",
    seeds: int | Sequence[int] = 3,
    settings: Settings | None = None,
    output: Path | str | None = None,
    command: str = "compare",
) -> Comparison:
    """Lay out a comparison: every algorithm on every target with every seed."""
    settings = settings or Settings()
    specs = parse(algorithms if isinstance(algorithms, str) else ",".join(algorithms))
    if isinstance(seeds, int) and seeds < 1:
        raise InputError(f"seeds says how many, so 1 or more, got {seeds}")
    numbers = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    trials = plan(data, specs, targets_of(data, targets), numbers, settings)
    return Comparison(data, tuple(trials), Path(output) if output else default_folder(command, trials[0]))


def default_folder(command: str, trial: Trial) -> Path:
    """The same for all comparisons that belong in one table: same data, same settings, whichever algorithms."""
    shared = {key: value for key, value in trial.to_json().items() if key in _SHARED}
    digest = hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()[:8]
    return Path("domainwise-runs") / f"{command}-{digest}"


_SHARED = {"data", "fingerprint", "size", "network", "batch", "steps", "holdout", "evaluate_every"}


def compare(
    data: Domains,
    algorithms: str | Sequence[str],
    *,
    targets: str | Sequence[str] = "all",
    seeds: int | Sequence[int] = 3,
    steps: int = 300,
    batch: int = 32,
    set: Mapping[str, Any] | None = None,
    output: Path | str | None = None,
    device: str = "cpu",
    processes: int = 1,
    threads: int = 1,
    watch: Callable[[Trial, dict[str, Any]], None] | None = None,
) -> Results:
    """Train every algorithm with every target held out in turn and every seed, and compare on the unseen domain.

    What was computed before in the same output folder is not computed again. ``set`` gives hyperparameters to all
    algorithms that have them; ``seeds`` is how many, or which.
    """
    settings = Settings(steps=steps, batch=batch, evaluate_every=every(steps), given=set or {})
    comparison = prepare(data, algorithms, targets=targets, seeds=seeds, settings=settings, output=output)
    return comparison.run(Engine(processes, threads, device), watch or (lambda trial, event: None))


def every(steps: int) -> int:
    """How often to evaluate when nobody says: about ten times a run."""
    return max(1, steps // 10)
