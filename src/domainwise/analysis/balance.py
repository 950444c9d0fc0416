"""Measure whether a model lies equally far from every domain's optimum.

The optimum itself is out of reach; a domain's *expert* stands for it: where k steps of descent on that domain alone
lead from the model. All experts of a model start at it and take equally many steps, so their distances compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from math import acos, degrees
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from domainwise.analysis.loss_surface import walk
from domainwise.analysis.task import Losses, Task, gradient, kept, place, put
from domainwise.errors import InputError
from domainwise.experiment.records import finite
from domainwise.saved_models.saved import CONFIG, read

ByDomain = Mapping[str, float]


@dataclass(frozen=True)
class Balance:
    """The distances, angles and losses between a model and the expert of every source domain."""

    distances: Mapping[str, float]  # from the model to every source's expert
    variation: float  # coefficient of variation of these: 0 is equally far from all
    off_centroid: float  # from the model to the mean of the experts, in units of the mean distance to an expert
    angles: Mapping[str, float]  # between the gradients of two sources at the model, in degrees, by "a, b"
    at_model: ByDomain
    at_experts: Mapping[str, ByDomain]
    at_mean: ByDomain  # of the experts

    @property
    def angle(self) -> float:
        """The mean angle between the gradients of two sources, in degrees."""
        return sum(self.angles.values()) / len(self.angles)

    @property
    def gain(self) -> float:
        """The sources' mean loss at the model less that at the mean of the experts."""
        return sum(self.at_model[name] - self.at_mean[name] for name in self.distances) / len(self.distances)

    def to_json(self) -> dict[str, Any]:
        """Return plain values to write to a file; None stands for a number that is not finite."""
        found: dict[str, Any] = finite({**asdict(self), "angle": self.angle, "gain": self.gain})
        return found


def balance(task: Task, *, steps: int = 30, lr: float = 1e-2, batch: int = 32, compiled: bool = False) -> Balance:
    """Measure a model, which stays as it was. ``compiled`` pays off for many models of one network on a GPU."""
    params = list(task.net.parameters())
    home = place(params)
    with task.measuring(compiled=compiled), kept(params):
        experts = {name: walk(task, [name], steps=steps, lr=lr, batch=batch)[0] for name in task.sources}
        mean = torch.stack(list(experts.values())).mean(0)
        distances = {name: float((expert - home).norm()) for name, expert in experts.items()}
        lengths = torch.tensor(list(distances.values()), dtype=torch.float64)
        losses = Losses(task)
        return Balance(
            distances,
            float(lengths.std(correction=0) / lengths.mean()),
            float((mean - home).norm() / lengths.mean()),
            _angles({name: gradient(task, name) for name in task.sources}),
            _losses(losses, params, home),
            {name: _losses(losses, params, expert) for name, expert in experts.items()},
            _losses(losses, params, mean),
        )


def _angles(gradients: Mapping[str, Tensor]) -> dict[str, float]:
    found = {}
    for (one, g), (other, h) in combinations(gradients.items(), 2):
        cosine = float(torch.nn.functional.cosine_similarity(g, h, dim=0))
        found[f"{one}, {other}"] = degrees(acos(max(-1.0, min(1.0, cosine))))
    return found


def _losses(losses: Losses, params: Sequence[nn.Parameter], there: Tensor) -> dict[str, float]:
    put(params, there)
    return dict(zip(losses.task.domains, losses().tolist(), strict=True))


def snapshots(folder: Path) -> dict[int, Path]:
    """Return the folders of the models that a trial kept along training, by their step."""
    found = {int(file.parent.name): file.parent for file in folder.glob(f"snapshots/*/{CONFIG}")}
    if not found:
        raise InputError(f"{folder} has no snapshots: run it with --snapshots N to keep N models spread over training")
    return dict(sorted(found.items()))


def balance_along(
    task: Task, models: Mapping[int, Path], *, steps: int = 30, lr: float = 1e-2, compiled: bool = False
) -> Iterator[tuple[int, Balance]]:
    """Measure one model after the other in the task's network, which is given back its own parameters at the end."""
    before = {name: tensor.clone() for name, tensor in task.net.state_dict().items()}
    try:
        for step, folder in models.items():
            task.net.load_state_dict(read(folder))
            yield step, balance(task, steps=steps, lr=lr, compiled=compiled)
    finally:
        task.net.load_state_dict(before)
