"""Draw the figures of a report, panel by panel, so that a page can lay them out as it has room."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from domainwise.experiment.records import Record
from domainwise.experiment.results import Outcome
from domainwise.experiment.selection import held_out
from domainwise.report.formats import Cell, Table
from domainwise.report.grid import Grid, accuracy
from domainwise.report.matplotlib_svg import COLOURS, INK, Panel, css
from domainwise.report.svg_chart import Mark, curves, rows

DASHES = ("", "5 2", "1.5 1.5", "6 2 1.5 2")
CURVES = 8  # algorithms in one panel of learning curves: with more, no eye follows any
START = 1 / 20  # of training, before which an accuracy is so low that no difference would be seen in the rest
BANDS = 7  # with more algorithms than this, their bands would hide each other

Measure = Callable[[Record, Sequence[str]], float | None]
Runs = Mapping[str, Sequence[tuple[Outcome, list[Record]]]]  # algorithm -> its seeds
Curve = Mapping[int, float]  # step -> value


@dataclass(frozen=True)
class Style:
    """How an algorithm is drawn, the same in every panel of a page."""

    colour: str
    dash: str = ""

    @property
    def css(self) -> str:
        return css(self.colour)


def styles(algorithms: Iterable[str]) -> dict[str, Style]:
    """Draw the baseline in ink, the others in colours; from the seventh on, the colours come again with dashes."""
    chosen: dict[str, Style] = {}
    turn = 0
    for name in algorithms:
        chosen[name] = Style(INK) if name == "erm" else Style(*_look(turn))
        turn += name != "erm"
    return chosen


def _look(turn: int) -> tuple[str, str]:
    return COLOURS[turn % len(COLOURS)], DASHES[turn // len(COLOURS) % len(DASHES)]


def accuracies(table: Table) -> list[Panel]:
    """Draw a panel per target and one for the average: a dot per seed and a bar at their mean."""
    titles = [f"target {column}" for column in table.columns[:-2] if table.rows]
    if len(titles) > 1:
        titles.append("average over the targets")
    looks = styles(row.algorithm for row in table.rows)
    return [
        _accuracies(title, f"Accuracy of every seed, panel {at + 1}: {title}", looks, [r.cells[at] for r in table.rows])
        for at, title in enumerate(titles)
    ]


def _accuracies(title: str, described: str, looks: Mapping[str, Style], cells: Sequence[Cell]) -> Panel:
    marks, notes = [], {}
    for row, (cell, look) in enumerate(zip(cells, looks.values(), strict=True)):
        if cell.mean is None:
            notes[row] = cell.text
            continue
        dots = [(100 * value, row) for value in (cell.values or {}).values()]
        marks.append(Mark("dot", dots, look.css, size=5.5, opacity=0.5))
        marks.append(Mark("bar", [(100 * cell.mean, row)], look.css, size=2))
    return rows(title, described, marks, [_shortened(name) for name in looks], notes, "target accuracy, %")


def _shortened(name: str) -> str:
    name = " ".join(name.split())
    return name if len(name) <= 24 else name[:23] + "…"


def legible(grid: Grid, table: Table) -> Grid:
    """Keep as many algorithms as can be told apart in one panel: the baseline and those best on average, in order.

    What is averaged at the end of a run has one record and no course: it comes last.
    """
    if len(grid) <= CURVES:
        return grid
    means = {row.algorithm: row.cells[-2].mean or 0.0 for row in table.rows}
    courses = {name: any(_has_course(one) for group in groups.values() for one in group.values())
               for name, groups in grid.items()}  # fmt: skip
    best = sorted(grid, key=lambda name: (not courses[name], name != "erm", -means[name]))[:CURVES]
    return {name: groups for name, groups in grid.items() if name in best}


def _has_course(outcome: Outcome) -> bool:
    return len(outcome.records()) > 1


def learning_curves(grid: Grid) -> dict[str, list[Panel]]:
    """Draw for every target validation accuracy, target accuracy and training loss against the step."""
    measures = {"validation accuracy, %": _validation, "target accuracy, %": _target, "training loss": _loss}
    drawn = {}
    for target in next(iter(grid.values()), {}):
        runs = {name: [(one, one.records()) for one in groups[target].values()] for name, groups in grid.items()}
        if any(records for seeds in runs.values() for _, records in seeds):
            drawn[target] = [
                curves(
                    title,
                    f"{title} against the step, target {target}",
                    _marks(runs, measure),
                    "step",
                    may_be_wide=measure is _loss,
                )
                for title, measure in measures.items()
            ]
    return drawn


def _validation(record: Record, targets: Sequence[str]) -> float | None:
    return _percent([part["accuracy"] for part in held_out(record["domains"], targets)])


def _target(record: Record, targets: Sequence[str]) -> float | None:
    return _percent([record["domains"][name]["main"]["accuracy"] for name in targets])


def _loss(record: Record, targets: Sequence[str]) -> float | None:
    found: float | None = record.get("loss")
    return found


def _percent(accuracies: Sequence[float | None]) -> float | None:
    known = [value for value in accuracies if value is not None]
    return 100 * fmean(known) if known and len(known) == len(accuracies) else None


def _marks(runs: Runs, measure: Measure) -> list[Mark]:
    marks = []
    for look, seeds in zip(styles(runs).values(), runs.values(), strict=True):
        whole, chosen = [], []
        for outcome, records in seeds:
            known = _curve(records, outcome.trial.targets, measure)
            if accuracy(outcome) is None:
                marks += _lost(known, look)
            else:
                step = outcome.selected["step"]
                whole.append(known)
                chosen += [(step, known[step])] if step in known else []
        marks += mean(whole, look, band=len(runs) <= BANDS)
        marks.append(Mark("dot", chosen, look.css, size=3.5, opacity=0.8))
    return marks


def _curve(records: Sequence[Record], targets: Sequence[str], measure: Measure) -> Curve:
    first = START * records[-1]["step"] if records and measure is not _loss else 0
    values = {record["step"]: measure(record, targets) for record in records if record["step"] >= first}
    return {step: value for step, value in values.items() if value is not None}


def mean(found: Sequence[Curve], look: Style, *, band: bool, named: str = "") -> list[Mark]:
    """Return the mean over trials at the steps that all of them have, in a band from the lowest to the highest."""
    steps = sorted(set.intersection(*(set(curve) for curve in found))) if found else []
    seeds = {step: [curve[step] for curve in found] for step in steps}
    points = [(step, fmean(values)) for step, values in seeds.items()]
    line = Mark("line", points, look.css, dash=look.dash, named=named)
    if not band or len(found) < 2:
        return [line]
    low, high = ([(step, pick(values)) for step, values in seeds.items()] for pick in (min, max))
    return [Mark("band", [*low, *reversed(high)], look.css, opacity=0.13), line]


def _lost(curve: Curve, look: Style) -> list[Mark]:
    """Draw a thin line to a cross, where the trial diverged or failed."""
    course = sorted(curve.items())
    return [
        Mark("line", course, look.css, size=0.8, dash="1 1.5"),
        Mark("cross", course[-1:], look.css, size=1.2),
    ]
