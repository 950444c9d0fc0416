"""A trained model and the data it was trained on, ready to be walked, moved and measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from domainwise.acceleration.cuda_graph import Fast, prepare
from domainwise.acceleration.precision import arithmetic_units
from domainwise.data.batches.feed import EVALUATION_BATCH, Chosen, Inputs, Part
from domainwise.data.domains import Domains
from domainwise.data.splits import split_domain
from domainwise.errors import InputError
from domainwise.experiment.settings import CHOICES
from domainwise.experiment.trial import Trial
from domainwise.losses import Batch
from domainwise.networks.network import Network
from domainwise.saved_models.saved import Model
from domainwise.seeds import seed_hash


@dataclass(frozen=True, eq=False)
class Task:
    """``domains`` has the main part of each, which for a source is what the model was trained on."""

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
        """In the task's precision. A GPU may compile the network first, which is worth it for many images."""
        with arithmetic_units(self.precision):
            x, _ = next(iter(self.domains.values()))
            if compiled and x.is_cuda and self.net.featurizer._compiled_call_impl is None:
                channels, height, width = x.shape[1:]
                prepare(self.net, (channels, height, width), precision=self.precision, fast=Fast())
            yield

    def minibatches(self, domain: str, count: int, size: int) -> list[Batch]:
        """The same ones every time they are asked for."""
        x, y = self.domains[domain]
        generator = torch.Generator().manual_seed(seed_hash(self.seed, "analysis", domain))
        drawn = torch.randint(len(y), (count, size), generator=generator).to(y.device)
        return [(x[rows], y[rows]) for rows in drawn]


def task(model: Model, data: Domains, most: int = 1000, *, precision: str | None = None) -> Task:
    """At most ``most`` images of a domain. The precision is bf16 on a GPU and fp32 elsewhere unless it is given."""
    trial = Trial.from_json(model.config["trial"])
    if data.fingerprint != trial.fingerprint:
        raise InputError(f"this model was trained on other data than {data.name}, by its fingerprint")
    if model.algorithm.extra_channels:
        raise InputError(f"{trial.algorithm} sees a whole batch at once, so it has no loss of its own at one place")
    device = model.algorithm.device
    precision = precision or ("bf16" if device.type == "cuda" else "fp32")
    if precision not in CHOICES["precision"]:
        raise InputError(f'the precision must be {", ".join(CHOICES["precision"])}, got "{precision}"')
    inputs = Inputs("none", trial.input_size, model.config["mean"], model.config["std"])
    domains = {}
    for i, domain in enumerate(data):
        main, _ = split_domain(domain, i, trial.holdout, trial.seed)
        domains[domain.name] = _whole(Part(domain, main, str(device)), inputs, most, precision)
    net = model.algorithm.net.eval()
    shape = (data.shape[-1], trial.input_size, trial.input_size)
    prepare(net, shape, precision=precision, fast=Fast(compile=False))
    return Task(net, domains, trial.targets, trial.seed, precision)


def _whole(part: Part, inputs: Inputs, most: int, precision: str) -> Batch:
    """On a GPU as its convolutions read them: half the memory in bf16, and no conversion on every pass."""
    rows = torch.arange(min(len(part), most))  # the split has shuffled them
    chosen = Chosen.of(torch.split(rows, EVALUATION_BATCH), part.device)
    pieces = [inputs.plain(part, some) for some in chosen]
    if pieces[0].is_cuda:
        kind = torch.bfloat16 if precision == "bf16" else torch.float32
        pieces = [piece.to(kind, memory_format=torch.channels_last) for piece in pieces]
    return torch.cat(pieces), part.labels[: len(rows)]
