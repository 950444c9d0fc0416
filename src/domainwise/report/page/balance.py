"""Show the measured balance between source domains on a page, in a picture and in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from statistics import fmean
from typing import Any

from domainwise.analysis.measurement_files import BALANCE, read_balance
from domainwise.report.formats import text_table
from domainwise.report.grid import Grid, accuracy, ordered
from domainwise.report.matplotlib_svg import Panel
from domainwise.report.page.figures import BANDS, CURVES, Style, mean, styles
from domainwise.report.statistics import sentences, standard_error
from domainwise.report.svg_chart import Mark, curves, sheet

COLUMNS = {
    "variation": "variation of distances",
    "off_centroid": "distance to the centroid",
    "angle": "angle of gradients, °",
    "gain": "loss saved at the centroid",
}
MEASURES = {
    "variation": "variation of the distances to the experts",
    "off_centroid": "distance to their mean",
    "angle": "angle between gradients",
    "gain": "loss saved at their mean",
}
RELATIONS = {
    "off_centroid": "is nearer the centroid than",
    "variation": "is at more equal distances from the experts than",
}

Found = Mapping[str, Any]  # the measures of the selected model, and in "along" those of every snapshot
Course = Mapping[int, Found]  # step -> the measures there
Courses = Mapping[str, Sequence[Course]]  # algorithm -> its trials
Lines = Mapping[str, Sequence[Mapping[int, float]]]  # the lines of a chart: a name, and its curves


@dataclass(frozen=True)
class Measured:
    """The measures of one trial; they may lack the selected model or the snapshots."""

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
    rows: Sequence[tuple[str, Sequence[tuple[str, str]]]]  # for every algorithm numbers with remarks
    sentences: Sequence[str]
    legend: Mapping[str, Style]
    panels: Sequence[Panel]


def section(grid: Grid) -> Section | None:
    """Return what a page shows, if any trial of the grid was measured."""
    trials = _measured(grid)
    if not trials:
        return None
    courses = dict(list(gathered(trials).items())[:CURVES])
    table = [(row.algorithm, [(str(row.trials), ""), *map(_remark, row.cells)]) for row in rows(trials)]
    return Section(["trials", *COLUMNS.values()], table, compared(trials), styles(courses), panels(courses))


def _remark(cell: tuple[str, str]) -> tuple[str, str]:
    return cell[0], f"± {cell[1]}" if cell[1] else ""


def rows(trials: Sequence[Measured]) -> list[Row]:
    """Return a row for every algorithm, of its selected models."""
    return [
        Row(name, len(own), [cell([one[key] for one in own]) for key in COLUMNS])
        for name in dict.fromkeys(trial.algorithm for trial in trials)
        if (own := [one.found for one in trials if one.algorithm == name and _selected(one)])
    ]


def compared(trials: Sequence[Measured]) -> list[str]:
    """Say what is left out, and compare every two algorithms: selected models, then all along training."""
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
    """Return the mean of those that are numbers, and its standard error, as words."""
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
    """Sort values by algorithm, then by target and seed; several trials of a search count as their mean."""
    gathered: dict[str, dict[Hashable, list[float]]] = {}
    for one in trials:
        if (known := value(one)) is not None:
            gathered.setdefault(one.algorithm, {}).setdefault((one.target, one.seed), []).append(known)
    return {name: {key: fmean(found) for key, found in own.items()} for name, own in gathered.items()}


def _measured(grid: Grid) -> list[Measured]:
    """Return the measures of the trials that have them; averaged models were not measured."""
    return [
        Measured(name, target, seed, found)
        for name, groups in grid.items()
        for target, group in groups.items()
        for seed, outcome in group.items()
        if not outcome.averaged and accuracy(outcome) is not None and (found := read_balance(outcome.folder / BALANCE))
    ]


def gathered(trials: Sequence[Measured]) -> dict[str, list[Course]]:
    """Return the measures along training, by algorithm; of the trials that have them."""
    found: dict[str, list[Course]] = {}
    for trial in trials:
        if trial.along:
            found.setdefault(trial.algorithm, []).append({place["step"]: place for place in trial.along})
    return found


def panels(courses: Courses, *, named: bool = False) -> list[Panel]:
    """Draw a chart of each measure against the step; ``named`` puts the names of the algorithms into them."""
    if not courses:
        return []
    return [
        _chart(title, lines, named=len(lines) > 1 and (named or list(lines) != list(courses)))
        for title, lines in _titled(courses).items()
    ]


def picture(courses: Courses) -> Panel:
    """Draw all of them as one picture, for a file."""
    described = f"Balance along training of {', '.join(courses)}"
    return sheet("balance along training", described, panels(courses, named=True))


def _chart(title: str, lines: Lines, *, named: bool) -> Panel:
    marks: list[Mark] = []
    for (name, look), found in zip(styles(lines).items(), lines.values(), strict=True):
        marks += mean(found, look, band=len(lines) <= BANDS, named=name if named else "")
        marks.append(Mark("dot", marks[-1].points, look.css, size=3))
    return curves(title, f"Balance along training: {title}", marks, "step")


def _titled(courses: Courses) -> dict[str, Lines]:
    """Return the lines of each chart, by its title; one trial alone also tells the loss of each domain."""
    alone = [own[0] for own in courses.values() if len(courses) == len(own) == 1]
    measures: dict[str, Callable[[Found], float | None]] = {title: itemgetter(key) for key, title in COLUMNS.items()}
    if not alone:
        measures |= {"loss of the sources": partial(_loss, True), "loss of the targets": partial(_loss, False)}
    titled: dict[str, Lines] = {
        title: {name: [_curve(course, measure) for course in own] for name, own in courses.items()}
        for title, measure in measures.items()
    }
    return titled | ({"loss of each domain": _domains(alone[0])} if alone else {})


def _loss(sources: bool, place: Found) -> float | None:
    found = [loss for name, loss in place["at_model"].items() if (name in place["distances"]) is sources]
    return None if not found or None in found else fmean(found)


def _domains(course: Course) -> Lines:
    first = next(iter(course.values()))
    return {
        name if name in first["distances"] else f"{name} (target)": [_curve(course, partial(_of, name))]
        for name in first["at_model"]
    }


def _of(name: str, place: Found) -> float | None:
    found: float | None = place["at_model"][name]
    return found


def _curve(course: Course, measure: Callable[[Found], float | None]) -> dict[int, float]:
    return {step: value for step, place in course.items() if (value := measure(place)) is not None}


def text(found: Sequence[Measured]) -> str:
    """Return what a terminal shows: tables of one model, or of several by algorithm."""
    found = [one for name in ordered(one.algorithm for one in found) for one in found if one.algorithm == name]
    if len(found) == 1:
        parts = [_alone(found[0].found)] if "variation" in found[0].found else []
    else:
        head = ["algorithm", "trials", *MEASURES.values()]
        every = [[row.algorithm, str(row.trials), *map(_with_error, row.cells)] for row in rows(found)]
        parts = [text_table(head, every)] if every else []
    return "\n\n".join([*parts, *_stepwise(found), "\n".join(compared(found))]).strip()


def _alone(found: Mapping[str, Any]) -> str:
    """Every source in a row: how far its expert is, and the losses at the model, at the expert, at the mean."""
    head = ["domain", "distance", "loss at model", "at its expert", "at the mean"]
    at_model, at_mean = found["at_model"], found["at_mean"]
    every = [
        [name, *map(_number, (far, at_model[name], found["at_experts"][name][name], at_mean[name]))]
        for name, far in found["distances"].items()
    ]
    targets = [name for name in at_model if name not in found["distances"]]
    every += [[f"{name} (target)", "", _number(at_model[name]), "", _number(at_mean[name])] for name in targets]
    said = [f"{text}: {_number(found[name], '.4g')}" for name, text in MEASURES.items()]
    return "\n".join([text_table(head, every), "", *said])


def _stepwise(found: Sequence[Measured]) -> list[str]:
    """A row for every snapshot of an algorithm, at the steps that all its trials have."""
    every = []
    for name, own in gathered(found).items():
        for step in sorted(set.intersection(*(set(course) for course in own))):
            cells = [cell([course[step][key] for course in own]) for key in COLUMNS]
            every.append([name, str(step), str(len(own)), *map(_with_error, cells)])
    return [text_table(["algorithm", "step", "trials", *MEASURES.values()], every)] if every else []


def _with_error(found: tuple[str, str]) -> str:
    mean, error = found
    return f"{mean} ± {error}" if error else mean


def _number(value: float | None, form: str = ".4f") -> str:
    return "not finite" if value is None else f"{value:{form}}"
