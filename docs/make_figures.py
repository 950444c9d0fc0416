"""Writes the pictures of docs/figures.md and the numbers beside them anew: python docs/make_figures.py.

Everything in them is computed, on one core in half a minute; docs/measured.json has the numbers.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from domainwise.analysis.ensemble import ensembles
from domainwise.analysis.loss_surface import places, surface, walk
from domainwise.analysis.task import Task, task
from domainwise.api import compare
from domainwise.data.sources.digits import digits
from domainwise.paper import sketches
from domainwise.paper.theory import STRATEGIES, Shares, expected, followed, path, three_bowls
from domainwise.report.matplotlib_svg import Panel, as_file
from domainwise.report.page.surfaces import picture
from domainwise.saved_models.saved import load

FOLDER, MEASURED = Path(__file__).parent / "figures", Path(__file__).parent / "measured.json"
BETWEEN, START = three_bowls(), torch.tensor([4.0, 3.0], dtype=torch.float64)


def drawn(found: Task, shares: Shares) -> dict[str, Panel]:
    """Every picture by the name of its file."""
    paths = {
        name: path(BETWEEN, START, STRATEGIES[name], inner_lr=0.6, inner_steps=6, rounds=120)
        for name in ("ERM", "MLDG", "Fish", "Arith")
    }
    return {
        "fan": sketches.fan_figure(BETWEEN, START, 0.1, 5),
        "weights": sketches.weights_figure(),
        "ends": sketches.path_figure(BETWEEN, paths),
        "surface": picture(surface(found)),
        "share": sketches.share_figure(found.sources[:3], expected(15), shares),
    }


def on_target(found: Task, models: Sequence[Tensor]) -> dict[str, float]:
    """How far the mean of some models' outputs is from the output of their mean weights, on the domain left out."""
    (target,) = set(found.domains) - set(found.sources)
    own = ensembles(found, models)[target]
    return {name: round(getattr(own, name), 6) for name in ("agreement", "apart", "spread")}


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        trial = compare(digits(), "arith", targets=["75"], seeds=1, snapshots=8, output=folder).outcomes[0]
        snapshots = sorted(trial.folder.glob("snapshots/*"), key=lambda path: int(path.name))
        early, late = (task(load(snapshots[at]), digits()) for at in (1, -1))  # updates 74 and 299 of 300
        second_half = list(places(late, snapshots[4:]).values())
    sources = early.sources[:3]
    minibatches = {name: early.minibatches(name, 5, 32) for name in sources}
    rounds = [[minibatches[name][i] for name in sources] for i in range(5)]
    memory = followed(list(early.net.parameters()), early.loss, rounds)
    FOLDER.mkdir(exist_ok=True)
    for name, panel in drawn(early, memory.shares).items():
        (FOLDER / f"{name}.svg").write_text(as_file(panel), encoding="utf-8")
    measured = {
        "walk": on_target(late, walk(late, sources)),
        "snapshots": on_target(late, second_half),
        "share_error": float(f"{memory.error:.0e}"),
    }
    MEASURED.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
