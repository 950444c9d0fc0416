"""Saved models of one network as places in it, whichever runs they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from domainwise.analysis.task import Task
from domainwise.errors import InputError
from domainwise.experiment import integrity
from domainwise.experiment.trial import Trial
from domainwise.saved_models.saved import CONFIG, read


def places(task: Task, folders: Sequence[Path]) -> dict[str, Tensor]:
    """Where each model is, by what tells it from the others. All must be of the task's network and data."""
    homes = [folder if (folder / CONFIG).is_file() else folder / "best" for folder in folders]
    for folder, home in zip(folders, homes, strict=True):
        if not (home / CONFIG).is_file():
            raise InputError(f"{folder} has no saved model: give the folder of one, such as RUN/best")
    configs = [integrity.read(home / CONFIG) for home in homes]
    if len({config["trial"]["fingerprint"] for config in configs}) > 1:
        raise InputError("these models were trained on different data, so that no domain has a loss for all of them")
    vectors = [_vector(task, folder, read(home)) for folder, home in zip(folders, homes, strict=True)]
    return dict(zip(_names(configs), vectors, strict=True))


def _vector(task: Task, folder: Path, weights: Mapping[str, Tensor]) -> Tensor:
    own = task.net.state_dict()
    if {name: tensor.shape for name, tensor in weights.items()} != {name: tensor.shape for name, tensor in own.items()}:
        raise InputError(f"{folder} holds a model of another network: a plane is of one network's parameters")
    for name, buffer in task.net.named_buffers():
        if buffer.is_floating_point() and name in own and not torch.allclose(weights[name].to(buffer), buffer):
            raise InputError(
                f"{folder} has batch-norm statistics of its own, which lie on no plane of parameters: "
                "models are compared like this with frozen batch-norm, or without any"
            )
    vector = torch.cat([weights[name].reshape(-1) for name, _ in task.net.named_parameters()])
    if not vector.isfinite().all():
        raise InputError(f"{folder} holds a model with parameters that are not finite numbers: it lies on no plane")
    return vector.to(next(task.net.parameters()))


def _names(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of what a model is, as much as tells them apart: "seed 1", or "arith, step 299"."""
    described = [_described(config) for config in configs]
    names = [""] * len(configs)
    for key in described[0]:
        kinds = {words[key] for words in described}
        if len(kinds) > 1 and len(set(names)) < len(names):
            names = [f"{name}, {words[key]}".removeprefix(", ") for name, words in zip(names, described, strict=True)]
    if len(set(names)) < len(names):
        raise InputError("two of these models are the same one: there is no plane through them")
    return names


def _described(config: Mapping[str, Any]) -> dict[str, str]:
    trial = Trial.from_json(config["trial"])
    return {
        "algorithm": trial.label or trial.algorithm,
        "target": f"target {'+'.join(trial.targets)}",
        "seed": f"seed {trial.seed}",
        "which": config["which"],
        "step": f"step {config['step']}",
        "id": trial.id,
    }
