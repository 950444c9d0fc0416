"""Share a device between the trials of one process: one lock around its work, and one way to compute."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
import torch.utils.deterministic

from domainwise.errors import InputError

# cuBLAS reads it when it is first used: without a workspace of fixed size, its sums depend on what else is going on.
WORKSPACE = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
_memory: Any = torch.utils.deterministic


T = TypeVar("T")


class Submit(Protocol):
    """Give the device work: :func:`directly`, or by :func:`with_device_lock` where trials share it."""

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


class Units(NamedTuple):
    """Say how the arithmetic units of a device are to compute."""

    precision: str
    deterministic: bool


_settings_lock = threading.Lock()
_users: list[Units] = []
_before: list[dict[str, Any]] = []


@contextmanager
def arithmetic_units(precision: str, deterministic: bool = False) -> Iterator[None]:
    """Let matrix products and convolutions round to TF32, or not, for as long as this lasts.

    Several threads may be inside at once, if they want the same. ``deterministic`` gives the same bits every time.
    """
    wanted = Units(precision, deterministic)
    with _settings_lock:
        if any(other != wanted for other in _users):
            raise InputError("trials of different precision cannot share a process, which has one setting for all")
        if not _users:
            _before.append(_settings())
            _apply(_chosen(wanted))
        _users.append(wanted)
    try:
        yield
    finally:
        with _settings_lock:
            _users.remove(wanted)
            if not _users:
                _apply(_before.pop())


def _chosen(units: Units) -> dict[str, Any]:
    """Return the settings for these units.

    Whether cuDNN tries its kernels out is left as it is: not, unless somebody says so. What it takes without trying is
    as fast (docs/performance.md), and it is the same every time.
    """
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
