"""One lock, or one thread, around the work of a device that several trials of a process share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol, TypeVar

import torch

T = TypeVar("T")


class Submit(Protocol):
    """A way to give the device work: :func:`directly`, or :func:`with_device_lock` where trials share it."""

    def __call__(self, work: Callable[[], T]) -> T: ...


def directly(work: Callable[[], T]) -> T:
    """Call ``work`` here and now: nothing else uses the device."""
    return work()


_lock = threading.RLock()
_threads: list[ThreadPoolExecutor] = []
_local = threading.local()


def with_device_lock(work: Callable[[], T]) -> T:
    """Call ``work``, which builds a network or gives the device work, while no other thread does so.

    Trials in several threads share one generator and one compiler, and a CUDA graph being recorded must not see the
    work of others. Wait for the device outside. Inside :func:`one_thread` that thread makes the call, on the caller's
    stream; other state of the calling thread (no_grad, autocast) does not come along.
    """
    if not _threads or getattr(_local, "is_the_one", False):
        with _lock:
            return work()
    stream = torch.cuda.current_stream() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]
    return _threads[-1].submit(_on, stream, work).result()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let one thread make every call of :func:`with_device_lock`.

    Libraries keep some things once per thread, such as which kernels they have chosen: so they exist once.
    """
    with ThreadPoolExecutor(1, initializer=lambda: setattr(_local, "is_the_one", True)) as handing:
        _threads.append(handing)
        try:
            yield
        finally:
            _threads.remove(handing)


def on_device(device: str) -> AbstractContextManager[object]:
    """Make a GPU the current one: streams and events that name no device then belong to it."""
    return torch.cuda.device(device) if torch.device(device).type == "cuda" else nullcontext()


def _on(stream: torch.cuda.Stream | None, work: Callable[[], T]) -> T:
    with torch.cuda.stream(stream):
        return work()
