"""What a first update on a GPU waits for, and what can be done beside the Python that it waits for as well."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module

import torch
from torch.nn import functional as F

from domainwise.acceleration.device_lock import on_device

_lock = threading.Lock()
_awake: set[str] = set()


@contextmanager
def waking(device: str, *, compiles: bool, bring: Callable[[], object]) -> Iterator[None]:
    """Have a GPU load its libraries in the background meanwhile, and be brought its data; once in a process."""
    if torch.device(device).type != "cuda":
        yield
        return
    index = torch.device(device).index
    own = f"cuda:{torch.cuda.current_device() if index is None else index}"  # in a new thread, another is current
    with _lock:
        awake = own in _awake
        _awake.add(own)
    work = [] if awake else [lambda: _convolve(own), bring, *([_hash_triton] if compiles else [])]
    threads = [threading.Thread(target=_quietly, args=(own, one), daemon=True) for one in work]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()


def _quietly(device: str, work: Callable[[], object]) -> None:
    """Whoever needs what it would have done will do it, and hear what is wrong."""
    with suppress(Exception), on_device(device):
        work()


def _convolve(device: str) -> None:
    image = torch.zeros(1, 8, 8, 8, device=device)
    F.conv2d(image, image)
    torch.cuda.current_stream().synchronize()


def _hash_triton() -> None:
    """All of its files, once in a process: whatever Triton compiles is known by that."""
    import_module("triton.runtime.cache").triton_key()
