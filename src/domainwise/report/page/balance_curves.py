"""Balance along training, as lines against the step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any

from domainwise.report.drawing.matplotlib_svg import Panel, panel
from domainwise.report.page.figures import BANDS, styles
from domainwise.report.statistics import standard_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from domainwise.report.page.balance import Measured

Course = Mapping[int, Mapping[str, Any]]  # step -> the measures there
Courses = Mapping[str, Sequence[Course]]  # algorithm -> its trials
Measure = Callable[[Mapping[str, Any]], float | None]
Lines = Mapping[str, Sequence[Mapping[int, float]]]  # what is drawn: a name, and its curves


def gathered(trials: Sequence[Measured]) -> dict[str, list[Course]]:
    found: dict[str, list[Course]] = {}
    for trial in trials:
        if trial.along:
            found.setdefault(trial.algorithm, []).append({place["step"]: place for place in trial.along})
    return found


def panels(courses: Courses) -> list[Panel]:
    return [
        panel(title, f"Balance along training: {title}", 2.5, partial(_draw, lines, _size(lines, courses)))
        for title, lines in _titled(courses).items()
    ]


def picture(courses: Courses) -> Panel:
    """All of them in one picture, for a file, with the names beside the lines."""
    titled = _titled(courses)
    described = f"Balance along training of {', '.join(courses)}"
    return panel("balance along training", described, 1.6 * -(-len(titled) // 2), partial(_draw_all, titled))


def _size(lines: Lines, courses: Courses) -> float:
    """Of the names in a panel; 0 where the page's own legend names the lines."""
    return 0 if list(lines) == list(courses) else 7


def _titled(courses: Courses) -> dict[str, Lines]:
    """One trial alone also tells the loss of each domain."""
    measures: dict[str, Measure] = {
        "variation of distances": lambda place: place["variation"],
        "distance to the centroid": lambda place: place["off_centroid"],
        "angle of gradients, °": lambda place: place["angle"],
        "loss saved at the centroid": lambda place: place["gain"],
    }
    alone = [own[0] for own in courses.values() if len(courses) == len(own) == 1]
    if not alone:
        measures |= {"loss of the sources": partial(_loss, True), "loss of the unseen": partial(_loss, False)}
    titled: dict[str, Lines] = {
        title: {name: [_curve(course, measure) for course in own] for name, own in courses.items()}
        for title, measure in measures.items()
    }
    if alone:
        titled["loss of each domain"] = _domains(alone[0])
    return titled


def _loss(sources: bool, place: Mapping[str, Any]) -> float | None:
    found = [loss for name, loss in place["at_model"].items() if (name in place["distances"]) is sources]
    return None if not found or None in found else fmean(found)


def _domains(course: Course) -> Lines:
    first = next(iter(course.values()))
    return {
        name if name in first["distances"] else f"{name} (unseen)": [_curve(course, partial(_of, name))]
        for name in first["at_model"]
    }


def _of(name: str, place: Mapping[str, Any]) -> float | None:
    found: float | None = place["at_model"][name]
    return found


def _curve(course: Course, measure: Measure) -> dict[int, float]:
    return {step: value for step, place in course.items() if (value := measure(place)) is not None}


def _draw_all(titled: Mapping[str, Lines], axes: Axes) -> None:
    figure = axes.figure
    axes.remove()
    before: list[str] = []
    for at, (title, lines) in enumerate(titled.items(), 1):
        part = figure.add_subplot(-(-len(titled) // 2), 2, at)
        part.set_title(title, fontsize=7)
        part.tick_params(labelsize=5)
        _draw(lines, 5 if list(lines) != before and len(lines) > 1 else 0, part)
        part.xaxis.label.set_fontsize(6)
        before = list(lines)


def _draw(lines: Lines, size: float, axes: Axes) -> None:
    """The mean over trials at the steps that all of them have, in a band of its standard error."""
    for (name, look), curves in zip(styles(lines).items(), lines.values(), strict=True):
        steps = sorted(set.intersection(*(set(curve) for curve in curves)))
        values = [[curve[step] for curve in curves] for step in steps]
        middle = [fmean(own) for own in values]
        axes.plot(steps, middle, color=look.colour, linestyle="--" if look.dash else "-", linewidth=1.4, label=name)
        axes.plot(steps, middle, "o", color=look.colour, markersize=2.5, markeredgewidth=0)
        if len(curves) > 1 and len(lines) <= BANDS:
            errors = [standard_error(own) or 0.0 for own in values]
            low = [mean - error for mean, error in zip(middle, errors, strict=True)]
            high = [mean + error for mean, error in zip(middle, errors, strict=True)]
            axes.fill_between(steps, low, high, color=look.colour, alpha=0.15, linewidth=0)
    axes.set_xlabel("step")
    axes.margins(x=0.02)
    if size:
        axes.legend(frameon=False, fontsize=size, handlelength=1.4)
