"""Compare the mean of several models' outputs with the output of their mean weights.

Averaging weights rests on the two being alike: ``f(mean theta) ~ mean f(theta)``. They differ to second order in
how far the models lie apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from domainwise.analysis.task import BLANK, FORWARD, Task, chunks, evenly, kept, put
from domainwise.errors import InputError


@dataclass(frozen=True)
class Ensemble:
    """The accuracies of several models and of their two means on one domain, and how far outputs lie apart."""

    alone: float  # mean accuracy of the models
    of_outputs: float  # accuracy of the mean of their outputs, which are probabilities
    of_weights: float  # accuracy of the one model at the mean of their weights
    agreement: float  # share of images that both means give the same class
    apart: float  # mean total variation distance between both means' outputs: 0 is the same, 1 is nothing in common
    spread: float  # the same distance between a model's output and the mean of the outputs, mean over models


def ensembles(task: Task, models: Sequence[Tensor]) -> dict[str, Ensemble]:
    """Measure several models and their means on every domain; the task's own model stays as it was."""
    if len(models) < 2:
        raise InputError(f"an ensemble is of two models or more, got {len(models)}")
    mean = torch.stack(list(models)).mean(0)
    with task.measuring():
        return {name: _measured(task, name, models, mean) for name in task.domains}


def _measured(task: Task, domain: str, models: Sequence[Tensor], mean: Tensor) -> Ensemble:
    labels = task.domains[domain][1]
    each = torch.stack([outputs(task, domain, model) for model in models])  # (models, images, classes)
    of_outputs, of_weights = each.mean(0), outputs(task, domain, mean)

    def accuracy(probabilities: Tensor) -> float:
        return float((probabilities.argmax(-1) == labels).double().mean())

    return Ensemble(
        accuracy(each),
        accuracy(of_outputs),
        accuracy(of_weights),
        float((of_outputs.argmax(1) == of_weights.argmax(1)).double().mean()),
        _distance(of_outputs, of_weights),
        _distance(each, of_outputs),
    )


def _distance(one: Tensor, other: Tensor) -> float:
    """Total variation, mean over all rows."""
    return float((one - other).abs().sum(-1).mean() / 2)


@torch.no_grad()
def outputs(task: Task, domain: str, model: Tensor) -> Tensor:
    """Return the probabilities that a model, as a vector of parameters, gives to a domain's images."""
    params = list(task.net.parameters())
    x, y = task.domains[domain]
    with kept(params):
        put(params, model)
        parts = chunks((x, y), evenly(len(y), FORWARD[y.device.type]))
        rows = [task.net(images).double().softmax(1)[labels != BLANK] for images, labels in parts]
    return torch.cat(rows)
