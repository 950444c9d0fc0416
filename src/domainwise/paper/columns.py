"""The columns of a table: which domains, held out in turn, a number is the mean over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from domainwise.data.sources.benchmarks import BENCHMARKS
from domainwise.errors import InputError
from domainwise.experiment.results import Outcome
from domainwise.paper.numbers import AVG, DATA_SETS
from domainwise.report.grid import natural

Place = tuple[str, str]  # data, the target held out


@dataclass(frozen=True)
class Column:
    title: str
    key: str = ""  # the column of the paper's table that it stands beside; "" where there is none
    groups: tuple[tuple[Place, ...], ...] = ()  # the places of each set of data; none where nothing was run
    comparable: bool = True  # not where other data stands in for the paper's
    main: bool = False  # what orderings and tests are about

    @property
    def run(self) -> bool:
        return bool(self.groups)


def stand_in(names: Iterable[str]) -> str:
    """The data that stands in for the paper's; "" where all is the paper's own."""
    others = sorted(set(names) - set(DATA_SETS))
    if len(others) > 1 or (others and set(names) & set(DATA_SETS)):
        raise InputError(
            f"{others[0]} is none of the paper's data: it can stand in for it, alone; reproduce it without other data"
        )
    return others[0] if others else ""


def names_of(outcomes: Sequence[Outcome]) -> list[str]:
    """In the paper's order."""
    found = {outcome.trial.data for outcome in outcomes}
    return [name for name in DATA_SETS if name in found] + sorted(found - set(DATA_SETS))


def over_data_sets(outcomes: Sequence[Outcome], per_domain: bool = False) -> list[Column]:
    """One for every set of data, and their mean; with every domain before its mean, where that is asked for."""
    names = names_of(outcomes)
    other = stand_in(names)
    places = {name: _places(name, outcomes) for name in names}
    columns = []
    for name, title in DATA_SETS.items():
        here = other if other and name == "pacs" else name
        if here in places:
            columns += _domains(here, places[here], f"{title_of(here)} ") if per_domain else []
            columns.append(Column(title_of(here), title, (places[here],), comparable=not other, main=True))
        else:
            columns.append(Column(title, title))
    whole = tuple(places[name] for name in DATA_SETS if name in places)
    return [*columns, Column(AVG, AVG, whole if len(whole) == len(DATA_SETS) else (), main=True)]


def over_domains(name: str, paper: Sequence[str], outcomes: Sequence[Outcome]) -> list[Column]:
    """One for every domain of one set of data, under the paper's letters, and their mean."""
    names = names_of(outcomes)
    here = stand_in(names) or name
    if here not in names:
        return [Column(key, key, main=key == AVG) for key in paper]
    places = _places(here, outcomes)
    return [
        *_domains(here, places, "", paper if here == name else ()),
        Column(AVG, AVG, (places,), comparable=here == name, main=True),
    ]


def title_of(name: str) -> str:
    return DATA_SETS.get(name, name)


def _places(name: str, outcomes: Sequence[Outcome]) -> tuple[Place, ...]:
    """All domains of the paper's data, whether run or not; of other data those that were."""
    if name in DATA_SETS:
        return tuple((name, domain) for domain in BENCHMARKS[name].domains)
    found = natural(o.trial.targets[0] for o in outcomes if o.trial.data == name and len(o.trial.targets) == 1)
    return tuple((name, domain) for domain in found)


def _domains(name: str, places: Sequence[Place], before: str, paper: Sequence[str] = ()) -> list[Column]:
    letters = BENCHMARKS[name].domains if name in BENCHMARKS else {}
    titles = {place: letters.get(place[1], place[1]) for place in places}
    return [Column(f"{before}{titles[p]}", titles[p] if titles[p] in paper else "", ((p,),)) for p in places]
