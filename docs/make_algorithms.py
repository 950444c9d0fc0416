"""Writes algorithms.md from the algorithms themselves: their docstrings, fields and measured costs.

A docstring has a summary that ends in the paper in brackets, a paragraph that starts with "Loss:" or "Direction:", and
one that starts with whoever does it otherwise ("DomainBed:", "The authors' code:") where somebody does.
"""

from __future__ import annotations

import json
import re
from inspect import getdoc
from pathlib import Path
from typing import Any

from domainwise.algorithms import Algorithm, create, hypers, names

HERE = Path(__file__).parent
SHARED = hypers(Algorithm)
INTRODUCTION = """# Algorithms

<!-- Written by docs/make_algorithms.py from the code: edit the docstrings in src/domainwise/algorithms instead. -->

Every algorithm trains with `lr` (5e-5) and `weight_decay` (0) of an outer Adam, and takes one minibatch of every source
domain per update. `CE` is the mean cross-entropy, `e` a source domain, `n` their number, `g` a gradient, `H` a Hessian,
`U` a uniform draw. A random search draws what has a draw and leaves the rest at its default; `lr` and `weight_decay`
are drawn by the benchmark's preset. An `inner_lr` that is not given is 0.01 for sgd, 0.001 for momentum, `lr` for adam;
all that is known of other values is that with a pretrained ResNet-50 on PACS (sgd, outer Adam at 5e-5) 1 of 8 runs
diverged at 0.03 and 2 of 4 at 0.05, that a step of 0.01 early in training can raise the loss it descends, and that
nothing between 5e-5 and 0.01 was tried. Differences from other code are on purpose, and what brings that code's
behaviour back is named.

Four settings change the training of all of them, as in `--set 'optimizer=sgd(momentum=0.9)' --set clip=1`: `optimizer`
is in the place of the outer Adam (`adam(amsgrad=True)`, `adamw`, `sgd(momentum=0.9)`), `schedule` moves its learning
rate (`linear(warmup=100)`, `step(every=500, by=0.96)`), `clip` is the largest norm of its gradient, and `erm_updates`
is how many updates ERM makes before the algorithm begins. With `outer='interpolate'` there is no outer optimizer.
"""
COSTS = """
## Cost

One update over one of ERM on the same images, from `python benchmarks/cost.py`, penalties active from the start:
{labels}.

Three stand out. ARM's context network runs 5 x 5 convolutions of 64 channels at full resolution, as published: more
work than all of a ResNet-50, let alone of a small network. `hutchinson(draws=300)` multiplies 300 random sign matrices
per domain with the Hessian of the head, 7.2 times ERM on the CPU and 1.1 on the GPU; the default, `draws=0`, is the
exact diagonal at the price of one matrix product. MLDG visits every domain twice, before and after its inner step.

The GPU column is the device's part of an update, replayed as a CUDA graph; launched kernel by kernel, the algorithms
that go through the network once per domain cost more (Arith 1.9, AND-mask 2.7, MLDG 3.7), since the host cannot keep
up with the device.

---

[All pages](README.md) · Next: [A model to use](predict.md)
"""


def page() -> str:
    costs = json.loads((HERE / "costs.json").read_text())
    header = ["name", "what it does", "objective", "hyperparameters", *(f"cost, {c}" for c in costs), "elsewhere"]
    rows = [row(name, costs) for name in names()]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows))
    labels = "; ".join(f"{label}: {measured['setting']}" for label, measured in costs.items())
    return INTRODUCTION + "\n" + table + "\n" + COSTS.format(labels=labels)


def row(name: str, costs: dict[str, dict[str, Any]]) -> list[str]:
    cls = type(create(name))
    summary, objective, elsewhere = parts(cls)
    measured = [f"{cost[name]:.2g}" if name in cost else "not measured" for cost in costs.values()]
    return [f"`{name}`", summary, escaped(objective), settings(cls), *measured, escaped(elsewhere) or "-"]


def costs_of(name: str) -> list[str]:
    """Return what an update costs, in updates of ERM: a line for every machine."""
    costs = json.loads((HERE / "costs.json").read_text())
    return [
        f"{label}: {f'{cost[name]:.2g} times ERM' if name in cost else 'not measured'} ({cost['setting']})"
        for label, cost in costs.items()
    ]


def parts(cls: type[Algorithm]) -> tuple[str, str, str]:
    """Summary with the paper, objective, and how others do it."""
    summary, *rest = (" ".join(paragraph.split()) for paragraph in (getdoc(cls) or "").split("\n\n"))
    if not re.search(r"\([^()]*\d{4}\)\.$", summary):
        raise ValueError(f"{cls.__name__}: the summary must end in the paper, (Authors, year).")
    if not rest or not rest[0].startswith(("Loss: ", "Direction: ")):
        raise ValueError(f'{cls.__name__}: the second paragraph must start with "Loss:" or "Direction:"')
    return summary, rest[0], " ".join(rest[1:])


def settings(cls: type[Algorithm]) -> str:
    lines = []
    for name, (field, about) in hypers(cls).items():
        if name not in SHARED or field.default != SHARED[name][0].default:
            drawn = f"; draw {about.draw}" if about.draw else ""
            allowed = "" if isinstance(field.default, bool) else f"; {about.range()}"
            lines.append(f"`{name}` = {about.shown(field.default)}{escaped(allowed)}{drawn}")
    return "<br>".join(lines) or "-"


def escaped(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|")


def main() -> None:
    (HERE / "algorithms.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
