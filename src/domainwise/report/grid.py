"""Sort outcomes into algorithm, target and seed, as every table and figure has them, and give the numbers of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from domainwise.experiment.records import Record
from domainwise.experiment.results import Outcome
from domainwise.experiment.selection import target_accuracy
from domainwise.experiment.trial import Trial

Group = Mapping[int, Outcome]  # seed -> outcome
Grid = Mapping[str, Mapping[str, Group]]  # algorithm -> target -> group; every algorithm has every target


def label(trial: Trial) -> str:
    return trial.label or trial.algorithm


def target(trial: Trial) -> str:
    return "+".join(trial.targets)


def accuracy(outcome: Outcome) -> float | None:
    """Return the target accuracy at the selected step; None for a trial that did not finish, whatever it reached."""
    selected = outcome.selected
    found: float | None = selected.get("target")
    return found if outcome.result["status"] == "finished" else None


def natural(names: Iterable[str]) -> list[str]:
    """Sort names alphabetically, with the numbers in them compared as numbers: "15" before "105"."""
    return sorted(set(names), key=lambda name: (_pieces(name), name))


def ordered(algorithms: Iterable[str]) -> list[str]:
    """Sort algorithms by name, with "erm", the baseline, first, and its averages after it."""
    return sorted(natural(algorithms), key=lambda name: name != "erm" and not name.startswith("erm + "))


def _pieces(name: str) -> list[str | int]:
    # re.split with a group alternates text and digits, so equal positions have equal types
    return [int(piece) if at % 2 else piece for at, piece in enumerate(re.split(r"(\d+)", name))]


def tabled(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Leave out trials that hold out several domains, each of which is held out alone too.

    They serve a choice (leave-one-domain-out); a mean over them and the others would count their domains twice, with
    models of fewer sources.
    """
    alone = {(one.trial.data, one.trial.targets[0]) for one in outcomes if len(one.trial.targets) == 1}
    return [
        one
        for one in outcomes
        if len(one.trial.targets) < 2 or not alone.issuperset((one.trial.data, name) for name in one.trial.targets)
    ]


def arrange(outcomes: Sequence[Outcome]) -> Grid:
    """Sort outcomes by algorithm and target (see :func:`tabled`); the group is empty where nothing was run.

    Where a seed has several trials, as in a search, the one with the best validation accuracy counts.
    """
    outcomes = tabled(outcomes)
    several = len({outcome.trial.data for outcome in outcomes}) > 1
    cells: dict[tuple[str, str], dict[int, Outcome]] = {}
    for outcome in sorted(outcomes, key=_standing):  # the best comes last and stays
        trial = outcome.trial
        column = f"{trial.data}: {target(trial)}" if several else target(trial)
        cells.setdefault((label(trial), column), {})[trial.seed] = outcome
    algorithms = ordered(name for name, _ in cells)
    targets = natural(column for _, column in cells)
    return {
        name: {column: dict(sorted(cells.get((name, column), {}).items())) for column in targets} for name in algorithms
    }


def sample(grid: Grid, most: int) -> Grid:
    """Keep the first seeds of every algorithm and target, one at least, where there are more than ``most`` outcomes."""
    cells = sum(map(len, grid.values()))
    seeds = max(1, most // max(1, cells))
    if cells * seeds >= sum(len(group) for groups in grid.values() for group in groups.values()):
        return grid
    return {
        name: {column: dict(list(group.items())[:seeds]) for column, group in groups.items()}
        for name, groups in grid.items()
    }


def worst_targets(grid: Grid, most: int) -> Grid:
    """Keep the targets with the lowest accuracy, mean over all trials, where there are more than ``most``."""
    found: dict[str, list[float]] = {column: [] for groups in grid.values() for column in groups}
    if len(found) <= most:
        return grid
    for groups in grid.values():
        for column, group in groups.items():
            found[column] += [value for one in group.values() if (value := accuracy(one)) is not None]
    worst = {*sorted(found, key=lambda column: fmean(found[column]) if found[column] else 2.0)[:most]}
    return {name: {k: group for k, group in groups.items() if k in worst} for name, groups in grid.items()}


def most_seeds(grid: Grid) -> int:
    return max((len(group) for groups in grid.values() for group in groups.values()), default=0)


def _standing(outcome: Outcome) -> tuple[bool, float, str]:
    selected = outcome.selected
    return accuracy(outcome) is not None, selected.get("validation") or 0.0, outcome.folder.name


def losses(group: Group) -> str:
    """Say which seeds have no accuracy and why: "1 of 3 diverged at 120", without the count where none is left."""
    reasons: dict[str, list[int]] = {}
    for outcome in group.values():
        if accuracy(outcome) is None:
            reasons.setdefault(_reason(outcome), []).append(outcome.result.get("step") or 0)
    lost = sum(len(steps) for steps in reasons.values())
    return ", ".join(
        (f"{len(steps)} of {len(group)} " if len(reasons) > 1 or lost < len(group) else "") + _said(reason, steps)
        for reason, steps in sorted(reasons.items())
    )


def _reason(outcome: Outcome) -> str:
    status: str = outcome.result["status"]
    return "without an accuracy" if status == "finished" else status


def _said(reason: str, steps: list[int]) -> str:
    return f"diverged at {', '.join(map(str, sorted(set(steps))))}" if reason == "diverged" else reason


Window = tuple[int, int]  # updates, from and to
Records = Sequence[Record]
Numbers = Mapping[str, Mapping[int, float | None]]  # target -> seed -> the number of a trial


@dataclass(frozen=True)
class Statistic:
    """One number of a trial: its name, and what it is in words."""

    name: str
    words: str
    window: Window | None = None

    def of(self, outcome: Outcome, records: Records) -> float | None:
        """Return the trial's number in percent, or None where it has none.

        Where a trial kept no records, the step that it selected stands for the second half of its training.
        """
        result, trial = outcome.result, outcome.trial
        if result["status"] != "finished" or not trial.targets:
            return None
        if self.name in ("late", "window"):
            among = self._among(records)
            if among or self.name == "window":
                return _mean([target_accuracy(record, trial.targets, trial.test) for record in among])
        beside = {name: models["last"] for name, models in result["averages"].items()}
        found = {"late": result["selected"], "selected": result["selected"], "last": result["last"], **beside}
        one = found.get(self.name)
        return None if one is None or one["target"] is None else 100 * one["target"]

    def _among(self, records: Records) -> Records:
        """Return the evaluations of which this is the mean."""
        last = records[-1]["step"] if records else 0
        low, high = self.window or (last / 2, last)
        return [record for record in records if low <= record["step"] <= high]


def _mean(accuracies: Sequence[float]) -> float | None:
    return 100 * fmean(accuracies) if accuracies else None


LATE = Statistic("late", "mean over the evaluations in the second half of training")
LAST = Statistic("last", "at the last step")
SELECTED = Statistic("selected", "at the step chosen on the source domains, as the table has it")


def statistics_of(outcomes: Sequence[Outcome], window: Window | None) -> list[Statistic]:
    """Return those of low noise first: means over evaluations, averages of weights, then single evaluations."""
    averages = dict.fromkeys(name for one in outcomes for name in one.result["averages"])
    words = f"mean over the evaluations at updates {window[0]} to {window[1]}" if window else ""
    own = [Statistic("window", words, window)] if window else []
    beside = [Statistic(name, f"averaged weights ({name}) at the end of training") for name in averages]
    return [*own, LATE, *beside, LAST, SELECTED]


def numbers_of(grid: Grid, statistics: Sequence[Statistic]) -> dict[Statistic, dict[str, Numbers]]:
    """Return every statistic of every row of a table; the records of a trial are read once."""
    found: dict[Statistic, dict[str, dict[str, dict[int, float | None]]]] = {one: {} for one in statistics}
    for name, groups in grid.items():
        for column, group in groups.items():
            for seed, outcome in group.items():
                records = outcome.records() if outcome.result["status"] == "finished" else []
                for one in statistics:
                    row = found[one].setdefault(name, {}).setdefault(column, {})
                    row[seed] = one.of(outcome, records)
    return {one: {name: {column: rows.get(name, {}).get(column, {}) for column in groups}
                  for name, groups in grid.items()} for one, rows in found.items()}  # fmt: skip
