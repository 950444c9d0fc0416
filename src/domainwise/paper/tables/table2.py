"""Table 2: what momentum in the walk (m) and sampling by domain (ds) do, on PACS."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from domainwise.api import Comparison
from domainwise.data.domains import Domains
from domainwise.experiment.results import Outcome
from domainwise.experiment.settings import Settings
from domainwise.paper.columns import over_domains
from domainwise.paper.comparison import section
from domainwise.paper.numbers import PACS, TABLE2
from domainwise.paper.page import Page, page
from domainwise.paper.rows import Row, Wish, chosen, laid_out

TITLE = "Table 2, momentum in the walk (m) and sampling by domain (ds)"
PRESET = "domainbed"
DATA = ("pacs",)


def _name(method: str, momentum: bool, by_domain: bool) -> str:
    return f"{method}, {'m' if momentum else 'no m'}, {'ds' if by_domain else 'no ds'}"


def _spec(method: str, momentum: bool, by_domain: bool) -> str:
    """Momentum is an Adam in the walk, whose state outlives it; without ds every minibatch is from all sources."""
    settings = ["inner='adam'"] * momentum + ["domainwise=False"] * (not by_domain)
    return method.lower() + (f"({', '.join(settings)})" if settings else "")


ROWS = [Row(_name(*about), _spec(*about), numbers) for about, numbers in TABLE2.items()]
BEST = {method: _name(method, False, True) for method in ("MAML", "Fish", "Arith")}
CLAIMS = [
    *(
        (BEST[method], _name(method, *other))
        for method in ("Fish", "Arith")
        for other in ((True, True), (False, False))
    ),
    (BEST["Arith"], BEST["Fish"]),
    (BEST["Fish"], BEST["MAML"]),
]


def trials(data: Domains, settings: Settings, wish: Wish, folder: Path) -> Comparison:
    return laid_out(chosen(ROWS, wish, "table 2"), data, settings, wish, "none", folder)


def render(outcomes: Sequence[Outcome], wish: Wish) -> Page:
    found = section(TITLE, over_domains("pacs", PACS, outcomes), ROWS, outcomes, CLAIMS, wish)
    return page("table2", TITLE, [found], outcomes, PRESET)
