"""Minibatches, drawn with replacement. Every source domain has its own generator: no draw depends on another's."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from domainwise.data.splits import seed_hash
from domainwise.losses import Batch

Part = tuple[Tensor, Tensor]  # uint8 images (N, H, W, C) and their labels, on the device


class Sampler:
    """Draws ``batch`` images of every source domain; ``pooled`` draws each of these minibatches from all of them."""

    def __init__(self, parts: Sequence[Part], batch: int, seed: int, *, pooled: bool = False) -> None:
        self.parts = [_together(parts)] * len(parts) if pooled else list(parts)
        self.batch = batch
        self.generators = [torch.Generator().manual_seed(seed_hash(seed, "sampling", i)) for i in range(len(parts))]

    def draw(self, times: int = 1) -> list[Batch] | list[list[Batch]]:
        """One minibatch per domain, or a list of ``times`` of them per domain where that is above one."""
        if times == 1:
            return [self._one(i) for i in range(len(self.parts))]
        return [[self._one(i) for _ in range(times)] for i in range(len(self.parts))]

    def _one(self, i: int) -> Batch:
        images, labels = self.parts[i]
        chosen = torch.randint(len(labels), (self.batch,), generator=self.generators[i]).to(labels.device)
        return to_input(images[chosen]), labels[chosen]


def to_input(images: Tensor) -> Tensor:
    """uint8 (N, H, W, C) to what a network takes: float (N, C, H, W) from -1 to 1."""
    return images.permute(0, 3, 1, 2).float().div_(127.5).sub_(1.0)


def _together(parts: Sequence[Part]) -> Part:
    return torch.cat([images for images, _ in parts]), torch.cat([labels for _, labels in parts])
