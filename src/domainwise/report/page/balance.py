"""How far models lie from what each of their source domains alone would make of them, where that was measured."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

from domainwise.analysis.kept import BALANCE, read_balance
from domainwise.report.drawing.matplotlib_svg import Panel
from domainwise.report.grid import Grid, accuracy
from domainwise.report.page import balance_curves as courses
from domainwise.report.page.figures import CURVES, Style, styles
from domainwise.report.statistics import sentences, standard_error

COLUMNS = {
    "variation": "variation of distances",
    "off_centroid": "distance to the centroid",
    "angle": "angle of gradients, °",
    "gain": "loss saved at the centroid",
}
RELATIONS = {
    "off_centroid": "is nearer the centroid than",
    "variation": "is at more equal distances from the experts than",
}

Found = Mapping[str, Any]  # the measures of the selected model, and in "along" those of every snapshot


@dataclass(frozen=True)
class Measured:
    """One trial. What it found may lack the selected model or the snapshots."""

    algorithm: str
    target: str
    seed: int
    found: Found

    @property
    def along(self) -> Sequence[Found]:
        return self.found.get("along") or []


@dataclass(frozen=True)
class Row:
    algorithm: str
    trials: int
    cells: Sequence[tuple[str, str]]  # mean, standard error over trials


@dataclass(frozen=True)
class Section:
    names: Sequence[str]
    rows: Sequence[Row]
    sentences: Sequence[str]
    legend: Mapping[str, Style]
    panels: Sequence[Panel]


def section(grid: Grid) -> Section | None:
    """What a page shows, if any trial of the grid was measured."""
    trials = _measured(grid)
    if not trials:
        return None
    course = dict(list(courses.gathered(trials).items())[:CURVES])
    return Section(
        list(COLUMNS.values()), rows(trials), compared(trials), styles(course), courses.panels(course) if course else []
    )


def rows(trials: Sequence[Measured]) -> list[Row]:
    """One for every algorithm, of its selected models."""
    return [
        Row(name, len(own), [cell([one[key] for one in own]) for key in COLUMNS])
        for name in dict.fromkeys(trial.algorithm for trial in trials)
        if (own := [one.found for one in trials if one.algorithm == name and _selected(one)])
    ]


def compared(trials: Sequence[Measured]) -> list[str]:
    """Sentences about what is left out, and about every two algorithms: selected models, then all along training."""
    said = _left_out(trials)
    for key, relation in RELATIONS.items():
        said += sentences(_values(trials, partial(_at_selected, key)), relation)
    for key, relation in RELATIONS.items():
        said += [f"Over all snapshots, {said}" for said in sentences(_values(trials, partial(_along, key)), relation)]
    return said


def _left_out(trials: Sequence[Measured]) -> list[str]:
    said = []
    for name in dict.fromkeys(trial.algorithm for trial in trials):
        own = [trial for trial in trials if trial.algorithm == name and _selected(trial)]
        lost = [trial for trial in own if trial.found["variation"] is None]
        if lost:
            where = ", ".join(f"{trial.target} with seed {trial.seed}" for trial in lost)
            said.append(
                f"{name}: a descent diverged in {len(lost)} of {len(own)} trials ({where}), which are "
                "left out of these means and comparisons; a smaller --lr goes less far and stays."
            )
    return said


def cell(values: Sequence[float | None]) -> tuple[str, str]:
    """The mean of those that are numbers, and its standard error."""
    known = [value for value in values if value is not None]
    error = standard_error(known)
    return f"{fmean(known):.3g}" if known else "\N{EN DASH}", "" if error is None else f"{error:.1g}"


def _selected(trial: Measured) -> bool:
    return "variation" in trial.found


def _at_selected(key: str, trial: Measured) -> float | None:
    return trial.found.get(key)


def _along(key: str, trial: Measured) -> float | None:
    values = [place[key] for place in trial.along]
    return fmean(values) if values and None not in values else None


def _values(trials: Sequence[Measured], value: Callable[[Measured], float | None]) -> dict[str, dict[Hashable, float]]:
    """By algorithm, then by target and seed; several trials of a search count as their mean."""
    gathered: dict[str, dict[Hashable, list[float]]] = {}
    for one in trials:
        if (known := value(one)) is not None:
            gathered.setdefault(one.algorithm, {}).setdefault((one.target, one.seed), []).append(known)
    return {name: {key: fmean(found) for key, found in own.items()} for name, own in gathered.items()}


def _measured(grid: Grid) -> list[Measured]:
    """Averaged models were not."""
    return [
        Measured(name, target, seed, found)
        for name, groups in grid.items()
        for target, group in groups.items()
        for seed, outcome in group.items()
        if not outcome.averaged and accuracy(outcome) is not None and (found := read_balance(outcome.folder / BALANCE))
    ]
