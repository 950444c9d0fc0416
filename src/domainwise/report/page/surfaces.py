"""Draw loss surfaces as contour pictures, one per domain."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from domainwise.analysis.measurement_files import SURFACE, Surface
from domainwise.errors import warn
from domainwise.experiment.integrity import Damaged
from domainwise.report.grid import Grid
from domainwise.report.matplotlib_svg import COLOURS, INK, Panel, panel

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

FISH, ARITH = COLOURS[1], COLOURS[0]
MOST = 0.75  # of the points of a plane
CLOSE = 0.25  # of the distance of the first two models: a loss written so near to a mark would hide its name


@dataclass(frozen=True)
class Drawn:
    """The contours of one surface, a panel for every domain."""

    about: str
    panels: Sequence[Panel]
    walked: bool


def surfaces(grid: Grid) -> list[Drawn]:
    """Draw the surface of every trial that kept one; one that is damaged is left out, with a warning."""
    drawn = []
    for name, target, seed, outcome in (
        (name, target, seed, outcome)
        for name, groups in grid.items()
        for target, group in groups.items()
        for seed, outcome in group.items()
    ):
        file = outcome.folder / SURFACE
        if not outcome.averaged and os.path.lexists(file):
            try:
                drawn.append(_drawn(Surface.read(file), f"{name}, target {target}, seed {seed}"))
            except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
                said = str(error) if isinstance(error, Damaged) else f"{file} is damaged"
                warn(f"{said}: the surface has to be measured again")
    return drawn


def _drawn(found: Surface | None, about: str) -> Drawn:
    if found is None:
        return Drawn(f"{about}: the walk diverged, so there is nothing to draw", [], True)
    about = f"{about}, {found.of}" if found.of else about
    about = f"{about}, a walk with steps of {found.lr:g}" if found.lr else about
    return Drawn(about, contours(found, f"around {about}"), found.start is not None)


def contours(found: Surface, about: str = "") -> list[Panel]:
    """Draw a panel per domain: triangles are the models, filled for the panel's own domain; the star is their mean."""
    return [
        panel(_title(found, domain), f"Loss surface of {domain} {about}".strip(), 3.1, partial(_draw, found, domain))
        for domain in found.losses
    ]


def _title(found: Surface, domain: str) -> str:
    return f"{domain} (target)" if domain in found.targets else domain


def picture(found: Surface, about: str = "") -> Panel:
    """Draw all domains in one picture, for a file."""
    described = f"Loss surfaces of {', '.join(found.losses)} {about}".strip()
    rows, columns = _arranged(len(found.losses))
    aspect = (found.b[-1] - found.b[0]) / (found.a[-1] - found.a[0])
    height = rows * (6.2 / columns * min(aspect, 1.5) + 0.4) + 0.7
    return panel("loss surfaces", described, height, partial(_draw_all, found), 6.8)


def _arranged(count: int) -> tuple[int, int]:
    """Return how many rows and columns so many panels take."""
    columns = 2 if count == 4 else min(3, count)
    return -(-count // columns), columns


def _draw_all(found: Surface, axes: Axes) -> None:
    """Draw each domain in its own part of the one picture."""
    figure = axes.figure
    axes.remove()
    rows, columns = _arranged(len(found.losses))
    first, second = list(found.models)[:2]
    for at, domain in enumerate(found.losses, 1):
        part = figure.add_subplot(rows, columns, at)
        part.set_title(_title(found, domain), fontsize=9)
        part.tick_params(labelsize=7)
        _draw(found, domain, part, size=0.8)
        if at % columns == 1 % columns:
            part.set_ylabel("at right angles", fontsize=8)
        if at > len(found.losses) - columns:
            part.set_xlabel(f"from {first} (0) to {second} (1)", fontsize=8)
    figure.legend(handles=_legend(found), loc="outside lower center", ncols=4, fontsize=7.5, frameon=False)


def _legend(found: Surface) -> list[Artist]:
    from matplotlib.lines import Line2D

    def mark(said: str, marker: str, colour: str, **how: Any) -> Line2D:
        return Line2D([], [], marker=marker, color=colour, linestyle="none", markersize=6, label=said, **how)

    def line(said: str, colour: str, width: float) -> Line2D:
        return Line2D([], [], color=colour, linewidth=width, label=said)

    contour, mean = line("loss of the domain", INK, 0.6), mark("their mean", "*", ARITH, markeredgewidth=0)
    triangle = {"markeredgecolor": INK, "markeredgewidth": 0.7}
    if found.start is None:
        return [contour, mark("a model", "^", "none", **triangle), mean]
    return [
        contour,
        mark("where the walk begins", "o", INK),
        mark("after each domain", "^", "none", **triangle),
        mark("after the panel's own domain", "^", COLOURS[4], **triangle),
        mean,
        line("where Fish heads", FISH, 1.4),
        line("where Arith heads", ARITH, 1.4),
    ]


def levels(losses: Sequence[Sequence[float]]) -> tuple[list[float], list[float]]:
    """Return the losses of the contours: round, equally far apart where most of the plane is, and ever farther above.

    Far from the models, losses may be a hundredfold.
    """
    from matplotlib.ticker import MaxNLocator

    finite = sorted(loss for row in losses for loss in row if math.isfinite(loss))
    if not finite:
        return [], []
    near = [float(level) for level in MaxNLocator(8).tick_values(finite[0], finite[int(MOST * (len(finite) - 1))])]
    step, far = near[1] - near[0], [near[-1]]
    while far[-1] + step < finite[-1]:
        step *= 2
        far.append(far[-1] + step)
    return near, far[1:]


def _loss(loss: float) -> str:
    return f"{loss:.2g}" if loss < 1e-3 else f"{loss:.3g}"


def _draw(found: Surface, domain: str, axes: Axes, size: float = 1.0) -> None:
    near, far = levels(found.losses[domain])
    how: dict[str, Any] = {"colors": INK, "linewidths": 0.6 * size}
    lines = axes.contour(found.a, found.b, found.losses[domain], levels=near, alpha=0.55, **how)
    marked = [*found.models.values(), found.mean, *([] if found.start is None else [found.start])]
    for text in axes.clabel(lines, near[::2], fontsize=6.5 * size, fmt=_loss):
        if any(math.dist(text.get_position(), place) < CLOSE for place in marked):
            text.remove()
    if far:
        axes.contour(found.a, found.b, found.losses[domain], levels=far, alpha=0.25, **how)
    for at, (name, place) in enumerate(found.models.items()):
        face = COLOURS[4] if name == domain else "none"
        axes.plot(*place, "^", color=face, markeredgecolor=INK, markersize=8 * size, markeredgewidth=0.9 * size)
        offset = (5 * size, -3 * size if at else -9 * size)
        said = axes.annotate(name, place, offset, textcoords="offset points", fontsize=7.5 * size)
        said.set_in_layout(False)  # a long name must not leave the picture no room
    if found.start is not None:
        axes.plot(*found.start, "o", color=INK, markersize=4 * size)
        for to, colour in ((found.end, FISH), (found.mean, ARITH)):
            arrow = {"arrowstyle": "->", "color": colour, "linewidth": 1.8 * size, "shrinkA": 0, "shrinkB": 3}
            axes.annotate("", to, found.start, arrowprops=arrow)
    axes.plot(*found.mean, "*", color=ARITH, markersize=10 * size, markeredgewidth=0)
    axes.set_aspect("equal")
    axes.grid(False)
