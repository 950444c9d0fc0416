"""Figure 5: accuracy against the number of steps on each domain, for Fish and Arith."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from domainwise.api import Comparison
from domainwise.data.domains import Domains
from domainwise.experiment.results import Outcome
from domainwise.experiment.settings import Settings
from domainwise.paper.columns import over_domains
from domainwise.paper.comparison import Section, section
from domainwise.paper.drawing import Drawing
from domainwise.paper.numbers import AVG
from domainwise.paper.page import Page, page
from domainwise.paper.rows import Row, Wish, chosen, laid_out
from domainwise.report.drawing.matplotlib_svg import COLOURS, panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE = "Figure 5, steps on each domain (k)"
PRESET = "domainbed"
DATA = ("pacs",)
STEPS = (1, 2, 3, 5, 10)  # the paper does not say which
LOOKS = {"Fish": COLOURS[1], "Arith": COLOURS[0]}
NOTE = (
    "Lines are the mean over targets and seeds at the step chosen on the source domains, bars the error over seeds; "
    "dashed is the mean over the evaluations of the last two thirds of training. Every step on a domain has a "
    "minibatch of its own, and the number of rounds stays the same: k times as many images are seen. The paper's "
    "figure has Arith rising with k, and Fish rising and then falling; it gives no numbers."
)
ROWS = [
    Row(f"{name}, k = {k}", name.lower() + (f"(inner_steps={k})" if k > 1 else "")) for name in LOOKS for k in STEPS
]


def trials(data: Domains, settings: Settings, wish: Wish, folder: Path) -> Comparison:
    return laid_out(chosen(ROWS, wish, "figure 5"), data, settings, wish, "none", folder)


def render(outcomes: Sequence[Outcome], wish: Wish) -> tuple[Page, Drawing]:
    """The numbers, and the picture of them."""
    found = section(TITLE, over_domains("pacs", [AVG], outcomes), ROWS, outcomes, [], wish)
    numbers = page("figure5-numbers", TITLE, [found], outcomes, PRESET)
    drawn = panel("accuracy against steps on each domain", numbers.title, 2.8, partial(_draw, found))
    return numbers, Drawing("figure5", numbers.title, {"": drawn}, (NOTE, *numbers.notes))


def _draw(found: Section, axes: Axes) -> None:
    for name, colour in LOOKS.items():
        for view, style in (("selected", "o-"), ("late", "--")):
            cells = {
                k: entry.cells[view][-1]
                for k in STEPS
                for entry in found.entries
                if entry.row.name == f"{name}, k = {k}"
            }
            points = [(k, 100 * one.mean, 100 * (one.error or 0.0)) for k, one in cells.items() if one.mean is not None]
            if points:
                k, mean, error = zip(*points, strict=True)
                bars = error if view == "selected" else None
                label = name if view == "selected" else None
                axes.errorbar(
                    k, mean, bars, fmt=style, color=colour, linewidth=1.2, markersize=4, capsize=2, label=label
                )
    axes.set_xticks(STEPS)
    axes.set_xlabel("steps on each domain")
    axes.set_ylabel("accuracy in percent")
    axes.legend(frameon=False)
