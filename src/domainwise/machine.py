"""The cores and devices of this computer."""

from __future__ import annotations

import os

from domainwise.arguments import is_whole
from domainwise.errors import InputError

CROWD = 256  # threads or processes that any machine bears; OpenMP ends a process that asks for a million


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def device_named(text: str, *, elsewhere: bool = False) -> str:
    """The device that is meant, if it is here; "auto" is a GPU if there is one.

    ``elsewhere``: on other machines, which may have what this one has not.
    """
    import torch

    if not isinstance(text, str | torch.device):
        raise InputError(f"a device is named by a text, such as cpu, cuda, cuda:1 or auto, got {text!r}")
    text = str(text)
    if text == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(text)
    except RuntimeError as error:
        raise InputError(f'"{text}" is no device: use cpu, cuda, cuda:1 or auto') from error
    if device.type not in ("cpu", "cuda"):
        raise InputError(f'domainwise does not run on "{device.type}": use cpu, cuda, cuda:1 or auto')
    if device.type == "cpu" and device.index is not None:
        raise InputError(f'"{text}" is no device, as a CPU is one however many cores it has: use cpu')
    if elsewhere or device.type == "cpu":
        return text
    if not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count():
        raise InputError(f'"{text}" is not here: torch sees {torch.cuda.device_count()} GPUs; use the device cpu')
    return text


def bearable(what: str, count: int) -> int:
    """How many threads or processes were asked for, if a machine bears them."""
    most = max(CROWD, 4 * cores())
    if not is_whole(count) or not 1 <= count <= most:
        raise InputError(f"{what} must be a whole number from 1 up to {most} on this machine, got {count!r}")
    return int(count)
