"""Table 1: the accuracy of fifteen methods on five benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from domainwise.api import Comparison
from domainwise.data.domains import Domains
from domainwise.experiment.results import Outcome
from domainwise.experiment.settings import Settings
from domainwise.paper.columns import over_data_sets
from domainwise.paper.comparison import section
from domainwise.paper.numbers import DATA_SETS, TABLE1, TABLE1_ERRORS
from domainwise.paper.page import Page, page
from domainwise.paper.rows import Row, Wish, chosen, laid_out

TITLE = "Table 1, accuracy on DomainBed"
PRESET = "domainbed"
DATA = tuple(DATA_SETS)
ROWS = [
    Row(name, name.lower().replace("-", ""), numbers, TABLE1_ERRORS.get(name, {})) for name, numbers in TABLE1.items()
]
CLAIMS = [("Arith", other) for other in ("ERM", "Fish", "MLDG", "CORAL")] + [("Fish", "ERM")]


def trials(data: Domains, settings: Settings, wish: Wish, folder: Path) -> Comparison:
    return laid_out(chosen(ROWS, wish, "table 1"), data, settings, wish, "none", folder)


def render(outcomes: Sequence[Outcome], wish: Wish) -> Page:
    found = section(TITLE, over_data_sets(outcomes, wish.per_domain), ROWS, outcomes, CLAIMS, wish)
    return page("table1", TITLE, [found], outcomes, PRESET)
