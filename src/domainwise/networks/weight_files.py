"""Read weights from a local file, which is checked before anything of it is used, and write them to one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor, nn

from domainwise.errors import InputError
from domainwise.files import sha256

_WRAPPERS = ("state_dict", "model")  # under which training scripts put the tensors, beside other things
_NAMED = 3  # keys that a sentence names before it says "..."


def weights_sha256(path: Path | str) -> str:
    """Return the hash that a weight file is known by; read once, and again when its size or time has changed."""
    file = _existing(path)
    about = file.stat()
    return _digest(file.absolute(), about.st_size, about.st_mtime_ns)


@cache
def _digest(file: Path, size: int, time: int) -> str:
    return sha256(file)


def read_weights(path: Path | str) -> dict[str, Tensor]:
    """Return the tensors of a safetensors or torch file, floating-point ones in float32."""
    file = _existing(path)
    tensors = _tensors(_loaded(file), file)
    if any(key.startswith("featurizer.") for key in tensors):  # saved from a Network: the head is for other classes
        tensors = {key: value for key, value in tensors.items() if key.startswith("featurizer.")}
    return {
        key.removeprefix("module.").removeprefix("featurizer."): value.float() if value.is_floating_point() else value
        for key, value in tensors.items()
    }


def metadata(path: Path | str) -> dict[str, str]:
    """Return what a safetensors file says of itself beside its tensors; nothing where it is another kind of file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(_existing(path), "pt") as file:
            return dict(file.metadata() or {})
    except (SafetensorError, OSError):
        return {}


def save_tensors(tensors: Mapping[str, Tensor], file: Path) -> None:
    """Write tensors as safetensors, for whoever may read new files; errors of the disk are OSErrors."""
    import safetensors.torch

    with disk_errors(file):
        file.touch()
        mode = file.stat().st_mode  # that of any new file, where safetensors lets nobody else read
        safetensors.torch.save_file(dict(tensors), file)
        file.chmod(mode)


def load_tensors(file: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file; errors of the disk are OSErrors."""
    import safetensors.torch

    with disk_errors(file):
        return safetensors.torch.load_file(file)


@contextmanager
def disk_errors(file: Path) -> Iterator[None]:
    """Turn the library's own errors back into the OSErrors they were, around reading or writing."""
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        if number := re.search(r"os error (\d+)", str(error)):
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(file)) from error
        raise


def load_into(module: nn.Module, tensors: Mapping[str, Tensor], file: Path | str, name: str) -> None:
    """Load tensors that must be exactly those of the module, which the sentences call ``name``."""
    own = module.state_dict()
    # A count of batches that frozen statistics do not need, and that older files do not have.
    missing = [key for key in own if key not in tensors and not key.endswith("num_batches_tracked")]
    unknown = [key for key in tensors if key not in own]
    other = [
        f"{key} is {_shape(tensors[key])} in the file and {_shape(own[key])} in {name}"
        for key in own
        if key in tensors and tensors[key].shape != own[key].shape
    ]
    wrong = [
        _counted(missing, "is missing", "are missing"),
        _counted(unknown, "has no place in it", "have no place in it"),
        _counted(other, "has another shape", "have another shape"),
    ]
    if missing or unknown or other:
        raise InputError(
            f"{Path(file).name} does not fit {name}: {'; '.join(filter(None, wrong))}. "
            f"Give the file that was made for {name}, or the --network that this file is for"
        )
    module.load_state_dict(dict(tensors), strict=False)


def _existing(path: Path | str) -> Path:
    file = Path(path).expanduser()
    if not file.is_file():
        raise InputError(f"there is no weight file {file}" + (": that is a folder" if file.is_dir() else ""))
    return file


def _loaded(file: Path) -> object:
    with file.open("rb") as stream:
        start = stream.read(16)
    try:
        if start[8:9] == b"{":  # behind the length of the header
            from safetensors.torch import load_file

            return load_file(file)
        if start[:2] in (b"PK", b"\x80\x02"):  # a zip archive, or the pickle of before torch 1.6
            with file.open("rb") as stream:  # given its name, torch would go by that
                return torch.load(stream, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        raise InputError(
            f"{file.name} is refused: it holds more than tensors, and unpickling the rest could run somebody's code. "
            f"Where you trust it, load it yourself and save the tensors alone: torch.save(model.state_dict(), FILE)"
        ) from error
    except Exception as error:
        raise InputError(f"{file.name} is cut short or damaged: {_first_line(error)}") from error
    raise InputError(f"{file.name} is neither a safetensors nor a torch file: it starts with {start!r}")


def _tensors(loaded: object, file: Path) -> dict[str, Tensor]:
    inner: Any = loaded
    if isinstance(inner, Mapping):
        inner = next((inner[key] for key in _WRAPPERS if isinstance(inner.get(key), Mapping)), inner)
    if not isinstance(inner, Mapping) or not inner or not all(isinstance(value, Tensor) for value in inner.values()):
        raise InputError(f"{file.name} holds no weights: it must be tensors by name, as model.state_dict() gives them")
    return {str(key): value for key, value in inner.items()}


def _counted(what: list[str], one: str, many: str) -> str:
    return f"{len(what)} {'tensor ' + one if len(what) == 1 else 'tensors ' + many} ({_named(what)})" if what else ""


def _named(what: Iterable[str]) -> str:
    what = list(what)
    return ", ".join(what[:_NAMED]) + (", ..." if len(what) > _NAMED else "")


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a single number"


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
