"""The rows of a table: what the paper calls them, what it printed, and which algorithm has to be trained for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from domainwise.algorithms import Spec, parse, resolved
from domainwise.errors import InputError, closest
from domainwise.experiment.results import Outcome
from domainwise.paper.numbers import Numbers


@dataclass(frozen=True)
class Row:
    """One row of a table: its name, the algorithm behind it and the numbers that the paper printed."""

    name: str
    spec: str  # as on the command line; "" for a row that cannot be trained yet
    paper: Numbers = field(default_factory=dict)
    errors: Numbers = field(default_factory=dict)
    average: str = ""  # the averager whose model the row is about

    @property
    def algorithm(self) -> str:
        """The algorithm's name without its settings."""
        return self.spec.partition("(")[0]


@dataclass(frozen=True)
class PaperRequest:
    """Which part of a table to make, and how to print it."""

    algorithms: tuple[str, ...] = ()  # none means all of them
    targets: str = "all"
    seeds: int | str = 3
    per_domain: bool = False
    error: str = "standard-error"
    given: Mapping[str, Any] = field(default_factory=dict)  # hyperparameters for all algorithms that have them


def requested_rows(rows: Sequence[Row], request: PaperRequest, where: str) -> list[Row]:
    """Return the rows of the algorithms that were asked for; ``where`` names the table in the error sentence."""
    known = list(dict.fromkeys(row.algorithm for row in rows if row.spec))
    for name in request.algorithms:
        if name not in known:
            raise InputError(f'"{name}" is not in {where}: {closest(name, known)}')
    return [row for row in rows if row.spec and (not request.algorithms or row.algorithm in request.algorithms)]


def belongs(row: Row, outcome: Outcome, given: Mapping[str, Any]) -> bool:
    """Whether a trial counts for a row: the row's own settings, any learning rate, the defaults for the rest."""
    trial = outcome.trial
    if not row.spec or trial.algorithm != row.algorithm or outcome.average.partition("(")[0] != row.average:
        return False
    free = {name: trial.hyperparameters[name] for name in ("lr", "weight_decay")}
    expected = _spec(row.spec).create({**given, **free})
    return resolved(expected) == dict(trial.hyperparameters)


@cache
def _spec(text: str) -> Spec:
    return parse(text)[0]
