"""All tables and figures, by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from domainwise.api import Comparison
from domainwise.data.domains import Domains
from domainwise.errors import InputError, closest
from domainwise.experiment.results import Outcome
from domainwise.experiment.settings import Settings
from domainwise.paper.figures import figure3, figure5
from domainwise.paper.page import Page
from domainwise.paper.rows import Wish
from domainwise.paper.tables import table1, table2, table3, table4


class Trains(Protocol):
    """What is made from trials."""

    @property
    def PRESET(self) -> str: ...  # noqa: N802  a constant of a module

    @property
    def DATA(self) -> tuple[str, ...]: ...  # noqa: N802

    def trials(self, data: Domains, settings: Settings, wish: Wish, folder: Path) -> Comparison: ...


class PaperTable(Trains, Protocol):
    def render(self, outcomes: Sequence[Outcome], wish: Wish) -> Page: ...


TABLES: dict[str, PaperTable] = {"table1": table1, "table2": table2, "table3": table3, "table4": table4}
TRAINS: dict[str, Trains] = {**TABLES, "figure3": figure3, "figure5": figure5}
NAMES = (*(f"table{i}" for i in range(1, 6)), *(f"figure{i}" for i in range(1, 6)))
PER_DOMAIN = ("table1", "table4")  # the others are by domain as they are

# Table 4 averages beside its runs; on the same settings the others find what they need in them.
ORDER = ("table4", *(name for name in NAMES if name != "table4"))


def named(words: Sequence[str]) -> list[str]:
    """What was asked for, in the order in which it is made."""
    for word in words:
        if word not in (*NAMES, "all"):
            raise InputError(f'there is no "{word}" to reproduce: {closest(word, [*NAMES, "all"])}')
    return [name for name in ORDER if name in words or "all" in words]


def algorithms_of(name: str) -> set[str]:
    rows = {"table3": table3.ROWS["officehome"]}.get(name) or getattr(TRAINS.get(name), "ROWS", [])
    return {row.algorithm for row in rows}
