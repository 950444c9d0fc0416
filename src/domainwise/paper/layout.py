"""The rows and columns of a table: which algorithm a row trains, and which targets a column is the mean over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from domainwise.algorithms import Spec, parse, resolved
from domainwise.data.sources.benchmarks import BENCHMARKS
from domainwise.data.splits import OFFICIAL
from domainwise.errors import InputError, closest
from domainwise.experiment.group_metrics import WILDS as WILDS_SCORES
from domainwise.experiment.results import Outcome
from domainwise.experiment.trial import Trial
from domainwise.paper.numbers import AVG, DATA_SETS, WILDS, Numbers
from domainwise.report.grid import natural


@dataclass(frozen=True)
class Row:
    """One row of a table: its name, the algorithm behind it and the numbers that the paper printed."""

    name: str
    spec: str  # as on the command line; "" for a row that cannot be trained yet
    paper: Numbers = field(default_factory=dict)
    errors: Numbers = field(default_factory=dict)
    average: str = ""  # the averager whose model the row is about
    rate: float = 1.0  # times the learning rate of the other rows
    own: str = ""  # the label of the trials of somebody's own algorithm, which the paper does not have

    @property
    def algorithm(self) -> str:
        """The algorithm's name without its settings."""
        return self.spec.partition("(")[0]

    def spec_at(self, lr: float) -> str:
        """Return the algorithm to train where the other rows have a learning rate of ``lr``."""
        if self.rate == 1:
            return self.spec
        spec = _spec(self.spec)
        return replace(spec, settings={**spec.settings, "lr": float(f"{self.rate * lr:.12g}")}).label


@dataclass(frozen=True)
class PaperRequest:
    """Which part of a table to make, and how to print it."""

    algorithms: tuple[str, ...] = ()  # none means all of them
    targets: str = "all"
    seeds: int | str = 3
    per_domain: bool = False
    error: str = "standard-error"
    given: Mapping[str, Any] = field(default_factory=dict)  # hyperparameters for all algorithms that have them


def is_own(algorithm: str) -> bool:
    """Whether an algorithm is written as one of somebody's own: ``my_idea.py:MyIdea``."""
    return ".py:" in algorithm


def requested_rows(rows: Sequence[Row], request: PaperRequest, where: str, *, own: bool = False) -> list[Row]:
    """Return the rows of the algorithms that were asked for; ``where`` names the table in the error sentence.

    With ``own``, the table has place for algorithms that the paper does not have, below its rows.
    """
    known = list(dict.fromkeys(row.algorithm for row in rows if row.spec))
    added = [name for name in request.algorithms if is_own(name)]
    for name in request.algorithms:
        if name in added and not own:
            raise InputError(f'"{name}" is not in {where}: algorithms of your own have their place in table1')
        if name not in (*known, *added):
            raise InputError(f'"{name}" is not in {where}: {closest(name, known)}')
    asked = [row for row in rows if row.spec and (not request.algorithms or row.algorithm in request.algorithms)]
    return asked + [Row(_spec(name).label, name, own=_spec(name).label) for name in added]


def own_rows(outcomes: Iterable[Outcome]) -> list[Row]:
    """Return a row for each algorithm of somebody's own that trials are of."""
    labels = dict.fromkeys(one.trial.label for one in outcomes if one.trial.source and not one.averaged)
    return [Row(label, "", own=label) for label in labels]


def belongs(row: Row, outcome: Outcome, given: Mapping[str, Any]) -> bool:
    """Whether a trial counts for a row: the row's own settings, any learning rate, the defaults for the rest.

    A learning rate that was written beside the algorithm is for rows that have one of their own, and for them alone.
    """
    trial = outcome.trial
    if row.own:
        return bool(trial.source) and trial.label == row.own
    if has_own_rate(trial) != (row.rate != 1):
        return False
    if not row.spec or trial.algorithm != row.algorithm or outcome.average.partition("(")[0] != row.average:
        return False
    layers = {name: trial.origins.get(name, "").partition(" ")[0] for name in trial.hyperparameters}
    of_preset = [name for name, layer in layers.items() if layer in ("preset", "benchmark")]
    free = {name: trial.hyperparameters[name] for name in ("lr", "weight_decay", *of_preset)}
    expected = _spec(row.spec).create({**given, **free})
    return resolved(expected) == dict(trial.hyperparameters)


def has_own_rate(trial: Trial) -> bool:
    """Whether a trial's learning rate was written beside its algorithm, not given to all of them."""
    return trial.origins.get("lr", "").startswith("written in ")


@cache
def _spec(text: str) -> Spec:
    return parse(text)[0]


Target = tuple[str, str]  # data set, domain


@dataclass(frozen=True)
class Column:
    """One column: its title, the paper's column beside it, and the targets it is the mean over."""

    title: str
    key: str = ""  # the paper's column that it stands beside; "" where there is none
    groups: tuple[tuple[Target, ...], ...] = ()  # the targets of each data set; none where nothing was trained
    comparable: bool = True  # False where other data stands in for the paper's
    main: bool = False  # whether orderings and tests use it
    group: bool = False  # whether it is a group of an official split in the place of a target

    @property
    def run(self) -> bool:
        """Whether anything was trained for the column."""
        return bool(self.groups)


def stand_in(names: Iterable[str]) -> str:
    """Return the data set that stands in for the paper's; "" where all data is the paper's own."""
    others = sorted(set(names) - {*DATA_SETS, *WILDS})
    if len(others) > 1 or (others and set(names) & set(DATA_SETS)):
        raise InputError(
            f"{others[0]} is none of the paper's data: it can stand in for it, alone; reproduce it without other data"
        )
    return others[0] if others else ""


def names_of(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the names of the data sets, the paper's first and in its order."""
    names = {outcome.trial.data for outcome in outcomes}
    return [name for name in (*DATA_SETS, *WILDS) if name in names] + sorted(names - {*DATA_SETS, *WILDS})


def over_data_sets(outcomes: Sequence[Outcome], per_domain: bool = False) -> list[Column]:
    """Return a column for every data set, and their mean; with ``per_domain`` also one for every domain."""
    names = names_of(outcomes)
    other = stand_in(names)
    targets = {name: _targets(name, outcomes) for name in names}
    columns = []
    for name, title in DATA_SETS.items():
        here = other if other and name == "pacs" else name
        if here in targets:
            columns += _domains(here, targets[here], f"{title_of(here)} ") if per_domain else []
            columns.append(Column(title_of(here), title, (targets[here],), comparable=not other, main=True))
        else:
            columns.append(Column(title, title))
    all_of_them = tuple(targets[name] for name in DATA_SETS if name in targets)
    return [*columns, Column(AVG, AVG, all_of_them if len(all_of_them) == len(DATA_SETS) else (), main=True)]


def over_domains(name: str, paper: Sequence[str], outcomes: Sequence[Outcome]) -> list[Column]:
    """Return a column for every domain of one data set, under the paper's letters, and their mean."""
    names = names_of(outcomes)
    here = stand_in(names) or name
    if here not in names:
        return [Column(key, key, main=key == AVG) for key in paper]
    targets = _targets(here, outcomes)
    return [
        *_domains(here, targets, "", paper if here == name else ()),
        Column(AVG, AVG, (targets,), comparable=here == name, main=True),
    ]


def over_slides(keys: Sequence[str], outcomes: Sequence[Outcome]) -> list[Column]:
    """Return a column for every slide of CAMELYON17's test hospital, and one for all of its patches."""
    name = "camelyon17"
    if not any(one.trial.data == name for one in outcomes):
        return [Column(key, key, main=key == AVG) for key in keys]
    slides = [Column(key, key, (((name, f"slide:{key}"),),), group=True) for key in keys if key != AVG]
    return [*slides, Column(AVG, AVG, (((name, OFFICIAL),),), main=True)]


def over_wilds(outcomes: Sequence[Outcome]) -> list[Column]:
    """Return a column for what each of the other sets of WILDS is judged by, and one for the accuracy on its test."""
    columns = []
    for name in names_of(outcomes):
        if name in WILDS:
            judged = WILDS_SCORES[name].score.replace("_", " ")
            columns.append(Column(f"{WILDS[name]} {judged}", "", (((name, "judged"),),), main=True, group=True))
            columns.append(Column(f"{WILDS[name]} accuracy", "", (((name, OFFICIAL),),)))
    return columns or [Column(title, title) for name, title in WILDS.items() if name != "camelyon17"]


def title_of(name: str) -> str:
    """Return how the paper spells a data set; the name itself where the paper does not have it."""
    return {**DATA_SETS, **WILDS}.get(name, name)


def _targets(name: str, outcomes: Sequence[Outcome]) -> tuple[Target, ...]:
    """All domains of the paper's data, whether trained or not; of other data only those that were."""
    if name in DATA_SETS:
        return tuple((name, domain) for domain in BENCHMARKS[name].domains)
    single = natural(o.trial.targets[0] for o in outcomes if o.trial.data == name and len(o.trial.targets) == 1)
    return tuple((name, domain) for domain in single)


def _domains(name: str, targets: Sequence[Target], before: str, paper: Sequence[str] = ()) -> list[Column]:
    letters = BENCHMARKS[name].domains if name in BENCHMARKS else {}
    titles = {target: letters.get(target[1], target[1]) for target in targets}
    return [Column(f"{before}{titles[t]}", titles[t] if titles[t] in paper else "", ((t,),)) for t in targets]
