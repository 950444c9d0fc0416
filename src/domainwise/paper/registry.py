"""All tables and figures by name, and the order in which they are made."""

from __future__ import annotations

from collections.abc import Sequence

from domainwise.errors import InputError, closest
from domainwise.paper.figures import FIGURE3, FIGURE5
from domainwise.paper.tables import TABLES, PaperTable

TRAINED: dict[str, PaperTable] = {**TABLES, "figure3": FIGURE3, "figure5": FIGURE5}
NAMES = (*(f"table{i}" for i in range(1, 6)), *(f"figure{i}" for i in range(1, 6)))
PER_DOMAIN = ("table1", "table4")  # the others have a column per domain anyway

# Table 4 keeps averages beside its runs; with the same settings the others take their trials from it.
ORDER = ("table4", *(name for name in NAMES if name != "table4"))


def requested_names(words: Sequence[str]) -> list[str]:
    """Return the tables and figures that were asked for, in the order in which they are made."""
    for word in words:
        if word not in (*NAMES, "all"):
            raise InputError(f'there is no "{word}" to reproduce: {closest(word, [*NAMES, "all"])}')
    return [name for name in ORDER if name in words or "all" in words]


def algorithms_of(name: str) -> set[str]:
    """Return the algorithms that a table or figure trains; none for one that is only computed."""
    return {row.algorithm for row in TRAINED[name].rows} if name in TRAINED else set()
