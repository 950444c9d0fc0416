"""The figures of a report, panel by panel, so that a page can lay them out side by side or below each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from domainwise.records import Record
from domainwise.report.grid import Grid, accuracy
from domainwise.report.svg import COLOURS, INK, Panel, css, panel
from domainwise.report.tables import Cell, Table
from domainwise.results import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DASHES = ("", "5 2", "1.5 1.5", "6 2 1.5 2")
CURVES = 8  # algorithms in one panel of learning curves: with more, no eye follows any
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

    @property
    def line(self) -> str | tuple[float, tuple[float, ...]]:
        return (0.0, tuple(float(length) for length in self.dash.split())) if self.dash else "-"


def styles(algorithms: Iterable[str]) -> dict[str, Style]:
    """The baseline in ink, the others in colours; from the seventh on, the colours come again with dashes."""
    chosen: dict[str, Style] = {}
    turn = 0
    for name in algorithms:
        chosen[name] = Style(INK) if name == "erm" else Style(*_look(turn))
        turn += name != "erm"
    return chosen


def _look(turn: int) -> tuple[str, str]:
    return COLOURS[turn % len(COLOURS)], DASHES[turn // len(COLOURS) % len(DASHES)]


def accuracies(table: Table) -> list[Panel]:
    """One panel per target and one for the average: a dot per seed and a bar at their mean."""
    titles = [f"target {column}" for column in table.columns[:-2] if table.rows]
    if len(titles) > 1:
        titles.append("average over the targets")
    looks = styles(row.algorithm for row in table.rows)
    return [
        panel(
            title,
            f"Accuracy of every seed, panel {at + 1}: {title}",
            0.75 + 0.27 * len(looks),
            partial(_draw_accuracies, looks, [row.cells[at] for row in table.rows]),
        )
        for at, title in enumerate(titles)
    ]


def _draw_accuracies(looks: Mapping[str, Style], cells: Sequence[Cell], axes: Axes) -> None:
    for row, (cell, look) in enumerate(zip(cells, looks.values(), strict=True)):
        if cell.mean is None:
            beside = axes.get_yaxis_transform()
            axes.text(0.02, row, cell.text, transform=beside, va="center", style="italic", alpha=0.65)
            continue
        dots = [100 * value for value in (cell.values or {}).values()]
        axes.plot(dots, [row] * len(dots), "o", color=look.colour, alpha=0.5, markersize=5.5, markeredgewidth=0)
        axes.plot([100 * cell.mean], [row], "|", color=look.colour, markersize=14, markeredgewidth=2)
    axes.set_yticks(range(len(looks)), [_shortened(name) for name in looks])
    axes.set_ylim(len(looks) - 0.5, -0.5)
    axes.margins(x=0.08)
    axes.set_xlabel("target accuracy, %")
    if all(cell.mean is None for cell in cells):
        axes.set_xlim(0, 100)


def _shortened(name: str) -> str:
    name = " ".join(name.split())
    return name if len(name) <= 24 else name[:23] + "…"


def legible(grid: Grid, table: Table) -> Grid:
    """As many algorithms as can be told apart in one panel: the baseline and those best on average, in their order.

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
    """For every target: validation accuracy, target accuracy and training loss against the step."""
    measures = {"validation accuracy, %": _validation, "target accuracy, %": _target, "training loss": _loss}
    curves = {}
    for target in next(iter(grid.values()), {}):
        runs = {name: [(one, one.records()) for one in groups[target].values()] for name, groups in grid.items()}
        if any(records for seeds in runs.values() for _, records in seeds):
            curves[target] = [
                panel(title, f"{title} against the step, target {target}", 2.5, partial(_draw, runs, measure))
                for title, measure in measures.items()
            ]
    return curves


def _validation(record: Record, targets: Sequence[str]) -> float | None:
    sources = [parts for name, parts in record["domains"].items() if name not in targets]
    return _percent([parts["holdout"]["accuracy"] for parts in sources])


def _target(record: Record, targets: Sequence[str]) -> float | None:
    return _percent([record["domains"][name]["main"]["accuracy"] for name in targets])


def _loss(record: Record, targets: Sequence[str]) -> float | None:
    found: float | None = record.get("loss")
    return found


def _percent(accuracies: Sequence[float | None]) -> float | None:
    known = [value for value in accuracies if value is not None]
    return 100 * fmean(known) if known and len(known) == len(accuracies) else None


def _draw(runs: Runs, measure: Measure, axes: Axes) -> None:
    for look, seeds in zip(styles(runs).values(), runs.values(), strict=True):
        whole = []
        for outcome, records in seeds:
            curve = {record["step"]: measure(record, outcome.trial.targets) for record in records}
            known = {step: value for step, value in curve.items() if value is not None}
            if accuracy(outcome) is None:
                _draw_lost(axes, known, look)
            else:
                whole.append(known)
                _draw_selected(axes, known, outcome.result["selected"]["step"], look)
        _draw_mean(axes, whole, look, band=len(runs) <= BANDS)
    axes.set_xlabel("step")
    axes.margins(x=0.02)
    if measure is _loss:
        _log_where_wide(axes)


def _draw_mean(axes: Axes, curves: Sequence[Curve], look: Style, band: bool) -> None:
    """The mean over seeds at the steps that all of them have."""
    steps = sorted(set.intersection(*(set(curve) for curve in curves))) if curves else []
    seeds = [[curve[step] for curve in curves] for step in steps]
    axes.plot(steps, [fmean(values) for values in seeds], color=look.colour, linestyle=look.line, linewidth=1.6)
    if band and len(curves) > 1:
        low, high = [min(values) for values in seeds], [max(values) for values in seeds]
        axes.fill_between(steps, low, high, color=look.colour, alpha=0.13, linewidth=0)


def _draw_selected(axes: Axes, curve: Curve, step: int, look: Style) -> None:
    if step in curve:
        axes.plot([step], [curve[step]], "o", color=look.colour, markersize=3.5, markeredgewidth=0, alpha=0.8)


def _draw_lost(axes: Axes, curve: Curve, look: Style) -> None:
    """A thin line to a cross, where the trial diverged or failed."""
    steps = sorted(curve)
    axes.plot(steps, [curve[step] for step in steps], color=look.colour, linewidth=0.8, linestyle=(0.0, (1.0, 1.5)))
    axes.plot(steps[-1:], [curve[step] for step in steps[-1:]], "x", color=look.colour, markersize=6)


def _log_where_wide(axes: Axes) -> None:
    """Losses of different algorithms can differ by powers of ten; numbers on the axis stay plain."""
    low, high = axes.dataLim.intervaly
    if low > 0 and high > 30 * low:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(lambda value, _: "")
