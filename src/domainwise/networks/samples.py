"""Handle the samples that a network takes alike, whether they are a tensor or a dict of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from domainwise.networks.forms import Layout, form_of

Samples = Any  # a tensor, or a dict of tensors, with as many samples


def blank(layout: Layout, extra: int = 0) -> Samples:
    """Return one sample of zeros as a network sees it: channels come first, with ``extra`` ones behind."""
    if isinstance(layout, np.dtype):
        return unpacked(torch.zeros(1, layout.itemsize, dtype=torch.uint8), layout)
    first, *rest = (layout[-1], *layout[:-1]) if form_of(layout) == "images" else layout
    return torch.zeros(1, first + extra, *rest)


def unpacked(rows: Tensor, records: np.dtype[Any]) -> Samples:
    """Return the dict of tensors that rows of bytes hold: whole numbers as int64, others as float32.

    Rows of anything but records are returned as they are.
    """
    found: dict[str, Tensor] = {}
    fields: Mapping[str, Any] = records.fields or {}
    for name in records.names or ():
        kind, start = fields[name][:2]
        of_one = torch.from_numpy(np.zeros(0, kind.base)).dtype
        # a copy begins where numbers of any size may: a piece of the rows does not
        own = rows[:, start : start + kind.itemsize].clone(memory_format=torch.contiguous_format)
        values = own.view(of_one).view(len(rows), *kind.shape)
        found[name] = values.float() if values.is_floating_point() else values.long()
    return found or rows


def each(function: Callable[..., Any], *samples: Samples) -> Samples:
    """Call a function with tensors, or with those of every name in dicts."""
    if isinstance(samples[0], Mapping):
        return {str(name): function(*(one[name] for one in samples)) for name in samples[0]}
    return function(*samples)


def one_of(samples: Samples) -> Tensor:
    """Return the tensor, or the first one of a dict, which tells how many samples there are and where."""
    tensor: Tensor = next(iter(samples.values())) if isinstance(samples, Mapping) else samples
    return tensor


def put_together(samples: Sequence[Samples]) -> Samples:
    """Put samples together, one after the other."""
    return each(lambda *tensors: torch.cat(tensors), *samples)


def split(samples: Samples, size: int) -> list[Samples]:
    """Cut samples into pieces of one size; the last may be smaller."""
    starts = range(0, len(one_of(samples)), size)
    return [each(lambda tensor, start=start: tensor[start : start + size], samples) for start in starts]
