"""Find pretrained weights: in the cache on disk, on the hub, or in a file of which the network is to be told."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path
from threading import Thread
from typing import Any

from domainwise.errors import InputError
from domainwise.networks.weight_files import metadata, read_weights, weights_sha256

_TORCHVISION = {  # the files that torchvision downloads of the same weights
    "timm/resnet18.tv_in1k": "resnet18-f37072fd.pth",
    "timm/resnet34.tv_in1k": "resnet34-b627a593.pth",
    "timm/resnet50.tv_in1k": "resnet50-0676ba61.pth",
}
_HUB_FILES = ("model.safetensors", "pytorch_model.bin")
_PATIENCE = 5.0  # seconds for the hub to answer at all; its own client tries again and again for half a minute
_SMALL = {f"{layer}.{what}" for layer in (0, 1, 3, 4) for what in ("weight", "bias")}
_BLOCKS = {  # of each ResNet: its blocks by layer, and whether they are bottlenecks
    (2, 2, 2, 2, False): "resnet18",
    (3, 4, 6, 3, False): "resnet34",
    (3, 4, 6, 3, True): "resnet50",
    (3, 4, 23, 3, True): "resnet101",
    (3, 8, 36, 3, True): "resnet152",
}

# Networks to begin with, the best first: on a CPU small ones, which are several times faster.
_TO_BEGIN_WITH = {
    "cpu": ("resnet18", "resnet18.a1_in1k", "resnet34", "resnet50", "resnet50.a1_in1k"),
    "cuda": ("resnet50", "resnet50.a1_in1k", "resnet34", "resnet18", "resnet18.a1_in1k"),
}


def at_hand(device: str) -> tuple[str, str]:
    """Return a network whose pretrained weights are at hand for a device, and where they are from.

    The best one is taken from the cache or the hub, else whichever the cache has; none is an error that says why.
    """
    best, *others = _TO_BEGIN_WITH["cpu" if device == "cpu" else "cuda"]
    if cached_file(_repository(best)) is not None:
        return best, "weights in the cache"
    try:
        hub_file(_repository(best), best)
    except InputError:
        for name in others:
            if cached_file(_repository(name)) is not None:
                return name, "weights in the cache"
        raise
    return best, "weights from the hub"


def _repository(name: str) -> str:
    return f"timm/{name}" if "." in name else f"timm/{name}.tv_in1k"


def hub_file(repository: str, name: str) -> Path:
    """Return the weight file of a repository: from the cache without asking anybody, or downloaded."""
    from huggingface_hub import constants, hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    if (cached := cached_file(repository)) is not None:
        return cached
    address = f"{constants.ENDPOINT}/{repository}"
    if constants.HF_HUB_OFFLINE:
        raise _unavailable(name, address, "HF_HUB_OFFLINE is set, and they are not in the cache")
    if not hub_answers(f"{address}/resolve/main/{_HUB_FILES[0]}"):
        raise _unavailable(name, address, "the hub cannot be reached from here")
    for file in _HUB_FILES:
        try:
            return Path(hf_hub_download(repository, file))
        except EntryNotFoundError as error:
            if isinstance(error, LocalEntryNotFoundError):  # the hub went away between the two questions
                raise _unavailable(name, address, "the hub cannot be reached from here") from error
        except Exception as error:
            raise _unavailable(name, address, str(error).strip().splitlines()[0]) from error
    raise _unavailable(name, address, f"the hub has neither {' nor '.join(_HUB_FILES)}")


def cached_file(repository: str) -> Path | None:
    """Return the weight file of a repository in one of the caches on this disk, if it is there."""
    from huggingface_hub import try_to_load_from_cache

    for file in _HUB_FILES:
        cached = try_to_load_from_cache(repository, file)
        if isinstance(cached, str):
            return Path(cached)
    return _of_torchvision(repository)


def _of_torchvision(repository: str) -> Path | None:
    """The same weights as torchvision keeps them; it never looks at the hash that its file names begin with."""
    from torch.hub import get_dir

    name = _TORCHVISION.get(repository, "")
    file = Path(get_dir()) / "checkpoints" / name
    whole = bool(name) and file.is_file() and weights_sha256(file).startswith(name.partition("-")[2][:8])
    return file if whole else None


def _unavailable(name: str, address: str, why: str) -> InputError:
    return InputError(
        f"the pretrained weights of {name} could not be downloaded: {why}. On a machine with internet, download "
        f"{address}/resolve/main/{_HUB_FILES[0]}, bring it here and pass --weights FILE"
    )


def hub_answers(address: str) -> bool:
    """Return whether the hub answers within seconds."""
    from huggingface_hub.utils import get_session  # type: ignore[attr-defined]

    heard: list[bool] = []

    def ask() -> None:
        try:
            get_session().head(address, timeout=_PATIENCE)
        except Exception:
            return
        heard.append(True)

    # Beside the main thread because looking up a name cannot be given a time limit.
    asking = Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_PATIENCE)
    return bool(heard)


def network_for(weights: Path) -> str:
    """Return the name of the network that a weight file is for: as the file, its name or its tensors say.

    Files of the original ResNet-50 say so in their metadata or their name ("v1"); its tensors look like the usual ones.
    """
    said = metadata(weights)
    beside = weights.with_name("config.json")
    if "architecture" not in said and weights.name in _HUB_FILES and beside.is_file():
        said = _json(beside)
    tensors = read_weights(weights)
    if {*tensors} == _SMALL:
        return "small"
    name = str(said.get("architecture") or "") or _named(weights.name) or _resnet(tensors.keys())
    if not name:
        raise InputError(f"nothing says which network {weights.name} is for: name it, as in --network resnet50")
    early = re.match(r"v1(?![.\d])", str(said.get("stride", ""))) or re.search(r"v1(?![\d.]*5|[b-z])", weights.stem)
    return f"{name}.v1" if early and name in ("resnet50", "resnet101", "resnet152") else name


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _named(file: str) -> str:
    """The network that the name of a file begins with, as timm's and torchvision's files are named."""
    from domainwise.networks.torchvision_compat import import_timm

    timm = import_timm()
    words = re.split(r"[.\-]", file.lower())[0].split("_")
    tries = ("_".join(words[:n]) for n in range(len(words), 0, -1))
    return next((name for name in tries if timm.is_model(name)), "")


def _resnet(keys: Collection[str]) -> str:
    blocks = {(found[1], found[2]) for key in keys if (found := re.match(r"layer([1-4])\.(\d+)\.", key))}
    counts = [sum(layer == str(n) for layer, _ in blocks) for n in range(1, 5)]
    return _BLOCKS.get((*counts, "layer1.0.conv3.weight" in keys), "")
