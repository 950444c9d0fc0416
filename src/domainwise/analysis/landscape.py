"""The losses of every domain on a plane through three models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from domainwise.analysis.task import Task
from domainwise.errors import InputError
from domainwise.losses import Batch
from domainwise.report.surfaces import Surface

CHUNK = 256  # images at once; the activations of more leave a processor's cache


@dataclass(frozen=True, eq=False)
class Plane:
    """``origin + a * across + b * upward``: the first model is at (0, 0), the second at (1, 0)."""

    origin: Tensor  # (parameters,)
    across: Tensor
    upward: Tensor  # as long as ``across`` and at right angles to it

    def at(self, a: float, b: float) -> Tensor:
        return self.origin + a * self.across + b * self.upward

    def place(self, model: Tensor) -> tuple[float, float]:
        """The point of the plane that is nearest to a model."""
        off, unit = model - self.origin, self.across.square().sum()
        return float(off @ self.across / unit), float(off @ self.upward / unit)


def plane(models: Sequence[Tensor]) -> Plane:
    """Through three models, by Gram-Schmidt. One scale holds for both axes, so that angles are true."""
    first, second, third = models
    across, other = second - first, third - first
    upward = other - (other @ across / across.square().sum()) * across
    if not across.any() or upward.norm() <= 1e-6 * other.norm():
        raise InputError("the three models lie on a line: there is no one plane through them")
    return Plane(first, across, upward * (across.norm() / upward.norm()))


def walk(task: Task, domains: Sequence[str], *, steps: int = 30, lr: float = 1e-2, batch: int = 32) -> list[Tensor]:
    """The end of each leg of a walk over the domains in sequence, as vectors; the model is left as it was."""
    params, ends = list(task.net.parameters()), []
    with kept(params):
        for name in domains:
            for minibatch in task.minibatches(name, steps, batch):
                _descend(params, task.loss(minibatch), lr)
            ends.append(parameters_to_vector(params).detach().clone())
    return ends


def surface(
    task: Task,
    *,
    domains: Sequence[str] | None = None,
    points: int = 25,
    margin: float = 0.5,
    steps: int = 30,
    lr: float = 1e-2,
) -> Surface:
    """Walk over three source domains, and the losses of all domains on the plane through the three models reached."""
    names = list(domains or task.sources[:3])
    if len(names) != 3 or not set(names) <= set(task.domains):
        raise InputError(f"a plane goes through three models, so it takes three source domains, got {names}")
    models = walk(task, names, steps=steps, lr=lr)
    through = plane(models)
    places = {name: through.place(model) for name, model in zip(names, models, strict=True)}
    start = through.place(parameters_to_vector(task.net.parameters()).detach())
    a, b = (_axis([point[i] for point in places.values()], margin, points) for i in (0, 1))
    losses = _losses(task, through, a, b)
    listed = {name: found.tolist() for name, found in losses.items()}
    return Surface(a.tolist(), b.tolist(), listed, start, places, task.targets)


def _axis(places: Sequence[float], margin: float, points: int) -> Tensor:
    low, high = min(places), max(places)
    off = margin * (high - low)
    return torch.linspace(low - off, high + off, points, dtype=torch.float64)


@torch.no_grad()
def _losses(task: Task, through: Plane, a: Tensor, b: Tensor) -> dict[str, Tensor]:
    """All domains in one pass for each point; sums stay on the device until the end."""
    x, y = (torch.cat([batch[i] for batch in task.domains.values()]) for i in (0, 1))
    sizes = [len(labels) for _, labels in task.domains.values()]
    grid = torch.empty(len(b), len(a), len(sizes), device=x.device)
    shapes = {name: p.shape for name, p in task.net.named_parameters()}
    for i, upward in enumerate(b.tolist()):
        for j, across in enumerate(a.tolist()):
            each = _each_loss(task.net, _named(through.at(across, upward), shapes), (x, y))
            grid[i, j] = torch.stack([part.mean() for part in torch.split(each, sizes)])
    return {name: grid[:, :, i].cpu() for i, name in enumerate(task.domains)}


def _each_loss(net: nn.Module, weights: dict[str, Tensor], batch: Batch) -> Tensor:
    parts = zip(torch.split(batch[0], CHUNK), torch.split(batch[1], CHUNK), strict=True)
    return torch.cat([F.cross_entropy(functional_call(net, weights, (x,)), y, reduction="none") for x, y in parts])


def _named(vector: Tensor, shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    pieces = torch.split(vector, [shape.numel() for shape in shapes.values()])
    return {name: piece.view(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}


def _descend(params: Sequence[nn.Parameter], loss: Tensor, lr: float) -> None:
    gradients = torch.autograd.grad(loss, params)
    with torch.no_grad():
        torch._foreach_add_(list(params), gradients, alpha=-lr)


@contextmanager
def kept(params: Sequence[nn.Parameter]) -> Iterator[None]:
    """The parameters are afterwards as they were."""
    before = parameters_to_vector(params).detach().clone()
    try:
        yield
    finally:
        vector_to_parameters(before, params)
