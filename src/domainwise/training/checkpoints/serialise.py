"""A nested state as two things that files can hold: named tensors, and JSON for all the rest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from domainwise.errors import InputError

# In the JSON a list is a list; what JSON has no word for is a dict with one telling key:
# {"dict": [[key, value], ...]}   {"tuple": [...]}   {"float": "inf"}
# {"tensor": name, "device": "cpu" | "cuda", "strides": null or [...]}


def flatten(state: Any, name: str = "state") -> tuple[Any, dict[str, Tensor]]:
    """The structure of a state, and its tensors by names that say where in it they are."""
    tensors: dict[str, Tensor] = {}
    return _structure(state, name, tensors), tensors


def unflatten(structure: Any, tensors: Mapping[str, Tensor], device: str = "cpu") -> Any:
    """The state again; tensors that were on a GPU are put on ``device``."""
    if isinstance(structure, list):
        return [unflatten(item, tensors, device) for item in structure]
    if not isinstance(structure, dict):
        return structure
    if "tensor" in structure:
        return _placed(tensors[structure["tensor"]], structure, device)
    if "float" in structure:
        return float(structure["float"])
    if "tuple" in structure:
        return tuple(unflatten(structure["tuple"], tensors, device))
    return {key: unflatten(value, tensors, device) for key, value in structure["dict"]}


def _structure(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        return _noted(value, name, tensors)
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        items = [_structure(item, f"{name}.{i}", tensors) for i, item in enumerate(value)]
        return items if isinstance(value, list) else {"tuple": items}
    if isinstance(value, Mapping) and all(isinstance(key, str | int) for key in value):
        return {"dict": [[key, _structure(item, f"{name}.{key}", tensors)] for key, item in value.items()]}
    raise InputError(
        f"{name} is of type {type(value).__name__}, which a checkpoint cannot hold: it can hold tensors, numbers, "
        "text, None, and lists, tuples and dicts of them"
    )


def _noted(tensor: Tensor, name: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    while name in tensors:  # a key may have a dot in it too
        name += "'"
    # A copy, since files refuse tensors that share memory.
    tensors[name] = tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
    dense = tensor.numel() == 1 + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    strides = list(tensor.stride()) if dense and tensor.stride() != tensors[name].stride() else None
    return {"tensor": name, "device": tensor.device.type, "strides": strides}


def _placed(tensor: Tensor, about: Mapping[str, Any], device: str) -> Tensor:
    if about["strides"] is not None:  # an optimizer on a GPU wants its memory laid out like the parameters
        tensor = torch.empty_strided(tensor.shape, about["strides"], dtype=tensor.dtype).copy_(tensor)
    return tensor.to(device) if about["device"] != "cpu" else tensor
