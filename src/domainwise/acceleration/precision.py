"""How a GPU computes: settings that hold for a whole process, whichever of its threads asks for them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.utils.deterministic

from domainwise.errors import InputError

# cuBLAS reads it when it is first used: without a workspace of fixed size, its sums depend on what else is going on.
WORKSPACE = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


_memory: Any = torch.utils.deterministic


class Units(NamedTuple):
    precision: str
    deterministic: bool


_lock = threading.Lock()
_users: list[Units] = []
_before: list[dict[str, Any]] = []


@contextmanager
def arithmetic_units(precision: str, deterministic: bool = False) -> Iterator[None]:
    """Let matrix products and convolutions round to TF32, or not, for as long as this lasts.

    Several threads may be inside at once, if they want the same. ``deterministic`` gives the same bits every time.
    """
    wanted = Units(precision, deterministic)
    with _lock:
        if any(other != wanted for other in _users):
            raise InputError("trials of different precision cannot share a process, which has one setting for all")
        if not _users:
            _before.append(_settings())
            _apply(_chosen(wanted))
        _users.append(wanted)
    try:
        yield
    finally:
        with _lock:
            _users.remove(wanted)
            if not _users:
                _apply(_before.pop())


@contextmanager
def exactly() -> Iterator[None]:
    """Full precision, for a moment and whoever else is inside: no kernel is tried out or refused meanwhile."""
    before = _settings()
    _apply({**before, "products": "highest", "allow_tf32": False, "benchmark": False, "algorithms": False})
    try:
        yield
    finally:
        _apply(before)


def _chosen(units: Units) -> dict[str, Any]:
    """Whether cuDNN tries its kernels out is left as it is: not, unless somebody says so. What it takes without trying
    is as fast (docs/performance.md), and it is the same every time."""
    if units.deterministic:
        os.environ.setdefault(*WORKSPACE)
    return {
        "products": "highest" if units.precision == "fp32" else "high",
        "allow_tf32": units.precision != "fp32",
        "benchmark": torch.backends.cudnn.benchmark and not units.deterministic,
        "deterministic": units.deterministic,
        "algorithms": units.deterministic,
        "fill": False if units.deterministic else _memory.fill_uninitialized_memory,
    }


def _settings() -> dict[str, Any]:
    cudnn = torch.backends.cudnn
    return {
        "products": torch.get_float32_matmul_precision(),
        "allow_tf32": cudnn.allow_tf32,
        "benchmark": cudnn.benchmark,
        "deterministic": cudnn.deterministic,
        "algorithms": torch.are_deterministic_algorithms_enabled(),
        "fill": _memory.fill_uninitialized_memory,
    }


def _apply(settings: dict[str, Any]) -> None:
    cudnn = torch.backends.cudnn
    torch.set_float32_matmul_precision(settings["products"])
    cudnn.allow_tf32, cudnn.benchmark = settings["allow_tf32"], settings["benchmark"]
    cudnn.deterministic = settings["deterministic"]
    torch.use_deterministic_algorithms(settings["algorithms"])
    _memory.fill_uninitialized_memory = settings["fill"]
