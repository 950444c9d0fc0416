from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from domainwise.algorithms import Algorithm, algorithm
from domainwise.errors import InputError
from domainwise.losses import Batch, joined, risk
from domainwise.networks.network import Network
from domainwise.seeds import seed_hash


@algorithm
class ARM(Algorithm):
    """Show the network a summary of the minibatch beside every image (Zhang et al., 2021).

    Loss: ``CE(net([x, c]), y)`` over all samples, ``c`` one more channel: the mean over the images of a domain's
    minibatch of a small convolutional context network. It predicts in groups of the size of the training minibatches
    where they divide what is asked, else all at once. Unless told otherwise it takes 8 images of a domain, of
    small ones (up to 28 pixels) as many as the others.

    DomainBed: never trains its context network, which its optimizer does not hold; here it learns with the rest, unless
    ``algorithm.net.context.requires_grad_(False)`` says otherwise after ``setup``.
    """

    extra_channels = 1
    memory = recalled = ("support",)

    def setup(self, net: Network, *, seed: int | None = None) -> Self:
        seed = torch.initial_seed() if seed is None else seed
        self.support = 0  # images of a group; nothing is known of it before the first update
        # Before the optimizer is built, so that it holds the context network too.
        return super().setup(cast(Network, Contextual(net, seed_hash(seed, "context"))), seed=seed)

    def prepare(self, batches: Sequence[Any]) -> None:
        self.support = len(batches[0][0])

    def loss(self, batches: Sequence[Batch]) -> Tensor:
        x, y = joined(batches)
        return risk(self.net(x, [len(labels) for _, labels in batches]), y, self.class_weights)

    def answer(self, x: Tensor) -> Tensor:
        grouped = self.support > 0 and len(x) % self.support == 0
        logits: Tensor = self.net(x, [self.support] * (len(x) // self.support) if grouped else [len(x)])
        return logits


class Contextual(nn.Module):
    """Give a network's images the mean context of their group as one more channel."""

    def __init__(self, inner: Network, seed: int) -> None:
        super().__init__()
        self.inner = inner
        first = _first_convolution(inner)
        self.channels = first.in_channels - 1
        # As wide as the network begins: 64 for the networks of the published benchmarks, as in DomainBed.
        self.context = _context(self.channels, first.out_channels, seed).to(next(inner.parameters()))
        if first.weight.is_cuda:  # as the network is laid out there
            self.context.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor, sizes: Sequence[int] | None = None) -> Tensor:
        """Return logits; ``sizes`` are those of the groups, in the order of the images, None is one group of all."""
        logits: Tensor = self.inner(self.widened(x, sizes))
        return logits

    def widened(self, x: Tensor, sizes: Sequence[int] | None = None) -> Tensor:
        """Return the images with their context."""
        if x.dim() != 4 or x.shape[1] != self.channels:
            raise InputError(
                f"arm takes images of shape (samples, {self.channels}, height, width), one channel fewer than the "
                f"network's first convolution, and got inputs of shape {tuple(x.shape)}"
            )
        with self.inner.lowered(x.device) if isinstance(self.inner, Network) else nullcontext():
            contexts = self.context(x).to(x.dtype)
        groups = torch.split(contexts, [len(x)] if sizes is None else list(sizes))
        means = torch.cat([group.mean(0, keepdim=True).expand_as(group) for group in groups])
        return torch.cat([x, means], 1)

    def features(self, x: Tensor) -> Tensor:
        return self.inner.features(self.widened(x))

    def logits(self, features: Tensor) -> Tensor:
        return self.inner.logits(features)

    @property
    def featurizer(self) -> nn.Module:
        return self.inner.featurizer

    @property
    def head(self) -> nn.Module:
        return self.inner.head


def _first_convolution(net: Network) -> nn.Conv2d:
    first = next((module for module in net.modules() if isinstance(module, nn.Conv2d)), None)
    if first is None:
        raise InputError("arm adds a channel to images, and this network has no convolution to take one")
    if first.in_channels < 2:
        raise InputError(
            "arm adds a channel to images: the network's first convolution must take channels + 1, and takes only 1"
        )
    return first


def _context(channels: int, width: int, seed: int) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would also seed every GPU
        return nn.Sequential(
            nn.Conv2d(channels, width, 5, padding=2),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 5, padding=2),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, 1, 5, padding=2),
        )
