"""Measure the loss of every domain on a plane through three models, those of a walk or saved ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from domainwise.analysis.measurement_files import Surface
from domainwise.analysis.task import Losses, Task, kept, place, put
from domainwise.errors import InputError
from domainwise.experiment import integrity
from domainwise.experiment.trial import Trial
from domainwise.saved_models.saved import CONFIG, read

LENGTHS = (1e-2, 3e-3, 1e-3)  # of a step, to be tried in turn
Tick = Callable[[int, int], None]  # is told how many points are done, and of how many


@dataclass(frozen=True, eq=False)
class Plane:
    """The points ``origin + a * across + b * upward``; the first model is at (0, 0), the second at (1, 0)."""

    origin: Tensor  # (parameters,)
    across: Tensor
    upward: Tensor  # as long as ``across`` and at right angles to it

    def at(self, a: float, b: float) -> Tensor:
        """Return the parameters at a point of the plane."""
        return self.origin + a * self.across + b * self.upward

    def place(self, model: Tensor) -> tuple[float, float]:
        """Return the point of the plane that is nearest to a model."""
        off, unit = model - self.origin, self.across.square().sum()
        return float(off @ self.across / unit), float(off @ self.upward / unit)


def plane(models: Sequence[Tensor]) -> Plane:
    """Lay a plane through three models, by Gram-Schmidt, with one scale for both axes so that angles are true."""
    first, second, third = models
    across, other = second - first, third - first
    upward = other - (other @ across / across.square().sum()) * across
    if not across.any() or upward.norm() <= 1e-6 * other.norm():
        raise InputError("the three models lie on a line: there is no one plane through them")
    return Plane(first, across, upward * (across.norm() / upward.norm()))


def walk(task: Task, domains: Sequence[str], *, steps: int = 30, lr: float = 1e-2, batch: int = 32) -> list[Tensor]:
    """Walk over the domains in sequence and return the end of each leg; the model stays as it was."""
    params, ends = list(task.net.parameters()), []
    with kept(params):
        for name in domains:
            for minibatch in task.minibatches(name, steps, batch):
                _descend(params, task.loss(minibatch), lr)
            ends.append(place(params))
    return ends


def surface(
    task: Task,
    *,
    domains: Sequence[str] | None = None,
    points: int = 25,
    margin: float = 0.5,
    steps: int = 30,
    lr: float | None = None,
    tick: Tick = lambda done, total: None,
) -> Surface:
    """Walk over three source domains, and measure all domains on the plane through the three models reached.

    ``lr`` None takes the largest of ``LENGTHS`` with which the walk does not diverge.
    """
    names = list(domains or task.sources[:3])
    if len(names) != 3 or not set(names) <= set(task.domains):
        raise InputError(f"a plane goes through three models, so it takes three source domains, got {names}")
    with task.measuring():
        lr, ends = _walked(task, names, steps, LENGTHS if lr is None else (lr,))
    start = place(task.net.parameters())
    found = on_plane(task, dict(zip(names, ends, strict=True)), start, points=points, margin=margin, tick=tick)
    return replace(found, lr=lr)


def _walked(task: Task, names: Sequence[str], steps: int, lengths: Sequence[float]) -> tuple[float, list[Tensor]]:
    start = place(task.net.parameters())
    if not start.isfinite().all():
        raise InputError("this model has parameters that are not finite numbers: it lies on no plane")
    for lr in lengths:
        ends = walk(task, names, steps=steps, lr=lr)
        if all(_loss_at(task, end, name).isfinite() for name, end in zip(names, ends, strict=True)):
            return lr, ends
    raise InputError(f"with steps of {lengths[-1]:g} the walk diverges (a loss is inf or nan): choose a smaller lr")


@torch.no_grad()
def _loss_at(task: Task, model: Tensor, domain: str) -> Tensor:
    params = list(task.net.parameters())
    with kept(params):
        put(params, model)
        return task.loss(task.minibatches(domain, 1, 32)[0])


def on_plane(
    task: Task,
    models: Mapping[str, Tensor],
    start: Tensor | None = None,
    *,
    points: int = 25,
    margin: float = 0.5,
    tick: Tick = lambda done, total: None,
) -> Surface:
    """Measure all domains on the plane through three models, with a margin; ``start`` is where a walk began."""
    if len(models) != 3:
        raise InputError(f"a plane goes through three models, got {len(models)}")
    through = plane(list(models.values()))
    places = {name: through.place(model) for name, model in models.items()}
    began = None if start is None else through.place(start)
    a, b = (_axis([point[i] for point in places.values()], margin, points) for i in (0, 1))
    with task.measuring(compiled=True):
        losses = _losses(task, through, a, b, tick)
    listed = {name: found.tolist() for name, found in losses.items()}
    return Surface(a.tolist(), b.tolist(), listed, began, places, task.targets)


def _axis(places: Sequence[float], margin: float, points: int) -> Tensor:
    low, high = min(places), max(places)
    off = margin * (high - low)
    return torch.linspace(low - off, high + off, points, dtype=torch.float64)


def _losses(task: Task, through: Plane, a: Tensor, b: Tensor, tick: Tick) -> dict[str, Tensor]:
    # nothing waits for the device until the end
    params, losses = list(task.net.parameters()), Losses(task)
    grid = []
    with kept(params):
        for upward, across in product(b.tolist(), a.tolist()):
            put(params, through.at(across, upward))
            grid.append(losses())
            tick(len(grid), len(a) * len(b))
    found = torch.stack(grid).cpu().view(len(b), len(a), -1)
    return {name: found[:, :, i] for i, name in enumerate(task.domains)}


def _descend(params: Sequence[nn.Parameter], loss: Tensor, lr: float) -> None:
    gradients = torch.autograd.grad(loss, params)
    with torch.no_grad():
        torch._foreach_add_(list(params), gradients, alpha=-lr)


def places(task: Task, folders: Sequence[Path]) -> dict[str, Tensor]:
    """Read saved models as vectors, by what tells them apart. All must be of the task's network and data."""
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
    """Name each model by what tells it from the others: "seed 1", or "arith, step 299"."""
    described = [_described(config) for config in configs]
    names = [""] * len(configs)
    for key in described[0]:
        values = {words[key] for words in described}
        if len(values) > 1 and len(set(names)) < len(names):
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
