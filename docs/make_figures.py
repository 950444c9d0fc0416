"""Writes the pictures of docs/figures.md anew: python docs/make_figures.py. Everything in them is computed."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

from domainwise.analysis.loss_surface import surface
from domainwise.analysis.task import task
from domainwise.api import compare
from domainwise.data.sources.digits import digits
from domainwise.paper import sketches
from domainwise.paper.theory import STRATEGIES, expected, followed, path, three_bowls
from domainwise.report.drawing.matplotlib_svg import as_file
from domainwise.report.page.surfaces import picture
from domainwise.saved_models.saved import load

FOLDER = Path(__file__).parent / "figures"


def main() -> None:
    torch.set_num_threads(1)
    bowls, start = three_bowls(), torch.tensor([4.0, 3.0], dtype=torch.float64)
    methods = {name: STRATEGIES[name] for name in ("ERM", "MLDG", "Fish", "Arith")}
    paths = {
        name: path(bowls, start, strategy, inner_lr=0.6, inner_steps=6, rounds=120)
        for name, strategy in methods.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        trial = compare(digits(), "erm", targets=["75"], seeds=1, output=folder).outcomes[0]
        found = task(load(trial.folder), digits())
    sources = found.sources[:3]
    surfaces = picture(surface(found))
    minibatches = {name: found.minibatches(name, 5, 32) for name in sources}
    rounds = [[minibatches[name][i] for name in sources] for i in range(5)]
    shares = followed(list(found.net.parameters()), found.loss, rounds)
    drawn = {
        "fan": sketches.fan_figure(bowls, start, 0.1, 5),
        "weights": sketches.weights_figure(),
        "ends": sketches.path_figure(bowls, paths),
        "surface": surfaces,
        "share": sketches.share_figure(sources, expected(15), shares.shares),
    }
    FOLDER.mkdir(exist_ok=True)
    for name, panel in drawn.items():
        (FOLDER / f"{name}.svg").write_text(as_file(panel), encoding="utf-8")
    print(f"sum of the parts against Adam's own memory: {shares.error:.1e}")


if __name__ == "__main__":
    main()
