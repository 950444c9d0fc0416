"""How far models lie from what each of their source domains alone would make of them, where that was measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from domainwise.report.grid import Grid, accuracy
from domainwise.report.tables import standard_error
from domainwise.results import Outcome

FILE = "balance.json"
COLUMNS = {
    "variation": "variation of distances",
    "off_centroid": "distance to the centroid",
    "angle": "angle of gradients, °",
    "gain": "loss saved at the centroid",
}


@dataclass(frozen=True)
class Balanced:
    algorithm: str
    trials: int
    cells: Sequence[tuple[str, str]]  # mean, standard error over trials


def balanced(grid: Grid) -> list[Balanced]:
    """A row for every algorithm with trials that were measured; averaged models were not."""
    found = {
        name: [one for group in groups.values() for outcome in group.values() if (one := _read(outcome)) is not None]
        for name, groups in grid.items()
    }
    return [Balanced(name, len(own), [_cell(own, key) for key in COLUMNS]) for name, own in found.items() if own]


def _read(outcome: Outcome) -> Mapping[str, Any] | None:
    file = outcome.folder / FILE
    if outcome.averaged or accuracy(outcome) is None or not file.is_file():
        return None
    found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _cell(own: Sequence[Mapping[str, Any]], key: str) -> tuple[str, str]:
    values = [one[key] for one in own if one[key] is not None]
    error = standard_error(values)
    return f"{fmean(values):.3g}" if values else "\N{EN DASH}", "" if error is None else f"{error:.1g}"
