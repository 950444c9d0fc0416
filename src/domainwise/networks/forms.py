"""Tell what samples are: rows of a table (d,), signals (C, T), images (H, W, C), or dicts of arrays such as token ids.

Dicts lie in memory, and on the disk, as one array of records, whose type names the fields; a network gets tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Layout = Sequence[int] | np.dtype[Any]  # the shape of a sample, or the fields of a dict
TOKENS, MASK = "input_ids", "attention_mask"  # the fields of a text
VECTORS = 32_768  # words that are told apart, where words are numbered by a hash


def form_of(layout: Layout) -> str:
    """Return the form of samples: "rows", "signals" or "images", or of dicts "texts" or "dicts"."""
    if isinstance(layout, np.dtype):
        return "texts" if TOKENS in shapes_of(layout) else "dicts"
    return {1: "rows", 2: "signals"}.get(len(layout), "images")


def extent_of(layout: Layout) -> str:
    """Say how large samples are, as in "5 columns"."""
    form = form_of(layout)
    if isinstance(layout, np.dtype):
        shapes = shapes_of(layout)
        if form == "texts" and {*shapes} <= {TOKENS, MASK, "token_type_ids"}:
            return f"{shapes[TOKENS][0]} tokens"
        return ", ".join(f"{name} ({', '.join(map(str, shape)) or 'a number'})" for name, shape in shapes.items())
    if form == "rows":
        return f"{layout[0]} columns"
    if form == "signals":
        return f"{layout[0]} channel{'s' * (layout[0] != 1)} of {layout[1]} steps"
    return " x ".join(map(str, layout))


def shapes_of(records: np.dtype[Any]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each field of records."""
    return {name: records[name].shape for name in records.names or ()}


def as_bytes(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return records as rows of bytes, which tensors can hold; any other array as it is."""
    return array.view(np.uint8).reshape(len(array), -1) if array.dtype.names else array
