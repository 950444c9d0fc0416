"""Figure 1: the directions that a weighted walk can take, computed from three bowls with known optima."""

from __future__ import annotations

import torch

from domainwise.paper.drawing import Drawing
from domainwise.paper.theory.bowls import STRATEGIES, path, three_bowls
from domainwise.paper.theory.sketches import fan_figure, path_figure

TITLE = "Figure 1, directions of a weighted walk"
NOTES = (
    "Three domains whose losses are bowls of different steepness. Rays are the directions of all weights that sum to "
    "one; the arrow of Arith ends at the mean of the models visited, that of Fish points to the last of them.",
    "The second picture follows plain interpolation with legs long enough to come near the optima: dots are where a "
    "method ends on average, over the second half of its path.",
)


def render() -> Drawing:
    bowls, start = three_bowls(), torch.tensor([4.0, 3.0], dtype=torch.float64)
    paths = {
        name: path(bowls, start, STRATEGIES[name], inner_lr=0.6, inner_steps=6, rounds=120)
        for name in ("ERM", "MLDG", "Fish", "Arith")
    }
    panels = {"": fan_figure(bowls, start, 0.1, 5), "-ends": path_figure(bowls, paths)}
    return Drawing("figure1", TITLE, panels, NOTES)
