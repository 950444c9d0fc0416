"""Let several processes take one walk together: what the ranks of ``torch.distributed`` tell each other.

Everything they say is a sum over the ranks of one flat tensor that ends in who failed. So a rank that fails, wherever
it is, answers once more in the shape that the others wait for, and all of them end the round; none waits for ever.
"""

from __future__ import annotations

import gc
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from domainwise.errors import InputError
from domainwise.meta.round import Gradients

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

Slope = Callable[[], tuple[Tensor, Gradients]]  # the loss of a batch, and its gradients
FAILED = 2  # entries at the end of every message: how many ranks failed, and the sum of their numbers
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def several(group: ProcessGroup | None = None, needed: bool = False) -> bool:
    """Whether this process is one of several ranks; it is an error if ``needed`` ranks do not run."""
    if not (dist.is_available() and dist.is_initialized()):
        if needed:
            raise InputError('sync="leg" needs torch.distributed: call init_process_group first, or leave it at "auto"')
        return False
    if dist.get_rank(group) < 0:
        raise InputError("this process is not in the group that the walk is to be shared with")
    return dist.get_world_size(group) > 1


def check_alone(name: str) -> None:
    """Refuse to train on several ranks what does not know of them: each would train a network of its own."""
    if several():
        raise InputError(
            f"{name} trains in one process, and torch.distributed runs here with several ranks, which would drift "
            "apart: share the walk of a MetaOptimizer among them, or train before init_process_group"
        )


class Alone:
    """Take the walk in one process: nobody to tell, nothing to wait for."""

    def __enter__(self) -> Alone:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def meet(
        self,
        params: Sequence[nn.Parameter],
        legs: Sequence[Sequence[Any]],
        inner_lr: float,
        module: nn.Module | None,
    ) -> None:
        """Make sure that all ranks are about to take the same walk."""

    def ordered(self, order: list[int]) -> list[int]:
        """Return the order of the first rank."""
        return order

    def mean(self, batch: Any, slope: Slope) -> tuple[Tensor, Gradients]:
        """Return the loss and the gradients over the samples of all ranks."""
        return slope()

    def agree(self) -> None:
        """Make sure that no rank has failed."""

    def follow(self, module: nn.Module | None) -> None:
        """Take over the buffers of the first rank."""


ALONE = Alone()


class Ranks(Alone):
    """Take the walk with the ranks of a process group, of which this process is one."""

    def __init__(self, group: ProcessGroup | None, size: Callable[[Any], float] | None) -> None:
        self.group, self.size = group, size
        self.device = torch.device("cpu")  # where messages are put together: that of the parameters
        self.expected: tuple[int, torch.dtype] | None = None  # what the other ranks wait for next
        self.wrappers: list[DistributedDataParallel] | None = None  # those around the parameters, looked for once
        self.params: Sequence[nn.Parameter] = ()

    def __enter__(self) -> Ranks:
        self.rank, self.world = dist.get_rank(self.group), dist.get_world_size(self.group)
        self.paused: list[tuple[DistributedDataParallel, bool]] = []
        self.expected = self.world * len(FIELDS), torch.int64
        return self

    def __exit__(self, *error: object) -> None:
        for wrapper, before in self.paused:
            wrapper.require_backward_grad_sync = wrapper.require_forward_param_sync = before
        if error[0] is not None and self.expected is not None:
            failure = self._blank(*self.expected)
            failure[-2], failure[-1] = 1, self.rank
            dist.all_reduce(failure, group=self.group)

    def meet(
        self,
        params: Sequence[nn.Parameter],
        legs: Sequence[Sequence[Any]],
        inner_lr: float,
        module: nn.Module | None,
    ) -> None:
        if any(p.is_complex() for p in params):
            raise InputError("ranks cannot share a walk of complex parameters: give real ones")
        self.params, self.steps = params, sum(map(len, legs))
        self.dtype = reduce(torch.promote_types, (p.dtype for p in params), torch.float32)
        buffered = 0 if module is None else sum(b.numel() for b in module.buffers())
        row = [len(legs), self.steps, len(params), sum(p.numel() for p in params), buffered, _bits(inner_lr), 0]
        mine = torch.tensor(row, device=self.device)
        mine[-1] = _checksum(params, self.device)
        message = self._blank(self.world * len(FIELDS), torch.int64)
        message[self.rank * len(row) : (self.rank + 1) * len(row)] = mine
        rows = self._sum(message, len(legs), torch.int64).view(self.world, -1).tolist()
        for sentence, *column in zip(FIELDS, *rows, strict=True):
            other = next((i for i, value in enumerate(column) if value != column[0]), None)
            if other is not None:
                self.expected = None  # every rank sees it
                raise InputError(sentence.format(column[0], column[other], other))
        self._pause()

    def ordered(self, order: list[int]) -> list[int]:
        message = self._blank(len(order), torch.int64)
        if self.rank == 0:
            message[:-FAILED] = torch.tensor(order, device=self.device)
        first: list[int] = self._sum(message, *self._gradients()).tolist()
        return first

    def mean(self, batch: Any, slope: Slope) -> tuple[Tensor, Gradients]:
        count = self._count(batch)
        value, gradients = slope() if count else (torch.zeros(()), [None] * len(self.params))
        known = [float(g is not None) for g in gradients]
        message = self._blank(*self._gradients())
        flat = [self._flat(p, g) for p, g in zip(self.params, gradients, strict=True)]
        flat.append(value.detach().to(self.device, self.dtype).view(1))
        slopes = message[: -FAILED - 1 - len(known)]
        torch.cat(flat, out=slopes).mul_(count)
        message[len(slopes) : -FAILED] = torch.tensor([count, *known], dtype=self.dtype)
        del value, gradients, flat
        self.steps -= 1
        total = self._sum(message, *(self._gradients() if self.steps else (0, torch.int64)))[len(slopes) :].tolist()
        if total[0] == 0:
            self.expected = None
            raise InputError("a batch has no samples on any rank: at least one of them needs some")
        parts = torch.split(slopes.div_(total[0]), [p.numel() for p in self.params] + [1])
        return parts[-1].squeeze(), [
            part.view(p.shape).to(p.device, p.dtype) if anywhere else None
            for p, part, anywhere in zip(self.params, parts, total[1:], strict=False)
        ]

    def agree(self) -> None:
        self._sum(self._blank(0, torch.int64), None)

    @torch.no_grad()
    def follow(self, module: nn.Module | None) -> None:
        buffers = [] if module is None else list(module.buffers())
        for dtype in dict.fromkeys(b.dtype for b in buffers):
            alike = [b for b in buffers if b.dtype == dtype]
            flat = torch.cat([b.to(self.device).reshape(-1) for b in alike])
            dist.broadcast(flat, group=self.group, group_src=0)
            for buffer, first in zip(alike, torch.split(flat, [b.numel() for b in alike]), strict=True):
                buffer.copy_(first.view(buffer.shape))

    def _pause(self) -> None:
        """Keep DistributedDataParallel from sending what the others do not wait for, such as buffers before a loss."""
        if self.wrappers is None:
            self.wrappers = _around(self.params)
        for wrapper in self.wrappers:
            if wrapper.static_graph:
                raise InputError("a walk does not go with DistributedDataParallel(static_graph=True): leave that out")
            self.paused.append((wrapper, wrapper.require_backward_grad_sync))
            wrapper.require_backward_grad_sync = wrapper.require_forward_param_sync = False

    def _gradients(self) -> tuple[int, torch.dtype]:
        """Return the size of an inner step's message: gradients, loss, number of samples, which gradients exist."""
        return sum(p.numel() for p in self.params) + 2 + len(self.params), self.dtype

    def _blank(self, entries: int, dtype: torch.dtype) -> Tensor:
        """Return an empty message, with room for who failed."""
        return torch.zeros(entries + FAILED, dtype=dtype, device=self.device)

    def _sum(self, message: Tensor, entries: int | None, dtype: torch.dtype = torch.int64) -> Tensor:
        """Sum over the ranks, and expect ``entries`` in the next message. If a rank has failed, so has this one."""
        try:
            sent = dist.all_reduce(message, group=self.group, async_op=True)
            self.expected = None if entries is None else (entries, dtype)
            sent.wait()
            failed, who = message[-FAILED:].tolist()
        except Exception:
            self.expected = None  # what breaks in here breaks on all ranks
            raise
        except BaseException:  # Ctrl-C comes through when the message is there: does anybody still wait?
            if message[-FAILED].item():
                self.expected = None
            raise
        if failed:
            self.expected = None
            one = f"rank {who:.0f} could not finish this round, and says why itself"
            more = f"{failed:.0f} other ranks could not finish this round, and say why themselves"
            raise InputError(f"{one if failed == 1 else more}; the parameters are as they were")
        return message[:-FAILED]

    def _flat(self, p: nn.Parameter, gradient: Tensor | None) -> Tensor:
        if gradient is None:
            return torch.zeros(p.numel(), dtype=self.dtype, device=self.device)
        dense = gradient if gradient.layout == torch.strided else gradient.to_dense()
        return dense.detach().to(self.device, self.dtype).reshape(-1)

    def _count(self, batch: Any) -> float:
        count = length(batch) if self.size is None else float(self.size(batch))
        if count is None:
            kind = type(batch).__name__
            raise InputError(f"how many samples are in a batch? There is no tensor in this {kind}: give size=")
        if not (math.isfinite(count) and count >= 0):
            raise InputError(f"size must give the number of samples in a batch, got {count}")
        return count


# What must be alike on all ranks, and what to say otherwise, given rank 0's, another's and the number of that one.
FIELDS = (
    "rank 0 was given {0} legs and rank {2} {1}: every rank needs the same number, a batch without samples among them",
    "rank 0 takes {0} inner steps in this round and rank {2} {1}: inner_steps must be the same everywhere",
    "rank 0 trains {0} parameters and rank {2} {1}: requires_grad and the outer optimizer must be alike everywhere",
    "rank 0 trains {0} numbers and rank {2} {1}: the networks differ",
    "rank 0 has {0} numbers in the buffers of module= and rank {2} {1}: give every rank the same module",
    "rank 0 and rank {2} have different inner_lr: it must be the same everywhere",
    "the parameters of rank 0 and rank {2} are not the same. Before the first round: build them with the same seed, or "
    "load the same file, on every rank. Later: something (a scheduler, clipping, loading) is done on one of them only",
)


def length(batch: Any) -> float | None:
    """Return the length of the first tensor in a batch; 0 where there is a None in its place."""
    if batch is None:
        return 0
    if isinstance(batch, Tensor):
        return len(batch) if batch.dim() else 1
    if isinstance(batch, Mapping | Sequence) and not isinstance(batch, str):
        values = batch.values() if isinstance(batch, Mapping) else batch
        return next((n for n in map(length, values) if n is not None), None)
    return None


def _bits(number: float) -> int:
    bits: int = struct.unpack("q", struct.pack("d", number))[0]
    return bits


def _checksum(params: Sequence[nn.Parameter], device: torch.device) -> Tensor:
    """Sum the bits: exact, in whatever order it is done."""
    sums = torch.stack([p.detach().view(BITS[p.element_size()]).sum().to(device) for p in params])
    return (sums * torch.arange(1, len(sums) + 1, device=device)).sum()


def _around(params: Sequence[nn.Parameter]) -> list[DistributedDataParallel]:
    """Find the wrappers that hold these parameters, among all objects: no way leads from a parameter to them."""
    ours, kinds = set(params), [DistributedDataParallel]
    for kind in kinds:
        kinds += kind.__subclasses__()
    wanted = set(kinds)  # isinstance takes ten times as long
    return [o for o in gc.get_objects() if type(o) in wanted and not ours.isdisjoint(o.parameters())]
