"""Make featurizers by their timm name, with weights from a file or from the hub."""

from __future__ import annotations

import inspect
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from domainwise.errors import InputError, closest
from domainwise.networks.pretrained import hub_file
from domainwise.networks.torchvision_compat import import_timm
from domainwise.networks.weight_files import load_into, read_weights

# Without a tag these mean the weights of the published benchmarks, torchvision's first, and not timm's own.
_TORCHVISION = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152")
_BOTTLENECKS = ("resnet50", "resnet101", "resnet152")
_FILTERS = ("checkpoint_filter_fn", "_filter_fn", "_filter_torchvision_pretrained")  # what timm's modules call theirs


def backbone(
    name: str, size: tuple[int, int], channels: int, *, pretrained: bool = False, weights: Path | None = None
) -> nn.Module:
    """Return a network from images to pooled features; weights come from a file if given, else from the hub.

    ``resnet50.v1`` is the original ResNet-50, which halves the image in a block's first 1x1 convolution and not in its
    3x3. The tensors have the same shapes, but those trained for one are wrong in the other.
    """
    architecture, _, tag = name.partition(".")
    if tag == "v1":
        model = _created(_bottlenecked(architecture, pretrained and weights is None), size, False, name)
        _halve_early(model)
    else:
        model = _created(_known(name), size, pretrained and weights is None, name)
    if weights is not None:
        fixed = f" for images of {size[0]} x {size[1]}" if _fixes_size(model) else ""
        load_into(model, _converted(read_weights(weights), model), weights, name + fixed)
    _take_channels(model, channels, name)
    return model


def check_name(name: str, *, pretrained: bool = False) -> None:
    """Refuse a name that neither timm nor this package has a network for."""
    architecture, _, tag = name.partition(".")
    _bottlenecked(architecture, pretrained) if tag == "v1" else _known(name)


def _known(name: str) -> str:
    timm = import_timm()
    architecture, _, tag = name.partition(".")
    if not timm.is_model(architecture):
        near = get_close_matches(name.lower(), [*timm.list_models(), "small", "mnist"], n=3, cutoff=0.6)
        known = "known: small, mnist, the names in timm.list_models(), and FILE.py:FUNCTION for one of your own"
        raise InputError(f'there is no network "{name}": ' + (f"did you mean {' or '.join(near)}?" if near else known))
    if not tag:
        return f"{architecture}.tv_in1k" if architecture in _TORCHVISION else architecture
    tags = [full.partition(".")[2] for full in timm.list_pretrained(f"{architecture}.*")]
    if tag not in tags:
        raise InputError(f'{architecture} has no pretrained weights called "{tag}": {closest(tag, tags)}')
    return name


def _bottlenecked(architecture: str, pretrained: bool) -> str:
    if architecture not in _BOTTLENECKS:
        raise InputError(
            f'"{architecture}.v1" is not known: v1 is for {", ".join(_BOTTLENECKS)}, which exist in two versions'
        )
    if pretrained:
        raise InputError(
            f"the hub has no weights for {architecture}.v1: pass --weights FILE, or take {architecture} without .v1"
        )
    return architecture


def _created(name: str, size: tuple[int, int], pretrained: bool, asked: str) -> nn.Module:
    timm = import_timm()
    about = timm.get_pretrained_cfg(name)
    settings: dict[str, Any] = {"num_classes": 0}
    if about.fixed_input_size:
        settings["img_size"] = size
    if pretrained:
        # custom_load is about the file that the authors published, which is not the one on the hub.
        file = {"file": str(_from_hub(about, asked)), "custom_load": False}
        settings |= {"pretrained": True, "pretrained_cfg_overlay": file}
    try:
        model: nn.Module = timm.create_model(name, **settings)
    except Exception as error:
        raise InputError(f"timm cannot make {asked} for images of {size[0]} x {size[1]}: {error}") from error
    if _fixes_size(model):
        _check_patches(model, size, asked)
    return model


def _fixes_size(model: Any) -> bool:
    return bool(model.pretrained_cfg.get("fixed_input_size", False))


def _check_patches(model: Any, size: tuple[int, int], name: str) -> None:
    """Refuse images that do not fill whole patches: timm would drop the rest without a word."""
    patch = getattr(getattr(model, "patch_embed", None), "patch_size", None)
    if isinstance(patch, tuple) and any(side % across for side, across in zip(size, patch, strict=True)):
        larger = " x ".join(str(-(-side // across) * across) for side, across in zip(size, patch, strict=True))
        raise InputError(
            f"{name} cuts images into patches of {patch[0]} x {patch[1]}, which do not fill {size[0]} x {size[1]}: "
            f"take images of {larger}, for example"
        )


def _from_hub(about: Any, name: str) -> Path:
    if about.hf_hub_id:
        return hub_file(about.hf_hub_id, name)
    where = f"download {about.url} and pass it" if about.url else "pass a file"
    raise InputError(f"the hub has no pretrained weights for {name}: {where} with --weights FILE")


def _halve_early(model: nn.Module) -> None:
    for layer in ("layer2", "layer3", "layer4"):
        block: Any = model.get_submodule(f"{layer}.0")
        block.conv1.stride, block.conv2.stride = (2, 2), (1, 1)


def _converted(tensors: dict[str, Tensor], model: Any) -> dict[str, Tensor]:
    """Keys as timm names them, position embeddings in the size of the model's, and no classifier."""
    module = inspect.getmodule(type(model))
    convert = next((found for name in _FILTERS if (found := getattr(module, name, None))), None)
    if convert is not None:
        # Of a file for something else it may make nothing at all; the keys then say what is wrong.
        with suppress(Exception):
            two = len(inspect.signature(convert).parameters) > 1
            tensors = convert(dict(tensors), model) if two else convert(dict(tensors))
    own = model.state_dict()
    classifiers = tuple(f"{name}." for name in _several(model.pretrained_cfg["classifier"]))
    return {key: value for key, value in tensors.items() if key in own or not key.startswith(classifiers)}


def _take_channels(model: Any, channels: int, name: str) -> None:
    """Where images are not RGB, input channel i gets a copy of the weights for channel i % 3."""
    if channels == 3:
        return
    for first in _several(model.pretrained_cfg["first_conv"]):
        conv = model.get_submodule(first)
        if not isinstance(conv, nn.Conv2d) or conv.weight.shape[1] != 3:
            raise InputError(f"{name} takes images of 3 channels and no others, got {channels}")
        conv.weight = nn.Parameter(conv.weight.detach()[:, [i % 3 for i in range(channels)]])
        conv.in_channels = channels


def _several(names: str | tuple[str, ...] | list[str] | None) -> list[str]:
    return [names] if isinstance(names, str) else list(names or ())
