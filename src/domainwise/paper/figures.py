"""The paper's figures: computed (1, 2, 4), from a trained model (3, 4), or from trials (5)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from domainwise.analysis.loss_surface import surface
from domainwise.analysis.task import Task, task
from domainwise.data.domains import Domains
from domainwise.experiment.results import Outcome
from domainwise.files import write_output
from domainwise.paper.comparison import Section
from domainwise.paper.layout import PaperRequest, Row, names_of, stand_in
from domainwise.paper.numbers import AVG
from domainwise.paper.page import Page
from domainwise.paper.sketches import fan_figure, path_figure, share_figure, solid_figure, weights_figure
from domainwise.paper.tables import PaperTable, Part, per_domain
from domainwise.paper.theory import STRATEGIES, expected, followed, path, ternary_bowls, three_bowls
from domainwise.report.matplotlib_svg import COLOURS, Panel, as_file, panel
from domainwise.report.page.surfaces import picture
from domainwise.saved_models.saved import loaded

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Drawing:
    """One figure of the paper as pictures with notes."""

    name: str  # of its files: "figure1"
    title: str
    panels: Mapping[str, Panel]  # by what is added to the name: "" or "-ends"
    notes: tuple[str, ...] = ()

    def write(self, folder: Path) -> list[Path]:
        """Write every picture as SVG, PNG and PDF, and the notes as text; returns the files."""
        about = folder / f"{self.name}.txt"
        write_output(about, "\n".join([self.title, *self.notes]) + "\n")
        files = [about]
        for added, one in self.panels.items():
            contents: dict[str, str | bytes] = {"svg": as_file(one), "png": one.png(), "pdf": one.pdf()}
            files += [
                write_output(folder / f"{self.name}{added}.{suffix}", content) for suffix, content in contents.items()
            ]
        return files


def figure1() -> Drawing:
    """Draw the directions that a weighted walk can take, computed from three bowls with known optima."""
    bowls, start = three_bowls(), torch.tensor([4.0, 3.0], dtype=torch.float64)
    paths = {
        name: path(bowls, start, STRATEGIES[name], inner_lr=0.6, inner_steps=6, rounds=120)
        for name in ("ERM", "MLDG", "Fish", "Arith")
    }
    notes = (
        "The first picture has three domains whose losses are bowls of three parameters. Weights that sum to one lead "
        "to the yellow triangle, and gradients are matched in every direction through it. Fish heads for the last "
        "model of the walk, Arith for the mean of the models.",
        "The second follows plain interpolation between three bowls of different steepness and two parameters. Legs "
        "are long enough to come near the optima. Dots are where a method ends on average, over the second half of "
        "its path.",
        "The third is the first for these bowls. Rays are the directions of all weights that sum to one; the arrow of "
        "Arith ends at the mean of the models visited, that of Fish, which lies on it, points to the last of them.",
    )
    corner = torch.full((3,), 5.0, dtype=torch.float64)
    panels = {
        "": solid_figure(ternary_bowls(), corner, 0.1, 12),
        "-ends": path_figure(bowls, paths),
        "-plane": fan_figure(bowls, start, 0.1, 5),
    }
    return Drawing("figure1", "Figure 1, directions of a weighted walk", panels, notes)


def figure2(domains: int = 3) -> Drawing:
    """Draw how much every leg of a walk counts, by strategy."""
    note = "A row for every strategy, a box for every leg, as wide as the domains in it are many; weights sum to one."
    return Drawing("figure2", "Figure 2, weights of the legs", {"": weights_figure(domains)}, (note,))


# The models that figures 3 and 4 look inside: in mid-training, where no loss is zero yet, as training to the end makes
# those of the sources. Every update has the same size, so the first 701 of 5001 are a trial of 701.
FIGURE3 = PaperTable(
    "figure3",
    "Figure 3, loss surfaces",
    [Part([Row("Arith", "arith")], lambda *_: [])],
    ("pacs",),
    steps={"pacs": 701},
    models=2,
)


def open_task(outcome: Outcome, data: Domains, device: str = "cpu", images: int = 1000) -> Task:
    """Load the last model of a trial, or its selected one, together with the data it was trained on."""
    last = max(outcome.folder.glob("snapshots/*"), key=lambda path: int(path.name), default=outcome.folder)
    which = "best" if last == outcome.folder else None
    return task(loaded(last, device=device, which=which, named=outcome.trial), data, images)


def figure3(
    outcomes: Sequence[Outcome], data: Domains, *, device: str = "cpu", points: int = 21, margin: float = 0.5
) -> Drawing:
    """Draw the losses of every domain on the plane through three models of a walk, a picture for every target."""
    measured = [(one, surface(open_task(one, data, device), points=points, margin=margin)) for one in outcomes]
    other = stand_in(names_of(outcomes))
    notes = (
        "30 updates on each of three source domains in sequence, from a model in mid-training (dot); the plane through "
        "the three models reached (triangles), their mean (star); contours are the loss of each domain. Arrows: where "
        "Fish (the end of the walk) and Arith (the mean) head.",
        *(
            f"{outcome.trial.targets[0]} unseen: {outcome.trial.label} on {outcome.trial.data}, seed "
            f"{outcome.trial.seed}, after {outcome.trial.steps} updates; those of the walk are steps of {found.lr:g}."
            for outcome, found in measured
        ),
    )
    title = FIGURE3.title + (f": {other} stands in for the paper's data" if other else "")
    panels = {f"-{_file_name(one.trial.targets[0])}": picture(found) for one, found in measured}
    return Drawing("figure3", title, panels, notes)


def _file_name(target: str) -> str:
    return re.sub(r"[^\w.-]+", "-", target)


def figure4(model: Task | None = None, *, steps: int = 15, domains: int = 3, batch: int = 32) -> Drawing:
    """Draw each domain's share in the memory of an Adam that walks: computed, and measured where a model is given."""
    title = "Figure 4, what momentum in the walk does"
    note = "Lines are the shares of equally long gradients, computed: beta = 0.9, three domains in turn."
    if model is None:
        return Drawing("figure4", title, {"": share_figure(["1st", "2nd", "3rd"], expected(steps, domains))}, (note,))
    names = model.sources[:domains]
    minibatches = {name: model.minibatches(name, steps // len(names), batch) for name in names}
    rounds = [list(legs) for legs in zip(*minibatches.values(), strict=True)]
    measured = followed(list(model.net.parameters()), model.loss, rounds)
    more = (
        f"Dots are measured: the parts of the domains {', '.join(names)} in Adam's first moment along a walk from a "
        f"trained model; their sum differs from Adam's own memory by {measured.error:.0e} of it at most."
    )
    shares = share_figure(names, expected(steps, len(names)), measured.shares)
    return Drawing("figure4", title, {"": shares}, (note, more))


STEPS5 = (1, 2, 3, 5, 10)  # the paper does not say which
LOOKS5 = {"Fish": COLOURS[1], "Arith": COLOURS[0]}
FIGURE5 = PaperTable(
    "figure5-numbers",
    "Figure 5, steps on each domain (k)",
    [
        Part(
            [
                Row(f"{name}, k = {k}", name.lower() + (f"(inner_steps={k})" if k > 1 else ""))
                for name in LOOKS5
                for k in STEPS5
            ],
            partial(per_domain, "pacs", [AVG]),
        )
    ],
    ("pacs",),
)


def figure5(outcomes: Sequence[Outcome], request: PaperRequest) -> tuple[Page, Drawing]:
    """Draw accuracy against the number of steps on each domain, for Fish and Arith; the numbers come first."""
    page = FIGURE5.render(outcomes, request)
    note = (
        "Selected: the mean over targets and seeds at the step chosen on the source domains, bars the error over "
        "seeds; late: the mean over the evaluations of the last two thirds of training. Every step on a domain has "
        "a minibatch of its own, and the number of rounds stays the same: k times as many images are seen. The paper's "
        "figure has Arith rising with k, and Fish rising and then falling; it gives no numbers."
    )
    drawn = panel("accuracy against steps on each domain", page.title, 2.8, partial(_draw5, page.sections[0]), 5)
    return page, Drawing("figure5", page.title, {"": drawn}, (note, *page.notes))


def _draw5(section: Section, axes: Axes) -> None:
    entries = {entry.row.name: entry for entry in section.entries}
    for name, colour in LOOKS5.items():
        for view, style in (("selected", "o-"), ("late", "--")):
            cells = {k: entries[f"{name}, k = {k}"].cells[view][-1] for k in STEPS5}
            points = [(k, 100 * one.mean, 100 * (one.error or 0.0)) for k, one in cells.items() if one.mean is not None]
            if points:
                k, mean, error = zip(*points, strict=True)
                bars = error if view == "selected" and any(error) else None
                axes.errorbar(
                    k,
                    mean,
                    bars,
                    fmt=style,
                    color=colour,
                    linewidth=1.2,
                    markersize=4,
                    capsize=2,
                    label=f"{name}, {view}",
                )
    axes.set_xticks(STEPS5)
    axes.set_xlabel("steps on each domain (k)")
    axes.set_ylabel("accuracy on the target, %")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
