"""Choose the record of a run to report: functions from records to a record."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from statistics import fmean
from typing import NamedTuple

import numpy as np

from domainwise.data.splits import OFFICIAL
from domainwise.errors import InputError, closest
from domainwise.experiment.records import DomainScores, Record, Scores, Summary
from domainwise.experiment.trial import Trial

Targets = Collection[str]
Runs = Mapping[frozenset[str], Sequence[Record]]  # the records of one seed and draw, by the targets held out


@dataclass(frozen=True)
class Choice:
    record: Record
    value: float  # what the rule compared: the larger, the better
    draw: int | str = 0  # which hyperparameters, where there were several


@dataclass(frozen=True)
class Rule:
    """Choose a record: ``candidates`` gives those that may be chosen, and the first with the best value is."""

    title: str
    reason: str  # why the chosen record was, to follow "the step that"
    candidates: Callable[[Runs, Targets], list[Choice]]
    value: Callable[[Record, Targets], float] = lambda record, targets: float(record["step"])  # of the model to keep

    def choose(self, runs: Runs, targets: Targets) -> Choice | None:
        return max(self.candidates(runs, targets), key=lambda choice: choice.value, default=None)


def rule(name: str) -> Rule:
    if name not in RULES:
        raise InputError(f'there is no selection rule "{name}": {closest(name, RULES)}')
    return RULES[name]


def validation(record: Record, targets: Targets) -> float:
    """Return the accuracy on the source domains' hold-outs, or the trial's metric, every domain counting the same."""
    # numpy's rounding is that of the published tables, where two steps can differ in the last digit only
    return float(np.mean([_score(part) for part in held_out(record["domains"], targets)]))


def worst_validation(record: Record, targets: Targets) -> float:
    """Return the accuracy, or the trial's metric, on the hold-out of the source domain that does worst."""
    return min(_score(part) for part in held_out(record["domains"], targets))


def pooled_validation(record: Record, targets: Targets) -> float:
    """Return the accuracy on the source domains' hold-outs, every image counting the same."""
    parts = held_out(record["domains"], targets)
    if any("count" not in part for part in parts):
        raise InputError("these records do not say how many images they are over: use the rule validation, not pooled")
    right = sum(part["accuracy"] * part["count"] for part in parts)
    return float(right / sum(part["count"] for part in parts))


def held_out(domains: DomainScores, targets: Targets) -> list[Scores]:
    """Return the scores to select by: of the sources' hold-outs, or of the validation set of an official split.

    Where that has two, it is the one of domains that are not trained on.
    """
    found = {name: parts["holdout"] for name, parts in domains.items() if name not in targets and "holdout" in parts}
    named = [name for name in ("val", "id_val") if OFFICIAL in targets and name in found]
    return [found[named[0]]] if named else [*found.values()]


def _score(part: Scores) -> float:
    """The metric that the trial names, or that a benchmark judges its split by; otherwise the accuracy."""
    return part.get("metrics", {}).get("judged", part["accuracy"])


def _of_set(name: str) -> Callable[[Record, Targets], float]:
    def value(record: Record, targets: Targets) -> float:
        if OFFICIAL not in targets or name not in record["domains"]:
            raise InputError(f"the rule {name} is for trials on an official split that has such a part")
        return _score(record["domains"][name]["holdout"])

    return value


def by_validation(records: Sequence[Record], targets: Targets) -> Record:
    """Return the first record with the best validation accuracy on the sources. Never looks at a target."""
    return max(records, key=lambda record: validation(record, targets))


def selected(records: Sequence[Record], trial: Trial) -> Record:
    """Return the record a trial reports by its own rule, of the evaluations that its rule may choose from."""
    choice = rule(trial.selection).choose({frozenset(trial.targets): eligible(records, trial)}, trial.targets)
    if choice is None:
        raise InputError(f'the rule "{trial.selection}" finds nothing to choose from in the records of one trial')
    return choice.record


def eligible(records: Sequence[Record], trial: Trial) -> list[Record]:
    """Return the records at which a trial may stop; it may be evaluated more often."""
    return [one for one in records if one["step"] % trial.select_every == 0 or one is records[-1]]


def summary(record: Record, targets: Targets, test: str = "main", by: str = "validation") -> Summary:
    """Return the numbers that tables print of a record; ``by`` is the rule that chose it."""
    return {
        "step": record["step"],
        "validation": rule(by).value(record, targets) if by in ("val", "id_val") else validation(record, targets),
        "target": target_accuracy(record, targets, test) if targets else None,  # where none is held out
        "targets": {name: target_accuracy(record, [name], test) for name in targets},
    }


def target_accuracy(record: Record, targets: Targets, test: str = "main") -> float:
    """Return the mean accuracy over targets: on their main part, as published, or on "all" of their images."""
    return fmean(_tested(record["domains"][name], test) for name in targets)


def _tested(parts: Mapping[str, Scores], test: str) -> float:
    if test == "main":
        return parts["main"]["accuracy"]
    return sum(part["accuracy"] * part["count"] for part in parts.values()) / sum(p["count"] for p in parts.values())


def _every_step(value: Callable[[Record, Targets], float]) -> Callable[[Runs, Targets], list[Choice]]:
    return lambda runs, targets: [Choice(record, value(record, targets)) for record in _own(runs, targets)]


def _last_step(runs: Runs, targets: Targets) -> list[Choice]:
    return [Choice(record, validation(record, targets)) for record in _own(runs, targets)[-1:]]


def _oracle(runs: Runs, targets: Targets) -> list[Choice]:
    """No early stopping: a search looks at the target once per draw, not once per step."""
    return [
        Choice(record, fmean(record["domains"][name]["holdout"]["accuracy"] for name in targets))
        for record in _own(runs, targets)[-1:]
        if all("holdout" in record["domains"][name] for name in targets)
    ]


def _leave_one_out(runs: Runs, targets: Targets) -> list[Choice]:
    """Return the accuracy on the other target, averaged over the runs with one more target, at their common steps."""
    own = _own(runs, targets)
    others = [name for name in own[0]["domains"] if name not in targets] if own else []
    by_step = {name: {record["step"]: record for record in _own(runs, {*targets, name})} for name in others}
    return [
        Choice(record, float(np.mean([target_accuracy(by_step[name][record["step"]], [name]) for name in others])))
        for record in own
        if others and all(record["step"] in by_step[name] for name in others)
    ]


def _own(runs: Runs, targets: Targets) -> Sequence[Record]:
    return runs.get(frozenset(targets), ())


RULES: dict[str, Rule] = {
    "validation": Rule(
        "training-domain validation set",
        "had the best validation accuracy (mean over the source domains' hold-outs)",
        _every_step(validation),
        validation,
    ),
    "pooled": Rule(
        "training-domain validation set, pooled",
        "had the best validation accuracy (over all held-out images of the source domains together)",
        _every_step(pooled_validation),
        pooled_validation,
    ),
    "worst": Rule(
        "worst source domain",
        "had the best validation accuracy on the source domain that does worst",
        _every_step(worst_validation),
        worst_validation,
    ),
    "oracle": Rule(
        "test-domain validation set (oracle)",
        "is the last one; only draws are compared, on the target's own hold-out",
        _oracle,
    ),
    "last": Rule("last step", "is the last one", _last_step),
    "val": Rule(
        "validation set of the official split",
        "had the best score on the validation set of the official split",
        _every_step(_of_set("val")),
        _of_set("val"),
    ),
    "id_val": Rule(
        "validation set of the official split, of the domains that are trained on",
        "had the best score on the official split's images held out of the domains that are trained on",
        _every_step(_of_set("id_val")),
        _of_set("id_val"),
    ),
    "leave-one-out": Rule(
        "leave-one-domain-out cross-validation",
        "had the best mean accuracy on each source domain in turn, held out as a second target",
        _leave_one_out,
    ),
}


BY_METRIC = ("validation", "worst", "val", "id_val")  # rules that go by a trial's own metric


@dataclass(frozen=True)
class Run:
    """Hold a trial as selection sees it. Runs of one draw share hyperparameters, whatever their targets."""

    data: str
    algorithm: str
    seed: int
    targets: tuple[str, ...]
    draw: int | str
    records: Sequence[Record]

    @classmethod
    def of(cls, trial: Trial, records: Sequence[Record]) -> Run:
        settings = {key: value for key, value in asdict(trial).items() if key in _DRAWN}
        name = trial.label or trial.algorithm
        return cls(trial.data, name, trial.seed, trial.targets, json.dumps(settings, sort_keys=True), records)


_GROUP = {"data", "fingerprint", "targets", "algorithm", "seed"}
_DRAWN = {field.name for field in fields(Trial) if field.compare} - _GROUP


class Group(NamedTuple):
    """Name what one number of a table is about, before the mean over seeds."""

    data: str
    algorithm: str
    seed: int
    targets: tuple[str, ...]


def selection(runs: Iterable[Run], name: str = "validation") -> dict[Group, Choice]:
    """Return the choice of a rule for every group, over the steps of each draw and then over the draws.

    Groups in which the rule finds nothing to choose from are left out. Of draws that tie the last counts.
    """
    chosen: dict[Group, Choice] = {}
    for (data, algorithm, seed, draw), by_targets in sorted(_by_draw(runs).items()):
        for targets in by_targets:
            choice = rule(name).choose(by_targets, targets)
            group = Group(data, algorithm, seed, tuple(sorted(targets)))
            if choice is not None and (group not in chosen or choice.value >= chosen[group].value):
                chosen[group] = replace(choice, draw=draw)
    return chosen


def _by_draw(runs: Iterable[Run]) -> dict[tuple[str, str, int, int | str], dict[frozenset[str], list[Record]]]:
    found: dict[tuple[str, str, int, int | str], dict[frozenset[str], list[Record]]] = {}
    for run in runs:
        by_targets = found.setdefault((run.data, run.algorithm, run.seed, run.draw), {})
        by_targets.setdefault(frozenset(run.targets), []).extend(run.records)
    return found
