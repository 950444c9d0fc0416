"""Figure 2: how much every leg of a walk counts, by strategy."""

from __future__ import annotations

from domainwise.paper.drawing import Drawing
from domainwise.paper.theory.sketches import weights_figure

TITLE = "Figure 2, weights of the legs"
NOTES = ("A row for every strategy, a box for every leg, as wide as the domains in it are many; weights sum to one.",)


def render(domains: int = 3) -> Drawing:
    return Drawing("figure2", TITLE, {"": weights_figure(domains)}, NOTES)
