"""A trained model and the data it was trained on, ready to be walked, moved and measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from domainwise.data.domains import Domains
from domainwise.data.feed import Chosen, Inputs, Part
from domainwise.data.splits import seed_hash
from domainwise.errors import InputError
from domainwise.loop import dealt
from domainwise.losses import Batch
from domainwise.model import Model
from domainwise.network import Network
from domainwise.trial import Trial


@dataclass(frozen=True, eq=False)
class Task:
    """``domains`` has the main part of each, which for a source is what the model was trained on."""

    net: Network  # in evaluation mode: no dropout, and batch-norm as it was trained
    domains: Mapping[str, Batch]
    targets: tuple[str, ...]
    seed: int

    @property
    def sources(self) -> list[str]:
        return [name for name in self.domains if name not in self.targets]

    def loss(self, batch: Batch) -> Tensor:
        return F.cross_entropy(self.net(batch[0]), batch[1])

    def minibatches(self, domain: str, count: int, size: int) -> list[Batch]:
        """The same ones every time they are asked for."""
        x, y = self.domains[domain]
        generator = torch.Generator().manual_seed(seed_hash(self.seed, "analysis", domain))
        drawn = torch.randint(len(y), (count, size), generator=generator).to(y.device)
        return [(x[rows], y[rows]) for rows in drawn]


def task(model: Model, data: Domains, most: int = 1000) -> Task:
    """At most ``most`` images of a domain."""
    trial = Trial.from_json(model.config["trial"])
    if data.fingerprint != trial.fingerprint:
        raise InputError(f"this model was trained on other data than {data.name}, by its fingerprint")
    if model.algorithm.extra_channels:
        raise InputError(f"{trial.algorithm} sees a whole batch at once, so it has no loss of its own at one place")
    inputs = Inputs("none", trial.input_size, model.config["mean"], model.config["std"])
    device = str(model.algorithm.device)
    parts = {domain.name: dealt(trial, domain, i, device)[0] for i, domain in enumerate(data)}
    domains = {name: _whole(part, inputs, most) for name, part in parts.items()}
    return Task(model.algorithm.net.eval(), domains, trial.targets, trial.seed)


def _whole(part: Part, inputs: Inputs, most: int) -> Batch:
    rows = torch.arange(min(len(part), most))  # the split has shuffled them
    (chosen,) = Chosen.of([rows], part.device)
    return inputs.plain(part, chosen), part.labels[: len(rows)]
