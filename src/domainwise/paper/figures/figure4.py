"""Figure 4: the share of each domain in the memory of an Adam that walks from domain to domain."""

from __future__ import annotations

from domainwise.analysis.task import Task
from domainwise.paper.drawing import Drawing
from domainwise.paper.theory.momentum_share import expected, figure, followed

TITLE = "Figure 4, what momentum in the walk does"
STEPS, DOMAINS, BATCH = 15, 3, 32
NOTE = "Lines are the shares of equally long gradients, computed: beta = 0.9, three domains in turn."


def render(task: Task | None = None) -> Drawing:
    """Computed and, with a trained model and its data, measured in a walk that moves it."""
    if task is None:
        return Drawing("figure4", TITLE, {"": figure(["1st", "2nd", "3rd"], expected(STEPS, DOMAINS))}, (NOTE,))
    names = task.sources[:DOMAINS]
    minibatches = {name: task.minibatches(name, STEPS // len(names), BATCH) for name in names}
    rounds = [list(legs) for legs in zip(*minibatches.values(), strict=True)]
    found = followed(list(task.net.parameters()), task.loss, rounds)
    said = (
        f"Dots are measured: the parts of the domains {', '.join(names)} in Adam's first moment along a walk from a "
        f"trained model; their sum differs from Adam's own memory by {found.error:.0e} of it at most."
    )
    return Drawing("figure4", TITLE, {"": figure(names, expected(STEPS, len(names)), found.shares)}, (NOTE, said))
