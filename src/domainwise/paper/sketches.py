"""Drawings of a weighted walk on bowls: the directions it can take, its weights, and where methods end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor

from domainwise.paper.theory import STRATEGIES, Bowls, Shares, displacement, fan, visited
from domainwise.report.matplotlib_svg import COLOURS, INK, Panel, panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

YELLOW = COLOURS[4]
SHOWN = 20  # rounds of a path: more hide one another
LOOKS = {"ERM": INK, "MLDG": COLOURS[3], "MAML": COLOURS[2], "Fish": COLOURS[1], "Arith": COLOURS[0]}


def fan_figure(bowls: Bowls, start: Tensor, inner_lr: float, inner_steps: int) -> Panel:
    """Draw the directions of all weighted walks as rays; the arrow of Arith ends at the mean of the models visited."""
    described = "The fan of directions that a weighted walk can take, with those of Fish, MAML and Arith"
    return panel("directions of a weighted walk", described, 3.0, partial(_fan, bowls, start, inner_lr, inner_steps), 5)


def _fan(bowls: Bowls, start: Tensor, inner_lr: float, inner_steps: int, axes: Axes) -> None:
    legs = [(domain,) for domain in range(len(bowls))]
    longer = (len(bowls) + 1) / 2  # weights that sum to one lead Arith to this share of the mean of the models
    for tip in (start + longer * fan(bowls, start, inner_lr, inner_steps)).tolist():
        axes.plot([start[0], tip[0]], [start[1], tip[1]], color=YELLOW, linewidth=0.5, alpha=0.45)
    axes.plot([], [], color=YELLOW, linewidth=0.8, label="where weights can lead")
    models = visited(bowls, start, legs, inner_lr, inner_steps)
    axes.plot(*models.T.tolist(), "o--", color=INK, linewidth=0.8, markersize=3, markeredgewidth=0, label="the walk")
    for name, width in (("MAML", 1.6), ("Arith", 2.4), ("Fish", 1.2)):  # Fish's is shorter, and lies on Arith's
        move = displacement(bowls, start, legs, STRATEGIES[name].combine, inner_lr, inner_steps)
        arrow = {"arrowstyle": "->", "color": LOOKS[name], "linewidth": width, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", _point(start + longer * move), _point(start), arrowprops=arrow)
        axes.plot([], [], color=LOOKS[name], linewidth=width, label=name)
    _landmarks(bowls, axes)


def solid_figure(bowls: Bowls, start: Tensor, inner_lr: float, inner_steps: int) -> Panel:
    """Draw the fan in three parameters: all weighted walks end on one flat triangle, wherever their weights lead."""
    described = "The triangle of places that a weighted walk in three parameters can head for, with Fish and Arith"
    return panel("directions in three parameters", described, 3.6, partial(_solid, bowls, start, inner_lr, inner_steps))


def _solid(bowls: Bowls, start: Tensor, inner_lr: float, inner_steps: int, flat: Axes) -> None:
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection

    figure: Any = flat.figure
    flat.remove()
    axes = figure.add_subplot(projection="3d")
    corners, models, tips = heads(bowls, start, inner_lr, inner_steps)
    axes.add_collection3d(Poly3DCollection([corners.tolist()], facecolor=YELLOW, edgecolor=YELLOW, alpha=0.35))
    axes.plot([], [], "s", color=YELLOW, alpha=0.6, label="where weights can lead")
    for corner in corners:
        axes.plot(*zip(start.tolist(), corner.tolist(), strict=True), ":", color=YELLOW, linewidth=0.9)
    axes.plot(*models.T.tolist(), "o--", color=INK, linewidth=0.8, markersize=3, label="the walk")
    for name, tip in tips.items():
        axes.quiver(*start.tolist(), *(tip - start).tolist(), color=LOOKS[name], linewidth=1.8, arrow_length_ratio=0.09)
        axes.plot([], [], color=LOOKS[name], linewidth=1.8, label=name)
    axes.plot(*bowls.centres.T.tolist(), "^", color=INK, markersize=6, label="optimum of a domain")
    for number, (x, y, z) in enumerate(bowls.centres.tolist(), 1):
        right, up = (0.25, -0.2) if number == 2 else (0, 0.5)  # above the second one is Arith's arrow
        axes.text(x, y + right, z + up, str(number), zorder=10)
    axes.plot(*bowls.centroid[:, None].tolist(), "*", color=INK, markersize=8, label="centroid")
    axes.set(xlabel="x", ylabel="y", zlabel="z", xticks=range(6), yticks=range(6), zticks=range(6))
    axes.grid(visible=False)
    axes.view_init(elev=24, azim=-16)
    axes.tick_params(labelsize=7, pad=-2)
    axes.set_box_aspect((1, 1, 1), zoom=0.9)
    axes.legend(frameon=False, fontsize=7, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.03))


def heads(bowls: Bowls, start: Tensor, inner_lr: float, inner_steps: int) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Return the corners of the triangle, the models visited, and the tips of Fish's and of Arith's arrow.

    Weights that sum to one lead to the triangle; the arrows go on to where Arith is at the mean of the models visited.
    """
    legs = [(domain,) for domain in range(len(bowls))]
    longer = (len(bowls) + 1) / 2
    corners = start + fan(bowls, start, inner_lr, inner_steps, parts=1)
    moves = {
        name: displacement(bowls, start, legs, STRATEGIES[name].combine, inner_lr, inner_steps)
        for name in ("Fish", "Arith")
    }
    tips = {name: start + longer * move for name, move in moves.items()}
    return corners, visited(bowls, start, legs, inner_lr, inner_steps), tips


def path_figure(bowls: Bowls, paths: Mapping[str, Tensor]) -> Panel:
    """Draw the paths from their common start as thin lines; a dot is where a method ends on average."""
    described = f"Paths of {', '.join(paths)} between the optima of {len(bowls)} domains, and where they end"
    return panel("where methods end", described, 3.2, partial(_paths, bowls, paths), 5.2)


def _paths(bowls: Bowls, paths: Mapping[str, Tensor], axes: Axes) -> None:
    for name, places in paths.items():
        axes.plot(*places[:SHOWN].T.tolist(), color=LOOKS[name], linewidth=0.6, alpha=0.6)
        mean = places[len(places) // 2 :].mean(0)
        axes.plot(
            *mean[:, None].tolist(),
            "o",
            color=LOOKS[name],
            markersize=6,
            markeredgewidth=0,
            label=f"{name}, where it ends",
        )
    axes.plot([], [], color=INK, linewidth=0.6, alpha=0.6, label=f"its first {SHOWN} rounds")
    _landmarks(bowls, axes)


def _landmarks(bowls: Bowls, axes: Axes) -> None:
    axes.plot(*bowls.centres.T.tolist(), "^", color=INK, markersize=7, markeredgewidth=0, label="optimum of a domain")
    for number, centre in enumerate(bowls.centres, 1):
        axes.annotate(str(number), _point(centre), (8, -3), textcoords="offset points", ha="center")
    axes.plot(
        *bowls.centroid[:, None].tolist(), "*", color=INK, markersize=11, fillstyle="none", zorder=5, label="centroid"
    )
    axes.set(xlabel="first parameter", ylabel="second parameter")
    axes.set_aspect("equal")
    axes.margins(0.12)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))


def _point(place: Tensor) -> tuple[float, float]:
    return float(place[0]), float(place[1])


def weights_figure(domains: int = 3) -> Panel:
    """Draw a row for every strategy and a box for every leg, as wide as it has domains."""
    described = f"Weights of the legs of each strategy over {domains} domains"
    return panel("weights of the legs", described, 0.7 + 0.42 * len(STRATEGIES), partial(_weights, domains))


def _weights(domains: int, axes: Axes) -> None:
    from matplotlib.patches import Rectangle

    for row, (name, strategy) in enumerate(STRATEGIES.items()):
        left = 0
        for leg, weight in zip(strategy.legs(range(domains)), strategy.weights(domains), strict=True):
            box = (left + 0.04, row - 0.36)
            fill = Rectangle(
                box, len(leg) - 0.08, 0.72, facecolor=LOOKS[name], alpha=0.1 + 0.3 * weight, edgecolor="none"
            )
            axes.add_patch(fill)
            axes.text(left + len(leg) / 2, row, f"{weight:.2g}", ha="center", va="center")
            left += len(leg)
    axes.set_xlim(0, domains)
    axes.set_ylim(len(STRATEGIES) - 0.5, -0.5)
    axes.set_yticks(range(len(STRATEGIES)), list(STRATEGIES))
    axes.set_xticks([i + 0.5 for i in range(domains)], [f"domain {i + 1}" for i in range(domains)])
    axes.set_xlabel("in the order of the visits")
    axes.grid(False)


def share_figure(names: Sequence[str], analytic: Shares, measured: Shares | None = None) -> Panel:
    """Draw the computed shares as lines, the measured ones as dots."""
    described = f"Share of domains {', '.join(names)} in the first moment of Adam against the step"
    return panel("share in the first moment of Adam", described, 2.8, partial(_shares, names, analytic, measured), 5)


def _shares(names: Sequence[str], analytic: Shares, measured: Shares | None, axes: Axes) -> None:
    for at, name in enumerate(names):
        colour = COLOURS[at % len(COLOURS)]
        said = f"{name}, computed" if measured else name
        axes.plot(range(1, len(analytic) + 1), [row[at] for row in analytic], color=colour, linewidth=1.4, label=said)
        if measured is not None:
            steps = range(1, len(measured) + 1)
            own = [row[at] for row in measured]
            axes.plot(steps, own, "o", color=colour, markersize=3.5, markeredgewidth=0, label=f"{name}, measured")
    axes.set_xlabel("step of the walk")
    axes.set_ylabel("share of a domain in Adam's memory")
    axes.set_ylim(-0.03, 1.03)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
