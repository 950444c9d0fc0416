"""Write and read one checkpoint: a folder with a safetensors file and a JSON file about it. Never a pickle."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from domainwise.errors import InputError
from domainwise.experiment.records import Journal
from domainwise.files import checksum, clear_leftovers, names_in, sha256, sync
from domainwise.networks.weight_files import load_tensors, save_tensors

FORMAT = 1  # what a checkpoint of another number means is not known here
TENSORS, STRUCTURE = "state.safetensors", "state.json"
NAME = "checkpoint-"


class Damaged(Exception):  # noqa: N818  not the user's mistake; the checkpoint before is used
    """A checkpoint was cut short, or has changed since it was written."""


@dataclass(frozen=True)
class Found:
    """Hold a state that was saved, and what was said about it."""

    step: int  # the updates that were made
    about: Mapping[str, Any]
    state: Any


def save(folder: Path, step: int, state: Any, about: Mapping[str, Any]) -> Path:
    """Write ``folder/checkpoint-<step>``, which is there as a whole or not at all, whatever happens in between."""
    return write(folder, step, flatten(state), about)


def write(folder: Path, step: int, flat: tuple[Any, dict[str, Tensor]], about: Mapping[str, Any]) -> Path:
    """Write a checkpoint, as :func:`save` does, of a state that is flat already."""
    structure, tensors = flat
    temporary, final = folder / f".{NAME}{step}.{os.getpid()}", folder / f"{NAME}{step:08d}"
    remove(temporary)
    temporary.mkdir()
    try:
        save_tensors(tensors, temporary / TENSORS)
        content = {
            "format": FORMAT,
            "step": step,
            "sha256": sha256(temporary / TENSORS),
            "about": dict(about),
            "state": structure,
        }
        text = json.dumps({"checksum": checksum(content), **content}, allow_nan=False)
        (temporary / STRUCTURE).write_text(text, encoding="utf-8")
        for path in (temporary / TENSORS, temporary / STRUCTURE, temporary):
            sync(path)
        remove(final)
        temporary.rename(final)
    except BaseException:
        remove(temporary)
        raise
    sync(folder)
    return final


def load(checkpoint: Path, device: str = "cpu") -> Found:
    """Read a checkpoint; :class:`Damaged` where it is not what was written, InputError where it cannot be understood.

    Where it cannot be read just now it may be whole, and the error is that of the disk. Tensors that were on a GPU are
    put on ``device``.
    """
    from safetensors import SafetensorError

    try:
        content = json.loads((checkpoint / STRUCTURE).read_bytes())
        before = content.pop("checksum")
        if content["format"] != FORMAT:
            raise InputError(
                f"the checkpoint {checkpoint} is of format {content['format']}, and this version of domainwise reads "
                f"format {FORMAT}: go on with the version that wrote it, or delete it to start from the beginning"
            )
        if before != checksum(content) or content["sha256"] != sha256(checkpoint / TENSORS):
            raise Damaged(f"the checkpoint {checkpoint} has changed since it was written")
        return Found(
            content["step"], content["about"], unflatten(content["state"], load_tensors(checkpoint / TENSORS), device)
        )
    except FileNotFoundError as error:
        if {STRUCTURE, TENSORS} <= {*names_in(checkpoint)}:
            raise
        raise Damaged(f"the checkpoint {checkpoint} cannot be read: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError) as error:
        if isinstance(error, InputError):
            raise
        raise Damaged(f"the checkpoint {checkpoint} cannot be read: {error}") from error


def told_of(checkpoint: Path) -> dict[str, Any]:
    """Read what was said about a checkpoint, without its state; nothing where that is damaged."""
    with suppress(FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return dict(json.loads((checkpoint / STRUCTURE).read_bytes())["about"])
    return {}


def saved(folder: Path) -> list[Path]:
    """Return the checkpoints of a folder, the newest first."""
    return [folder / name for name in reversed(names_in(folder)) if name.startswith(NAME)]


def remove(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint, ignore_errors=True)


def unfinished(folder: Path) -> list[Path]:
    """Return what processes left behind that were killed while they wrote a checkpoint."""
    return [folder / name for name in names_in(folder) if name.startswith(f".{NAME}")]


def clear(home: Path) -> None:
    """Delete what a trial needs only until it has ended; this process must hold its folder."""
    Journal(home).close()
    for left in (*saved(home), *unfinished(home)):
        remove(left)
    clear_leftovers(home)


# In the JSON a list is a list; what JSON has no word for is a dict with one telling key:
# {"dict": [[key, value], ...]}   {"tuple": [...]}   {"float": "inf"}
# {"tensor": name, "device": "cpu" | "cuda", "strides": null or [...]}


def flatten(state: Any, name: str = "state") -> tuple[Any, dict[str, Tensor]]:
    """Return the structure of a state, and its tensors by names that say where in it they are."""
    tensors: dict[str, Tensor] = {}
    return _structure(state, name, tensors), tensors


def unflatten(structure: Any, tensors: Mapping[str, Tensor], device: str = "cpu") -> Any:
    """Return the state again; tensors that were on a GPU are put on ``device``."""
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
