"""Call a function of the user's own that makes a network, and try what it made on one sample."""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

from domainwise.errors import InputError
from domainwise.user_files import function_of, name_of


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
