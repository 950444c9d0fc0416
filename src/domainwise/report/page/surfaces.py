"""Loss surfaces as contour pictures, one per domain."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainwise.errors import warn
from domainwise.experiment.integrity import Damaged, read, sealed
from domainwise.experiment.records import publish
from domainwise.report.drawing.matplotlib_svg import COLOURS, INK, Panel, panel
from domainwise.report.grid import Grid

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

FILE = "surface.json"
FISH, ARITH = COLOURS[1], COLOURS[0]
MOST = 0.75  # of the points of a plane


@dataclass(frozen=True)
class Surface:
    """``losses[domain][i][j]`` is the mean loss at ``(a[j], b[i])``."""

    a: Sequence[float]
    b: Sequence[float]
    losses: Mapping[str, Sequence[Sequence[float]]]
    start: tuple[float, float] | None  # where the walk began; None where the models are not those of a walk
    models: Mapping[str, tuple[float, float]]  # the end of each leg, by its domain, or models by their names
    targets: tuple[str, ...]
    of: str = ""  # which model of the trial, where it is not the selected one
    lr: float | None = None  # of the steps of the walk, where there was one

    @property
    def mean(self) -> tuple[float, float]:
        """Of the three models: what Arith heads for."""
        places = list(self.models.values())
        return sum(a for a, _ in places) / len(places), sum(b for _, b in places) / len(places)

    @property
    def end(self) -> tuple[float, float]:
        """Of the walk: what Fish heads for."""
        return list(self.models.values())[-1]

    def save(self, folder: Path) -> None:
        publish(folder / FILE, sealed(asdict(self)))


@dataclass(frozen=True)
class Drawn:
    """One surface of a page: contours, and what it takes to turn it, where that can be done."""

    about: str
    panels: Sequence[Panel]
    titles: Sequence[str]
    scene: Mapping[str, Any] | None
    walked: bool


def surfaces(grid: Grid) -> list[Drawn]:
    """The surface of every trial that has one kept; one that is damaged is left out, and said."""
    drawn = []
    for name, target, seed, outcome in (
        (name, target, seed, outcome)
        for name, groups in grid.items()
        for target, group in groups.items()
        for seed, outcome in group.items()
    ):
        file = outcome.folder / FILE
        if not outcome.averaged and os.path.lexists(file):
            try:
                drawn.append(_drawn(_read(file), f"{name}, target {target}, seed {seed}"))
            except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
                said = str(error) if isinstance(error, Damaged) else f"{file} is damaged"
                warn(f"{said}: the surface has to be measured again")
    return drawn


def _drawn(found: Surface | None, about: str) -> Drawn:
    from domainwise.report.page import turning

    if found is None:
        return Drawn(f"{about}: the walk left the finite numbers, and there is nothing to draw", [], [], None, True)
    about = f"{about}, {found.of}" if found.of else about
    about = f"{about}, a walk with steps of {found.lr:g}" if found.lr else about
    titles = {domain: _title(found, domain) for domain in found.losses}
    scene = turning.scene(found, titles) if turning.available() else None
    return Drawn(about, contours(found, f"around {about}"), list(titles.values()), scene, found.start is not None)


def _read(file: Path) -> Surface | None:
    """None where the models were at no finite place; a loss that is not finite is a hole in the surface."""
    kept = read(file)
    if None in kept["a"] or None in kept["b"]:
        return None
    models = {name: (a, b) for name, (a, b) in kept["models"].items()}
    start = None if kept["start"] is None else (kept["start"][0], kept["start"][1])
    losses = {
        name: [[math.nan if loss is None else loss for loss in row] for row in rows]
        for name, rows in kept["losses"].items()
    }
    own = {name: kept[name] for name in ("of", "lr") if name in kept}
    return Surface(kept["a"], kept["b"], losses, start, models, tuple(kept["targets"]), **own)


def contours(found: Surface, about: str = "") -> list[Panel]:
    """Triangles are the models, those at the end of a leg filled for the panel's own domain; the star is their mean."""
    return [
        panel(_title(found, domain), f"Loss surface of {domain} {about}".strip(), 3.1, partial(_draw, found, domain))
        for domain in found.losses
    ]


def _title(found: Surface, domain: str) -> str:
    return f"{domain} (unseen)" if domain in found.targets else domain


def picture(found: Surface, about: str = "") -> Panel:
    """All domains in one picture, for a file."""
    described = f"Loss surfaces of {', '.join(found.losses)} {about}".strip()
    rows, columns = _arranged(len(found.losses))
    aspect = (found.b[-1] - found.b[0]) / (found.a[-1] - found.a[0])
    height = rows * (3.4 / columns * min(aspect, 1.5) + 0.4) + 0.2
    return panel("loss surfaces", described, height, partial(_draw_all, found))


def _arranged(count: int) -> tuple[int, int]:
    """Rows and columns of so many."""
    columns = 2 if count == 4 else min(3, count)
    return -(-count // columns), columns


def _draw_all(found: Surface, axes: Axes) -> None:
    """Each in its own part of the one picture."""
    figure = axes.figure
    axes.remove()
    rows, columns = _arranged(len(found.losses))
    for at, domain in enumerate(found.losses, 1):
        part = figure.add_subplot(rows, columns, at)
        part.set_title(_title(found, domain), fontsize=7)
        part.tick_params(labelsize=5)
        _draw(found, domain, part, size=0.6)
    if found.start is not None:
        figure.legend(handles=_legend(), loc="outside lower center", ncols=5, fontsize=5, frameon=False)


def _legend() -> list[Artist]:
    from matplotlib.lines import Line2D

    def mark(said: str, marker: str, colour: str, **how: Any) -> Line2D:
        return Line2D([], [], marker=marker, color=colour, linestyle="none", markersize=4, label=said, **how)

    return [
        mark("where the walk begins", "o", INK),
        mark("after each domain", "^", "none", markeredgecolor=INK, markeredgewidth=0.5),
        mark("their mean", "*", ARITH, markeredgewidth=0),
        *(
            Line2D([], [], color=colour, linewidth=1.1, label=said)
            for said, colour in (("Fish", FISH), ("Arith", ARITH))
        ),
    ]


def levels(losses: Sequence[Sequence[float]]) -> tuple[list[float], list[float]]:
    """Of the contours: round ones that are equally far apart where most of the plane is, and above, where losses may be
    a hundredfold, ever farther."""
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


def _draw(found: Surface, domain: str, axes: Axes, size: float = 1.0) -> None:
    near, far = levels(found.losses[domain])
    how: dict[str, Any] = {"colors": INK, "linewidths": 0.6 * size}
    lines = axes.contour(found.a, found.b, found.losses[domain], levels=near, alpha=0.55, **how)
    axes.clabel(lines, near[::2], fontsize=6.5 * size, fmt=lambda loss: f"{loss:.2g}" if loss < 1e-3 else f"{loss:.3g}")
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
