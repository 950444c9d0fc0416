"""Who hands work to the device, when several trials share a process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

import torch

T = TypeVar("T")

_lock = threading.RLock()
_handing: list[ThreadPoolExecutor] = []
_here = threading.local()


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
    which kernels they have chosen, is there once."""
    with ThreadPoolExecutor(1, initializer=lambda: setattr(_here, "hands", True)) as handing:
        _handing.append(handing)
        try:
            yield
        finally:
            _handing.remove(handing)


def on_device(device: str) -> AbstractContextManager[object]:
    """Make a GPU the current one, whose streams and events are meant where none is named."""
    return torch.cuda.device(device) if torch.device(device).type == "cuda" else nullcontext()


def _on(stream: torch.cuda.Stream | None, work: Callable[[], T]) -> T:
    with torch.cuda.stream(stream):
        return work()
