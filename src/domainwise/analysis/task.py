"""A trained model and its data, to be moved to other parameters and measured there.

Parameters are moved in place and chunks have one size, so that a compiled network stays compiled. Nothing but opening
waits for the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from domainwise.acceleration.cuda_graph import Fast, prepare
from domainwise.acceleration.shared_device import arithmetic_units
from domainwise.data.batches.feed import EVALUATION_BATCH
from domainwise.data.batches.inputs import Inputs, Part
from domainwise.data.batches.rows import Chosen
from domainwise.data.domains import MAIN, Domains
from domainwise.data.splits import is_official, official_rows, split_domain
from domainwise.errors import InputError
from domainwise.experiment.settings import CHOICES
from domainwise.experiment.trial import Trial
from domainwise.losses import Batch, joined
from domainwise.networks.network import Network
from domainwise.networks.samples import each, one_of, put_together, split
from domainwise.saved_models.model import Model
from domainwise.seeds import seed_hash

# Images at once. On a processor the activations of more leave its cache; for gradients they are kept, layer by layer.
FORWARD = {"cpu": 256, "cuda": 1024}  # the latter in two bytes a number, and half as many in four
BACKWARD = {"cpu": 256, "cuda": 128}
BLANK = -100  # the label that a cross-entropy passes over


@dataclass(frozen=True, eq=False)
class Task:
    """A network and the main part of every domain, which for a source is what the network was trained on."""

    net: Network  # in evaluation mode: no dropout, and batch-norm as it was trained
    domains: Mapping[str, Batch]
    targets: tuple[str, ...]
    seed: int
    precision: str = "fp32"

    @property
    def sources(self) -> list[str]:
        return [name for name in self.domains if name not in self.targets]

    def loss(self, batch: Batch) -> Tensor:
        return F.cross_entropy(self.net(batch[0]), batch[1])

    @contextmanager
    def measuring(self, *, compiled: bool = False) -> Iterator[None]:
        """Compute in the task's precision. A GPU may compile the network first, which pays off for many images."""
        with arithmetic_units(self.precision):
            x, _ = next(iter(self.domains.values()))
            if compiled and x.is_cuda and self.net.featurizer._compiled_call_impl is None:
                prepare(self.net, precision=self.precision, fast=Fast())
            yield

    def minibatches(self, domain: str, count: int, size: int) -> list[Batch]:
        """Draw minibatches of a domain, the same ones at every call."""
        x, y = self.domains[domain]
        generator = torch.Generator().manual_seed(seed_hash(self.seed, "analysis", domain))
        drawn = torch.randint(len(y), (count, size), generator=generator).to(y.device)
        return [(each(lambda t, rows=rows: t[rows], x), y[rows]) for rows in drawn]


def task(model: Model, data: Domains, most: int = 1000, *, precision: str | None = None) -> Task:
    """Open a model with at most ``most`` images of a domain, in bf16 on a GPU and fp32 elsewhere by default."""
    trial = Trial.from_json(model.config["trial"])
    data = data.known_as(trial.fingerprint)
    if data.fingerprint != trial.fingerprint:
        raise InputError(f"this model was trained on other data than {data.name}, by its fingerprint")
    if model.algorithm.extra_channels:
        raise InputError(f"{trial.algorithm} sees a whole batch at once, so it has no loss of its own at one place")
    device = model.algorithm.device
    precision = precision or ("bf16" if device.type == "cuda" else "fp32")
    if precision not in CHOICES["precision"]:
        raise InputError(f'the precision must be {", ".join(CHOICES["precision"])}, got "{precision}"')
    inputs = Inputs("none", trial.input_size, model.config["mean"], model.config["std"])
    official = official_rows(data, MAIN) if is_official(data, trial.targets) else None
    targets, domains = trial.targets if official is None else (), {}
    for i, domain in enumerate(data):
        if official is None:
            main, _ = split_domain(domain, i, trial.holdout, trial.seed)
        elif i in official:
            main = official[i]
        else:
            main, targets = np.arange(len(domain)), (*targets, domain.name)
        domains[domain.name] = _whole(Part(domain, main, str(device)), inputs, most, precision)
    net = model.algorithm.net.eval()
    prepare(net, precision=precision, fast=Fast(compile=False))
    return Task(net, domains, targets, trial.seed, precision)


def _whole(part: Part, inputs: Inputs, most: int, precision: str) -> Batch:
    # on a GPU as its convolutions read them: half the memory in bf16, and no conversion on every pass
    rows = torch.arange(min(len(part), most))  # the split has shuffled them
    chosen = Chosen.of(torch.split(rows, EVALUATION_BATCH), part.device)
    pieces = [inputs.plain(part, some) for some in chosen]
    if isinstance(pieces[0], Tensor) and pieces[0].is_cuda:
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        pieces = [piece.to(dtype, memory_format=torch.channels_last) for piece in pieces]
    return put_together(pieces), part.labels[: len(rows)]


def place(params: Iterable[nn.Parameter]) -> Tensor:
    """Return the parameters as one vector, in memory of its own."""
    return torch.cat([p.detach().reshape(-1) for p in params])


@torch.no_grad()
def put(params: Sequence[nn.Parameter], vector: Tensor) -> None:
    """Write a vector into the parameters; each keeps its memory and its layout."""
    pieces = torch.split(vector, [p.numel() for p in params])
    torch._foreach_copy_(list(params), [piece.view(p.shape) for piece, p in zip(pieces, params, strict=True)])


@contextmanager
def kept(params: Sequence[nn.Parameter]) -> Iterator[None]:
    """Give the parameters back their values at the end."""
    before = place(params)
    try:
        yield
    finally:
        put(params, before)


class Losses:
    """Compute the mean loss of every domain, wherever the network is, in one pass over all of them."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.sizes = [len(y) for _, y in task.domains.values()]
        x, y = joined([*task.domains.values()])
        most = FORWARD[y.device.type]
        if y.is_cuda and one_of(x).element_size() > 2:
            most //= 2
        self.chunks = chunks((x, y), evenly(len(y), most))

    @torch.no_grad()
    def __call__(self) -> Tensor:
        """Return one loss for each domain, on the device."""
        losses = torch.cat([F.cross_entropy(self.task.net(x), y, reduction="none") for x, y in self.chunks])
        return torch.stack([part.mean() for part in torch.split(losses[: sum(self.sizes)], self.sizes)])


def gradient(task: Task, domain: str) -> Tensor:
    """Return the gradient of a domain's mean loss as one vector."""
    params = list(task.net.parameters())
    x, y = task.domains[domain]
    longest = max(len(labels) for _, labels in task.domains.values())
    total = [torch.zeros_like(p) for p in params]
    for images, labels in chunks((x, y), evenly(longest, BACKWARD[y.device.type])):
        loss = F.cross_entropy(task.net(images), labels, reduction="sum") / len(y)
        torch._foreach_add_(total, torch.autograd.grad(loss, params))
    return torch.cat([part.reshape(-1) for part in total])


def evenly(count: int, most: int) -> int:
    """Return the size of as few equal chunks as have at most so many images."""
    return -(-count // -(-count // most))


def chunks(batch: Batch, size: int) -> list[Batch]:
    """Cut a batch into chunks of one size; the last is filled up with blank images that count for nothing."""
    x, y = batch
    missing = -len(y) % size
    if missing:
        x = each(
            lambda t: F.pad(t, [0, 0] * (t.dim() - 1) + [0, missing]), x
        )  # unlike a cat of both, in the layout of x
        y = F.pad(y, [0, missing], value=BLANK)
    return list(zip(split(x, size), torch.split(y, size), strict=True))
