"""Networks: a featurizer and a linear head, which most algorithms need apart from each other."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from domainwise.errors import InputError, closest


class Network(nn.Module):
    """``net(x)`` gives logits; ``net.features(x)`` and ``net.logits(features)`` are its two halves."""

    def __init__(self, featurizer: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.featurizer = featurizer
        self.head = head

    def features(self, x: Tensor) -> Tensor:
        features: Tensor = self.featurizer(x)
        return features

    def logits(self, features: Tensor) -> Tensor:
        logits: Tensor = self.head(features)
        return logits

    def forward(self, x: Tensor) -> Tensor:
        return self.logits(self.features(x))


def small_cnn(channels: int, classes: int, width: int = 16) -> Network:
    """Two convolutions with group-norm, for small images and machines without a GPU. Not pretrained."""
    featurizer = nn.Sequential(
        nn.Conv2d(channels, width, 3, stride=2, padding=1),
        nn.GroupNorm(4, width),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
        nn.GroupNorm(4, 2 * width),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
    )
    return Network(featurizer, nn.Linear(2 * width * 16, classes))


def build(name: str, shape: Sequence[int], classes: int) -> Network:
    """A network by name for images of shape (H, W, C)."""
    if name != "small":
        raise InputError(f'there is no network "{name}": {closest(name, ["small"])}')
    return small_cnn(shape[-1], classes)
