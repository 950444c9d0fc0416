"""Loss surfaces as contour pictures, one per domain."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from domainwise.analysis.landscape import Surface
from domainwise.report.svg import COLOURS, INK, Panel, panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FISH, ARITH = COLOURS[1], COLOURS[0]


def contours(found: Surface, about: str = "") -> list[Panel]:
    """Triangles are the models at the end of each leg, filled for the panel's own domain; the star is their mean."""
    return [
        panel(_title(found, domain), f"Loss surface of {domain} {about}".strip(), 3.1, partial(_draw, found, domain))
        for domain in found.losses
    ]


def _title(found: Surface, domain: str) -> str:
    return f"{domain} (unseen)" if domain in found.targets else domain


def picture(found: Surface, about: str = "") -> Panel:
    """All domains in one picture, for a file."""
    described = f"Loss surfaces of {', '.join(found.losses)} {about}".strip()
    rows = -(-len(found.losses) // 3)
    return panel("loss surfaces", described, 1.55 * rows, partial(_draw_all, found))


def _draw_all(found: Surface, axes: Axes) -> None:
    """Each in its own part of the one picture."""
    figure = axes.figure
    axes.remove()
    rows = -(-len(found.losses) // 3)
    for at, domain in enumerate(found.losses, 1):
        part = figure.add_subplot(rows, min(3, len(found.losses)), at)
        part.set_title(_title(found, domain), fontsize=7)
        part.tick_params(labelsize=5)
        _draw(found, domain, part, size=0.6)


def _draw(found: Surface, domain: str, axes: Axes, size: float = 1.0) -> None:
    a, b, losses = found.a.tolist(), found.b.tolist(), found.losses[domain].tolist()
    lines = axes.contour(a, b, losses, levels=9, colors=INK, linewidths=0.6 * size, alpha=0.55)
    axes.clabel(lines, fontsize=6.5 * size, fmt="%.3g")
    for at, (name, place) in enumerate(found.models.items()):
        face = COLOURS[4] if name == domain else "none"
        axes.plot(*place, "^", color=face, markeredgecolor=INK, markersize=8 * size, markeredgewidth=0.9 * size)
        offset = (5 * size, -3 * size if at else -9 * size)
        axes.annotate(name, place, offset, textcoords="offset points", fontsize=7.5 * size)
    axes.plot(*found.start, "o", color=INK, markersize=4 * size)
    for to, colour in ((found.end, FISH), (found.mean, ARITH)):
        arrow = {"arrowstyle": "->", "color": colour, "linewidth": 1.8 * size, "shrinkA": 0, "shrinkB": 3}
        axes.annotate("", to, found.start, arrowprops=arrow)
    axes.plot(*found.mean, "*", color=ARITH, markersize=10 * size, markeredgewidth=0)
    axes.set_aspect("equal")
    axes.grid(False)
