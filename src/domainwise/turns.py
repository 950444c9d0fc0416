"""Who hands work to the device, when several trials share a process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TypeVar

import torch
from torch.nn import functional as F

T = TypeVar("T")

_lock = threading.RLock()
_handing: list[ThreadPoolExecutor] = []
_here = threading.local()
_awake: set[str] = set()


def in_turn(work: Callable[[], T]) -> T:
    """Call ``work``, which makes a network or hands work to the device, while nobody else does.

    Trials in several threads share one generator and one compiler, and a CUDA graph that is being recorded must not see
    the work of others. Waiting for the device is done outside. Inside :func:`one_thread` the call is made there, on the
    caller's stream; what else a thread has of its own (no_grad, autocast) does not come along.
    """
    if not _handing or getattr(_here, "hands", False):
        with _lock:
            return work()
    stream = torch.cuda.current_stream() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]
    return _handing[-1].submit(_on, stream, work).result()


@contextmanager
def one_thread() -> Iterator[None]:
    """Have one thread do all that :func:`in_turn` is asked for, so that what libraries keep for each thread, such as
    the kernels they have chosen by speed, is found once and before several trials are at work."""
    with ThreadPoolExecutor(1, initializer=lambda: setattr(_here, "hands", True)) as handing:
        _handing.append(handing)
        try:
            yield
        finally:
            _handing.remove(handing)


def on_device(device: str) -> AbstractContextManager[object]:
    """Make a GPU the current one, whose streams and events are meant where none is named."""
    return torch.cuda.device(device) if torch.device(device).type == "cuda" else nullcontext()


@contextmanager
def waking(device: str) -> Iterator[None]:
    """Have a GPU load its libraries in the background meanwhile, which takes a while; once in a process."""
    with _lock:
        awake = torch.device(device).type != "cuda" or device in _awake
        _awake.add(device)
    if awake:
        yield
        return
    index = torch.device(device).index
    own = torch.cuda.current_device() if index is None else index  # that of a new thread is another
    thread = threading.Thread(target=_wake, args=(f"cuda:{own}",), daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _wake(device: str) -> None:
    with suppress(RuntimeError), on_device(device):  # whoever needs it next will hear of it
        image = torch.zeros(1, 8, 8, 8, device=device)
        F.conv2d(image, image)
        torch.cuda.current_stream().synchronize()


def _on(stream: torch.cuda.Stream | None, work: Callable[[], T]) -> T:
    with torch.cuda.stream(stream):
        return work()
