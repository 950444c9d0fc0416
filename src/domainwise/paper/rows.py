"""The rows of a table: what the paper calls them and printed, and what has to be run for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from domainwise.algorithms import Spec, parse, resolved
from domainwise.api import Comparison, prepare
from domainwise.data.domains import Domains
from domainwise.errors import InputError, closest
from domainwise.experiment.results import Outcome
from domainwise.experiment.settings import Settings
from domainwise.paper.numbers import Numbers


@dataclass(frozen=True)
class Row:
    name: str
    spec: str  # as on the command line; "" for what cannot be run yet
    paper: Numbers = field(default_factory=dict)
    errors: Numbers = field(default_factory=dict)
    average: str = ""  # the averager whose model it is about

    @property
    def algorithm(self) -> str:
        return self.spec.partition("(")[0]


@dataclass(frozen=True)
class Wish:
    """What was asked for beside the data: which part of a table, and how it is printed."""

    algorithms: tuple[str, ...] = ()  # none is all of them
    targets: str = "all"
    seeds: int | str = 3
    per_domain: bool = False
    error: str = "standard-error"
    given: Mapping[str, Any] = field(default_factory=dict)  # hyperparameters for all algorithms that have them


def chosen(rows: Sequence[Row], wish: Wish, where: str) -> list[Row]:
    """The rows of the algorithms that were asked for."""
    known = list(dict.fromkeys(row.algorithm for row in rows if row.spec))
    for name in wish.algorithms:
        if name not in known:
            raise InputError(f'"{name}" is not in {where}: {closest(name, known)}')
    return [row for row in rows if row.spec and (not wish.algorithms or row.algorithm in wish.algorithms)]


def laid_out(
    rows: Sequence[Row], data: Domains, settings: Settings, wish: Wish, average: str, folder: Path
) -> Comparison:
    """All trials of some rows on one set of data; rows that share a run, such as one and its average, have it once."""
    specs = list(dict.fromkeys(row.spec for row in rows))
    found = prepare(
        data, specs, targets=wish.targets, seeds=wish.seeds, settings=settings, average=average, output=folder
    )
    if len({trial.label for trial in found.trials}) < len(specs):
        raise InputError("--set makes rows of this table the same: leave out the settings that the table itself varies")
    return found


def belongs(row: Row, outcome: Outcome, given: Mapping[str, Any]) -> bool:
    """Whether a trial is one of a row's: the row's own settings, the learning rate of the trial, the rest as usual."""
    trial = outcome.trial
    if not row.spec or trial.algorithm != row.algorithm or outcome.average.partition("(")[0] != row.average:
        return False
    shared = {name: trial.hyperparameters[name] for name in ("lr", "weight_decay")}
    expected = _spec(row.spec).create({**given, **shared})
    return resolved(expected) == dict(trial.hyperparameters)


@cache
def _spec(text: str) -> Spec:
    return parse(text)[0]
