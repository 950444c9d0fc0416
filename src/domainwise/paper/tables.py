"""The paper's tables: the rows, columns and claims of each, and the trials that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from domainwise.api import Comparison, prepare
from domainwise.data.domains import Domains
from domainwise.data.splits import OFFICIAL
from domainwise.errors import InputError
from domainwise.experiment.results import Outcome
from domainwise.experiment.settings import Settings
from domainwise.paper import numbers
from domainwise.paper.comparison import Claims, Section, make_section
from domainwise.paper.layout import (
    Column,
    PaperRequest,
    Row,
    names_of,
    over_data_sets,
    over_domains,
    over_slides,
    over_wilds,
    own_rows,
    requested_rows,
    stand_in,
    title_of,
)
from domainwise.paper.page import PAPER, Page, make_page
from domainwise.training.targets import targets_of


@dataclass(frozen=True)
class Part:
    """Rows and columns that are printed together: a whole table, or one data set of it."""

    rows: Sequence[Row]
    columns: Callable[[Sequence[Outcome], PaperRequest], list[Column]]
    data: str = ""  # the only data set it is about; "" where that is the table's
    own: bool = False  # whether algorithms that the paper does not have get rows too

    def section(self, title: str, outcomes: Sequence[Outcome], claims: Claims, request: PaperRequest) -> Section:
        """Compute its cells; other data stands in for OfficeHome alone where a part is about one data set."""
        if self.data:
            other = stand_in(names_of(outcomes)) if self.data == "officehome" else ""
            outcomes = [one for one in outcomes if one.trial.data == (other or self.data)]
            title = title_of(self.data) + (f" ({other} stands in for it)" if other else "")
        rows = [*self.rows, *own_rows(outcomes)] if self.own else self.rows
        return make_section(title, self.columns(outcomes, request), rows, outcomes, claims, request)


@dataclass(frozen=True, eq=False)
class PaperTable:
    """A table of the paper: which trials it needs, and how it is made from them."""

    name: str  # of its files
    title: str
    parts: Sequence[Part]
    data: Sequence[str]  # the paper's data sets that it is about
    claims: Claims = ()
    preset: str = "domainbed"
    average: str = "none"
    averages: Mapping[str, str] = field(default_factory=dict)  # by data set, where it differs
    steps: Mapping[str, int] = field(default_factory=dict)  # by data set, where the paper's are not the preset's
    targets: str = "all"  # that are held out unless others are asked for
    about: str = ""  # what to know of it, in a sentence or two
    models: int = 0  # how many are looked inside, of one seed and the last targets asked for; 0 where it is a table

    @property
    def rows(self) -> Sequence[Row]:
        """The rows to train; those of all parts have the same algorithms."""
        return self.parts[0].rows

    def trials(self, data: Domains, settings: Settings, request: PaperRequest, folder: Path) -> Comparison:
        """Plan the trials of the requested rows on one data set; rows that share a run have it once."""
        targets: str | list[str] = request.targets
        seeds = request.seeds
        if self.models:
            targets, seeds = ["+".join(names) for names in targets_of(data, targets)[-self.models :]], 1
        where = self.title.partition(",")[0].lower()
        rows = requested_rows(self.rows, request, where, own=self.parts[0].own)
        if settings.origins.get("steps") != "given" and data.name in self.steps:
            origins = {**settings.origins, "steps": PAPER + where}
            settings = replace(settings, steps=self.steps[data.name], origins=origins)
        specs = list(dict.fromkeys(row.spec_at(settings.lr) for row in rows))
        average = self.averages.get(data.name, self.average)
        comparison = prepare(
            data, specs, targets=targets, seeds=seeds, settings=settings, average=average, output=folder
        )
        if len({trial.label for trial in comparison.trials}) < len(specs):
            raise InputError(
                "--set makes rows of this table the same: leave out the settings that the table itself varies"
            )
        return comparison

    def render(self, outcomes: Sequence[Outcome], request: PaperRequest) -> Page:
        """Make the table from trials that have ended; rows without one show the paper's numbers alone."""
        sections = [part.section(self.title, outcomes, self.claims, request) for part in self.parts]
        return make_page(self.name, self.title, sections, outcomes, self.preset, self.about)


def _per_data_set(outcomes: Sequence[Outcome], request: PaperRequest) -> list[Column]:
    return over_data_sets(outcomes, request.per_domain)


def per_domain(name: str, paper: Sequence[str], outcomes: Sequence[Outcome], _: PaperRequest) -> list[Column]:
    """Return the columns of one data set; a :class:`Part` takes it with the first two arguments filled in."""
    return over_domains(name, paper, outcomes)


TABLE1 = PaperTable(
    "table1",
    "Table 1, accuracy on DomainBed",
    [
        Part(
            [
                Row(name, name.lower().replace("-", ""), printed, numbers.TABLE1_ERRORS.get(name, {}))
                for name, printed in numbers.TABLE1.items()
            ],
            _per_data_set,
            own=True,
        )
    ],
    tuple(numbers.DATA_SETS),
    [*(("Arith", other) for other in ("ERM", "Fish", "MLDG", "CORAL")), ("Fish", "ERM")],
)


def _with_settings(method: str, settings: Sequence[str]) -> str:
    return method.lower() + (f"({', '.join(settings)})" if settings else "")


def _name2(method: str, momentum: bool, by_domain: bool) -> str:
    return f"{method}, {'m' if momentum else 'no m'}, {'ds' if by_domain else 'no ds'}"


def _spec2(method: str, momentum: bool, by_domain: bool) -> str:
    """Momentum is an Adam in the walk that keeps its state; without ds every minibatch is from all sources."""
    return _with_settings(method, ["inner='adam'"] * momentum + ["domainwise=False"] * (not by_domain))


TABLE2 = PaperTable(
    "table2",
    "Table 2, momentum in the walk (m) and sampling by domain (ds)",
    [
        Part(
            [Row(_name2(*about), _spec2(*about), printed) for about, printed in numbers.TABLE2.items()],
            partial(per_domain, "pacs", numbers.PACS),
        )
    ],
    ("pacs",),
    [
        *(
            (_name2(method, False, True), _name2(method, *other))
            for method in ("Fish", "Arith")
            for other in ((True, True), (False, False))
        ),
        (_name2("Arith", False, True), _name2("Fish", False, True)),
        (_name2("Fish", False, True), _name2("MAML", False, True)),
    ],
)


def _name3(method: str, scaled: bool, adam: bool, rate: float = 1.0) -> str:
    if rate != 1:
        return f"{method}, lr x {rate:g}, adam"
    return f"{method}, {'scaled' if scaled else 'sum 1'}, {'adam' if adam else 'no adam'}"


def _spec3(method: str, scaled: bool, adam: bool) -> str:
    """Scaled weights sum to 1.5; without an outer Adam the model moves by the weighted walk itself."""
    return _with_settings(method, [f"scale={numbers.SCALED}"] * scaled + ["outer='interpolate'"] * (not adam))


def _literal3(method: str, printed: numbers.Numbers) -> Row:
    """The caption read to the letter: "scaled" is the outer Adam's learning rate, and not the weights, times 1.5.

    Without Adam the weights are the outer learning rate, so these rows are the scaled ones already.
    """
    return Row(_name3(method, True, True, numbers.SCALED), method.lower(), printed, rate=numbers.SCALED)


TABLE3 = PaperTable(
    "table3",
    "Table 3, the outer optimizer (adam) and the sum of the weights (scaled: 1.5)",
    [
        Part(
            [
                *(Row(_name3(*about), _spec3(*about), printed) for about, printed in numbers.TABLE3[name].items()),
                *(_literal3(method, numbers.TABLE3[name][method, True, True]) for method in ("Fish", "Arith")),
            ],
            partial(per_domain, name, letters),
            name,
        )
        for name, letters in (("officehome", numbers.OFFICE_HOME), ("vlcs", numbers.VLCS))
    ],
    ("officehome", "vlcs"),
    [
        *(
            (_name3(method, scaled, True), _name3(method, scaled, False))
            for method in ("Fish", "Arith")
            for scaled in (False, True)
        ),
        (_name3("Arith", False, True), _name3("Fish", False, True)),
        (_name3("Arith", False, False), _name3("Fish", False, False)),
    ],
)


def _name4(method: str, averaged: bool) -> str:
    return f"{method} + SWAD" if averaged else method


_METHODS4 = ("ERM", "MLDG", "Fish", "Arith")
# One run gives both rows of a method. The plain row is selected on the evaluations that the preset allows it, every 300
# steps, not on all that SWAD needs.
TABLE4 = PaperTable(
    "table4",
    "Table 4, with averaged weights (SWAD)",
    [
        Part(
            [
                Row(_name4(method, averaged), method.lower(), printed, average="swad" if averaged else "")
                for (method, averaged), printed in numbers.TABLE4.items()
            ],
            _per_data_set,
        )
    ],
    tuple(numbers.DATA_SETS),
    [
        *((_name4(method, True), method) for method in _METHODS4),
        *(
            (_name4("Arith", averaged), _name4(other, averaged))
            for averaged in (False, True)
            for other in _METHODS4[:-1]
        ),
        *((_name4("Fish", averaged), _name4("ERM", averaged)) for averaged in (False, True)),
    ],
    preset="swad",
    average="swad",
    steps={"domainnet": 5001},  # 5000 updates, as on all other data; SWAD's own recipe has 15000
    averages={"vlcs": "swad(ratio=0.2)"},  # what SWAD published; 0.3, the default, for all others
)

_METHODS5 = ("ERM", "Fish", "Arith")
TABLE5 = PaperTable(
    "table5",
    "Table 5, CAMELYON17: accuracy on every slide of the test hospital",
    [
        Part(
            [Row(name, name.lower(), printed) for name, printed in numbers.TABLE5.items()],
            lambda outcomes, _: over_slides(numbers.SLIDES, outcomes),
        )
    ],
    ("camelyon17",),
    [("Arith", "Fish"), ("Arith", "ERM"), ("Fish", "ERM")],
    preset="fish",
    targets=OFFICIAL,
    about=(
        "Avg is over all patches, not the mean of the slides. The paper does not say how it trained; the rows have the "
        "settings of Fish's authors, and Arith their walk with its own weights."
    ),
)
# The paper's supplement has numbers for these, which are not known here.
WILDS = PaperTable(
    "wilds",
    "The other sets of WILDS, by the score that each is judged by",
    [Part([Row(name, name.lower()) for name in _METHODS5], lambda outcomes, _: over_wilds(outcomes))],
    tuple(name for name in numbers.WILDS if name != "camelyon17"),
    preset="fish",
    targets=OFFICIAL,
    about="The paper's supplement has numbers for these sets, which are not known here.",
)

TABLES = {table.name: table for table in (TABLE1, TABLE2, TABLE3, TABLE4, TABLE5, WILDS)}
