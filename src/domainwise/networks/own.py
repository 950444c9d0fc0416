"""Call a function of the user's own that makes a network, and try what it made on one sample."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from domainwise.errors import InputError, closest
from domainwise.user_files import module_of

OWN = re.compile(r"(?P<file>.+\.py):(?P<function>\w+)")


def function_of(written: re.Match[str], source: str = "") -> Callable[..., object]:
    """Return the function that FILE.py:FUNCTION names; with ``source``, the file must have that hash."""
    file, function = Path(written["file"]), written["function"]
    module = module_of(file, source)
    make = getattr(module, function, None)
    if callable(make):
        return make  # type: ignore[no-any-return]
    known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
    raise InputError(f'{file.name} has no function "{function}": {closest(function, known) if known else "none"}')


def made_by(written: re.Match[str], channels: int, classes: int, source: str) -> nn.Module:
    """Call the function of the user's own, and return the module that it makes."""
    name, make = name_of(written), function_of(written, source)
    try:
        made = make(channels, classes)
    except Exception as error:
        raise InputError(f"{name}({channels}, {classes}) failed: {type(error).__name__}: {error}") from error
    if not isinstance(made, nn.Module):
        raise InputError(
            f"{name} must return a Network or a featurizer (an nn.Module), and it returned a {type(made).__name__}"
        )
    return made


def name_of(written: re.Match[str]) -> str:
    """Return the name that sentences have for the function, without the folders its file lies in."""
    return f"{Path(written['file']).name}:{written['function']}"


def width_of(featurizer: nn.Module, shape: tuple[int, ...], name: str) -> int:
    """Return how many features a featurizer makes of one sample."""
    features = tried(featurizer, shape, name)
    if features.dim() != 2:
        pool = "AdaptiveAvgPool1d" if len(shape) == 2 else "AdaptiveAvgPool2d"
        raise InputError(
            f"the features of {name} must be one vector per image, and are {sizes(features)} for one image: "
            f"end it with nn.{pool}(1) and nn.Flatten()"
        )
    return features.shape[1]


def tried(module: nn.Module, shape: tuple[int, ...], name: str) -> Tensor:
    """Return the output for one sample of zeros, whose channels come first."""
    channels, *size = shape
    try:
        with torch.no_grad():
            result: Tensor = module.eval()(torch.zeros(1, *shape))
    except Exception as error:
        across = " x ".join(map(str, size))
        what = {2: f"images of {across} with {channels} channels", 1: f"signals of {channels} channels, {across} steps"}
        raise InputError(f"{name} cannot take {what.get(len(size), f'rows of {channels} numbers')}: {error}") from error
    finally:
        module.train()
    return result


def sizes(tensor: Tensor) -> str:
    """Write the shape of a tensor."""
    return " x ".join(map(str, tensor.shape))
