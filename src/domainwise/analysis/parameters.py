"""A network put at one place after another, and what it does there over whole domains, a chunk at a time.

Parameters are moved in place and chunks have one size, so that a compiled network stays compiled. Nothing here waits
for the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from domainwise.analysis.task import Task
from domainwise.losses import Batch

# Images at once. On a processor the activations of more leave its cache; for gradients they are kept, layer by layer.
FORWARD = {"cpu": 256, "cuda": 1024}  # the latter in two bytes a number, and half as many in four
BACKWARD = {"cpu": 256, "cuda": 128}
BLANK = -100  # the label that a cross-entropy passes over


def place(params: Iterable[nn.Parameter]) -> Tensor:
    """Where a network is, as one vector of its own memory."""
    return torch.cat([p.detach().reshape(-1) for p in params])


@torch.no_grad()
def put(params: Sequence[nn.Parameter], vector: Tensor) -> None:
    """Each parameter keeps its memory and its layout."""
    pieces = torch.split(vector, [p.numel() for p in params])
    torch._foreach_copy_(list(params), [piece.view(p.shape) for piece, p in zip(pieces, params, strict=True)])


@contextmanager
def kept(params: Sequence[nn.Parameter]) -> Iterator[None]:
    """The parameters are afterwards as they were."""
    before = place(params)
    try:
        yield
    finally:
        put(params, before)


class Losses:
    """The mean loss of every domain wherever the network is: all of them in one pass."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.sizes = [len(y) for _, y in task.domains.values()]
        x, y = (torch.cat([batch[i] for batch in task.domains.values()]) for i in (0, 1))
        most = FORWARD[x.device.type]
        if x.is_cuda and x.element_size() > 2:
            most //= 2
        self.chunks = chunks((x, y), evenly(len(y), most))

    @torch.no_grad()
    def __call__(self) -> Tensor:
        """One for each domain, on the device."""
        each = torch.cat([F.cross_entropy(self.task.net(x), y, reduction="none") for x, y in self.chunks])
        return torch.stack([part.mean() for part in torch.split(each[: sum(self.sizes)], self.sizes)])


def gradient(task: Task, domain: str) -> Tensor:
    """Of a domain's mean loss, as one vector."""
    params = list(task.net.parameters())
    x, y = task.domains[domain]
    longest = max(len(labels) for _, labels in task.domains.values())
    total = [torch.zeros_like(p) for p in params]
    for images, labels in chunks((x, y), evenly(longest, BACKWARD[x.device.type])):
        loss = F.cross_entropy(task.net(images), labels, reduction="sum") / len(y)
        torch._foreach_add_(total, torch.autograd.grad(loss, params))
    return torch.cat([part.reshape(-1) for part in total])


def evenly(count: int, most: int) -> int:
    """The size of as few equal chunks as have at most so many images."""
    return -(-count // -(-count // most))


def chunks(batch: Batch, size: int) -> list[Batch]:
    """All of one size: what is missing from the last is filled up with blank images that count for nothing."""
    x, y = batch
    missing = -len(y) % size
    if missing:
        x = F.pad(x, [0, 0] * (x.dim() - 1) + [0, missing])  # unlike a cat of both, in the layout of x
        y = F.pad(y, [0, missing], value=BLANK)
    return list(zip(torch.split(x, size), torch.split(y, size), strict=True))
