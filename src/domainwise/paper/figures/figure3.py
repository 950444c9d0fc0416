"""Figure 3: the losses of every domain on the plane through three models of a walk, from a trained model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from domainwise.analysis.loss_surface import surface
from domainwise.analysis.task import Task, task
from domainwise.api import Comparison
from domainwise.data.domains import Domains
from domainwise.experiment.results import Outcome
from domainwise.experiment.settings import Settings
from domainwise.paper.columns import names_of, stand_in
from domainwise.paper.drawing import Drawing
from domainwise.paper.rows import Row, Wish, chosen, laid_out
from domainwise.report.page.surfaces import picture
from domainwise.saved_models.saved import loaded
from domainwise.training.plan import targets_of

TITLE = "Figure 3, loss surfaces"
PRESET = "domainbed"
DATA = ("pacs",)
ROWS = [Row("Arith", "arith")]
NOTE = (
    "30 updates on each of three source domains in sequence, from the trained model (dot); the plane through the three "
    "models reached (triangles), their mean (star); contours are the loss of each domain. Arrows: where Fish (the end "
    "of the walk) and Arith (the mean) head."
)


def trials(data: Domains, settings: Settings, wish: Wish, folder: Path) -> Comparison:
    """One, whose model has to be kept: it holds out the last of the targets."""
    last = "+".join(targets_of(data, wish.targets)[-1])
    one = replace(wish, targets=last, seeds=1)
    return laid_out(chosen(ROWS, one, "figure 3"), data, settings, one, "none", folder)


def trained(outcome: Outcome, data: Domains, device: str = "cpu", images: int = 1000) -> Task:
    return task(loaded(outcome.folder, device=device, which="best", named=outcome.trial), data, images)


def render(
    outcomes: Sequence[Outcome], data: Domains, *, device: str = "cpu", points: int = 21, margin: float = 0.5
) -> Drawing:
    (outcome,) = outcomes
    found = surface(trained(outcome, data, device), points=points, margin=margin)
    other, trial = stand_in(names_of(outcomes)), outcome.trial
    model = f"The model is {trial.label} on {trial.data}, target {trial.targets[0]}, seed {trial.seed}"
    notes = (NOTE, f"{model}; the updates are steps of {found.lr:g}.")
    title = f"{TITLE}: {other} stands in for the paper's data" if other else TITLE
    return Drawing("figure3", title, {"": picture(found)}, notes)
