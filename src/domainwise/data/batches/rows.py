"""Take rows of images from where they lie: on the GPU, in the host's memory, or on its disk."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from domainwise.data.decoded.read_ahead import Fetch, Source, in_order, source_of
from domainwise.data.domains import Domains, Values
from domainwise.data.splits import Indices
from domainwise.networks.forms import as_bytes
from domainwise.networks.samples import Samples, unpacked

SENT = 256  # rows that go to a device at a time


class Rows:
    """Some rows of an array, which lies on the GPU if that has room, and otherwise on the host or on its disk.

    An array is on a GPU only once, however many trials a process runs at a time.
    """

    def __init__(self, array: Values, rows: Indices, device: str, on_host: bool) -> None:
        self.device, self.source, self.indices = device, array, rows
        self.disk = source_of(array) if on_host else None
        if self.disk is None:
            self.array = torch.from_numpy(as_bytes(array)) if on_host else _on_device(array, device)
            self.rows = torch.from_numpy(rows).to(self.array.device)

    def begin(self, chosen: Chosen) -> Chosen:
        """Have the rows that are on the disk read, so that they are there when they are asked for."""
        return chosen if self.disk is None else chosen._replace(fetch=self._fetch(self.disk, chosen))

    def _fetch(self, disk: Source, chosen: Chosen) -> Fetch:
        return Fetch(disk, self.indices[chosen.host.numpy()].tolist())

    def __getitem__(self, chosen: Chosen) -> Samples:
        """Return the rows at these positions, on the device."""
        if self.disk is not None:
            images = torch.from_numpy(as_bytes((chosen.fetch or self._fetch(self.disk, chosen)).result()))
        else:
            images = self.array[self.rows[chosen.device if self.array.is_cuda else chosen.host]]
        if not images.is_cuda and self.device != "cpu":
            # The host runs ahead of the device, so that this copy happens during the update before.
            images = images.pin_memory().to(self.device, non_blocking=True)
        return unpacked(images, self.source.dtype)


class Chosen(NamedTuple):
    """The positions of some images of a part, on the host and on the device, and perhaps the images on their way."""

    host: Tensor
    device: Tensor
    fetch: Fetch | None = None

    @classmethod
    def of(cls, rows: Sequence[Tensor], device: str) -> list[Chosen]:
        """Send positions to a device in one copy that is not waited for."""
        if torch.device(device).type == "cpu":
            return [cls(chosen, chosen) for chosen in rows]
        moved = torch.cat(list(rows)).pin_memory().to(device, non_blocking=True)
        return [cls(*both) for both in zip(rows, torch.split(moved, [len(chosen) for chosen in rows]), strict=True)]


_lock = threading.Lock()
_copies: WeakValueDictionary[tuple[int, str], Tensor] = WeakValueDictionary()


def _on_device(array: Values, device: str) -> Tensor:
    """The only copy of an array on a device, known by the array's identity while some rows hold both."""
    with _lock:
        copy = _copies.get((id(array), device))
        if copy is None:
            _copies[id(array), device] = copy = _sent(array, device)
            if copy.is_cuda:  # trials on other streams use it too
                torch.cuda.current_stream(device).synchronize()
        return copy


def _sent(array: Values, device: str) -> Tensor:
    """A copy of an array on a device; what is not in memory goes through it a few rows at a time."""
    if source_of(array) is None:
        return torch.from_numpy(as_bytes(array)).to(device)
    first = torch.from_numpy(as_bytes(array[[0]]))
    copy = torch.empty((len(array), *first.shape[1:]), dtype=first.dtype, device=device)
    for place, rows in zip(torch.split(copy, SENT), in_order(array, SENT), strict=True):
        place.copy_(torch.from_numpy(as_bytes(rows)))
    return copy


def has_room(data: Domains, device: str, share: float = 0.6) -> bool:
    """Return whether all images fit into a share of a GPU's free memory; on a host they stay where they are."""
    if torch.device(device).type == "cpu":
        return False
    free, _ = torch.cuda.mem_get_info(device)
    arrays = [array for domain in data for array in (domain.images, domain.evaluation) if array is not None]
    return sum(array.nbytes for array in arrays if (id(array), device) not in _copies) < share * free
