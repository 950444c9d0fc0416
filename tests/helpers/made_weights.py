"""A cache of pretrained weights as the hub's own client lays it out, and a hub that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import save_file

from domainwise.networks.torchvision_compat import import_timm


def offline_hub(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have weights looked for in a folder that is still empty, and nowhere else."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return folder


def cached(folder: Path, name: str, *, whole: bool = False) -> Path:
    """Put a file of weights where the hub's client keeps those of timm/NAME; ``whole``: all tensors, random ones."""
    snapshot = folder / f"models--timm--{name}" / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    refs = snapshot.parents[1] / "refs"
    refs.mkdir()
    (refs / "main").write_text("0" * 40)
    torch.manual_seed(3)
    tensors = import_timm().create_model(name.partition(".")[0]).state_dict() if whole else {"a": torch.zeros(1)}
    save_file(tensors, snapshot / "model.safetensors")
    return snapshot / "model.safetensors"
