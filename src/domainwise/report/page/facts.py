"""What a page says around its numbers: what was asked, what became of every trial, with which settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from domainwise.experiment.results import Outcome
from domainwise.machine import human_duration
from domainwise.report.grid import label, natural, ordered, target


@dataclass(frozen=True)
class Fact:
    name: str
    value: str
    detail: str = ""


def asked(outcomes: Sequence[Outcome]) -> list[Fact]:
    """The size of the comparison, for the top of a page."""
    ran = [
        outcome for outcome in outcomes if not outcome.averaged
    ]  # an averaged model comes with a run, not of its own
    trials = [outcome.trial for outcome in ran]
    counted = Counter(outcome.result["status"] for outcome in ran)
    seconds = sum(outcome.result.get("seconds") or 0.0 for outcome in ran)
    beside = "; each with its weights averaged beside it" if len(ran) < len(outcomes) else ""
    return [
        Fact("Data", listed(trial.data for trial in trials)),
        _counted("Algorithms", ordered(label(trial) for trial in trials), beside),
        _counted("Targets", natural(target(trial) for trial in trials)),
        _counted("Seeds", natural(str(trial.seed) for trial in trials)),
        Fact("Steps", listed(str(trial.steps) for trial in trials)),
        Fact("Trials", str(len(trials)), ", ".join(f"{count} {name}" for name, count in counted.most_common())),
        Fact("Time", human_duration(seconds), "of all trials, added up: those side by side count in full"),
    ]


def _counted(name: str, found: Sequence[str], beside: str = "") -> Fact:
    return Fact(name, str(len(found)), ", ".join(found) + beside)


def listed(values: Iterable[str], most: int = 4) -> str:
    """The distinct values, or the first and the last of many."""
    found = natural(values)
    if len(found) > most:
        return f"{found[0]} … {found[-1]} ({len(found)} values)"
    return ", ".join(found) or "\N{EN DASH}"


def settings(outcomes: Sequence[Outcome]) -> list[Fact]:
    trials = [outcome.trial for outcome in outcomes]
    results = [outcome.result for outcome in outcomes]
    return [
        Fact("Data", listed(f"{trial.data} ({trial.fingerprint[:12]})" for trial in trials)),
        Fact("Network", listed(trial.network for trial in trials)),
        Fact("Minibatch", listed(f"{trial.batch} images of each domain" for trial in trials)),
        Fact("Steps", listed(str(trial.steps) for trial in trials)),
        Fact("Evaluated", listed(f"every {trial.evaluate_every} steps" for trial in trials)),
        Fact("Hold-out", listed(f"{trial.holdout:.0%} of every domain" for trial in trials)),
        Fact("Device", listed(_device(result) for result in results)),
    ]


def _device(result: Mapping[str, Any]) -> str:
    threads = result.get("threads")
    unit = "thread" if threads == 1 else "threads"
    return f"{result.get('device', 'unknown')}" + (f", {threads} {unit}" if threads else "")


def versions(outcomes: Sequence[Outcome]) -> list[Fact]:
    found = [outcome.result.get("versions") or {} for outcome in outcomes]
    names = natural(name for versions in found for name in versions)
    return [Fact(name, listed(str(versions[name]) for versions in found if name in versions)) for name in names]


def hyperparameters(outcomes: Sequence[Outcome]) -> dict[str, list[Fact]]:
    """For every algorithm, each hyperparameter with the values it had."""
    found: dict[str, dict[str, list[str]]] = {}
    for outcome in outcomes:
        values = found.setdefault(label(outcome.trial), {})
        for name, value in outcome.trial.used.items():
            values.setdefault(name, []).append(f"{value:g}" if isinstance(value, float) else str(value))
        if outcome.trial.source:
            values.setdefault("source", []).append(f"sha256 {outcome.trial.source[:12]}")
    return {name: [Fact(key, listed(values)) for key, values in found[name].items()] for name in found}


@dataclass(frozen=True)
class Line:
    """One trial in the list of all of them."""

    algorithm: str
    target: str
    seed: int
    status: str
    message: str
    step: int | None  # the selected one
    validation: float | None
    accuracy: float | None
    last: float | None
    seconds: float | None
    id: str


def lines(outcomes: Sequence[Outcome]) -> list[Line]:
    made = [_line(outcome) for outcome in outcomes]
    targets = natural(line.target for line in made)
    return sorted(
        made, key=lambda line: (line.algorithm != "erm", line.algorithm, targets.index(line.target), line.seed)
    )


def _line(outcome: Outcome) -> Line:
    trial, result = outcome.trial, outcome.result
    selected, last = outcome.selected, outcome.last
    return Line(
        algorithm=label(trial),
        target=target(trial),
        seed=trial.seed,
        status=result["status"],
        message=result.get("message", ""),
        step=selected.get("step"),
        validation=selected.get("validation"),
        accuracy=selected.get("target"),
        last=last.get("target"),
        seconds=result.get("seconds"),
        id=outcome.folder.name,
    )
