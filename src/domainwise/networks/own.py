"""Call a function of the user's own that makes a network, and try what it made on one sample."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from domainwise.errors import InputError
from domainwise.networks.samples import Samples, one_of
from domainwise.user_files import function_of, name_of


def made_by(written: re.Match[str], channels: object, classes: int, source: str) -> nn.Module:
    """Call the function of the user's own, and return the module that it makes; of dicts it is told the shapes."""
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


def told(sample: Samples) -> Any:
    """Return what a function that makes a network is told: the number of channels, or the shapes of a dict."""
    if isinstance(sample, Mapping):
        return {name: tuple(tensor.shape[1:]) for name, tensor in sample.items()}
    return sample.shape[1]


def width_of(featurizer: nn.Module, sample: Samples, name: str) -> int:
    """Return how many features a featurizer makes of one sample."""
    features = tried(featurizer, sample, name)
    if features.dim() != 2:
        pool = "AdaptiveAvgPool1d" if one_of(sample).dim() == 3 else "AdaptiveAvgPool2d"
        raise InputError(
            f"the features of {name} must be one vector per image, and are {sizes(features)} for one image: "
            f"end it with nn.{pool}(1) and nn.Flatten()"
        )
    return features.shape[1]


def tried(module: nn.Module, sample: Samples, name: str) -> Tensor:
    """Return the output for one sample of zeros."""
    try:
        with torch.no_grad():
            result: Tensor = module.eval()(sample)
    except Exception as error:
        raise InputError(f"{name} cannot take {_described(sample)}: {error}") from error
    finally:
        module.train()
    return result


def _described(sample: Samples) -> str:
    if isinstance(sample, Mapping):
        return "dicts of " + ", ".join(f"{name} {tuple(tensor.shape[1:])}" for name, tensor in sample.items())
    channels, *size = sample.shape[1:]
    across = " x ".join(map(str, size))
    what = {2: f"images of {across} with {channels} channels", 1: f"signals of {channels} channels, {across} steps"}
    return what.get(len(size), f"rows of {channels} numbers")


def sizes(tensor: Tensor) -> str:
    """Write the shape of a tensor."""
    return " x ".join(map(str, tensor.shape))
