"""Table 3: the outer optimizer (adam) and the sum of the weights (scaled), on OfficeHome and VLCS."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from domainwise.api import Comparison
from domainwise.data.domains import Domains
from domainwise.experiment.results import Outcome
from domainwise.experiment.settings import Settings
from domainwise.paper.columns import names_of, over_domains, stand_in, title_of
from domainwise.paper.comparison import Section, section
from domainwise.paper.numbers import OFFICE_HOME, TABLE3, VLCS
from domainwise.paper.page import Page, page
from domainwise.paper.rows import Row, Wish, chosen, laid_out

TITLE = "Table 3, the outer optimizer (adam) and the sum of the weights (scaled: 1.5)"
PRESET = "domainbed"
DATA = ("officehome", "vlcs")
LETTERS = {"officehome": OFFICE_HOME, "vlcs": VLCS}


def _name(method: str, scaled: bool, adam: bool) -> str:
    return f"{method}, {'scaled' if scaled else 'sum 1'}, {'adam' if adam else 'no adam'}"


def _spec(method: str, scaled: bool, adam: bool) -> str:
    """Scaled weights sum to 1.5; without an outer Adam the model moves by the weighted walk itself."""
    settings = ["scale=1.5"] * scaled + ["outer='interpolate'"] * (not adam)
    return method.lower() + (f"({', '.join(settings)})" if settings else "")


ROWS = {
    name: [Row(_name(*about), _spec(*about), numbers) for about, numbers in rows.items()]
    for name, rows in TABLE3.items()
}
CLAIMS = [
    *(
        (_name(method, scaled, True), _name(method, scaled, False))
        for method in ("Fish", "Arith")
        for scaled in (False, True)
    ),
    (_name("Arith", False, True), _name("Fish", False, True)),
    (_name("Arith", False, False), _name("Fish", False, False)),
]


def trials(data: Domains, settings: Settings, wish: Wish, folder: Path) -> Comparison:
    return laid_out(chosen(ROWS["officehome"], wish, "table 3"), data, settings, wish, "none", folder)


def render(outcomes: Sequence[Outcome], wish: Wish) -> Page:
    return page("table3", TITLE, [_part(name, outcomes, wish) for name in DATA], outcomes, PRESET)


def _part(name: str, outcomes: Sequence[Outcome], wish: Wish) -> Section:
    """Data that stands in does so for OfficeHome."""
    other = stand_in(names_of(outcomes)) if name == "officehome" else ""
    own = [one for one in outcomes if one.trial.data == (other or name)]
    title = title_of(name) + (f" ({other} stands in for it)" if other else "")
    return section(title, over_domains(name, LETTERS[name], own), ROWS[name], own, CLAIMS, wish)
