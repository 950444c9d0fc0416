"""Ways of recording a step: in CUDA graphs on a GPU, on a tape of operations on a CPU."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Protocol
from weakref import ref

import torch
from torch import Tensor

from domainwise.acceleration.tape import Tape

WAITS = "called a synchronizing"  # in torch's warning of a wait for the device

Step = Callable[[], dict[str, Tensor]]


class Recorder(Protocol):
    """Records steps. Each way of running one also says why it could not be recorded; "" if it could."""

    runs: bool  # whether recording a step also takes it
    without: str  # what a sentence says of an algorithm that is not recorded

    def run(self, step: Step) -> dict[str, Tensor]: ...
    def rehearse(self, step: Step) -> tuple[dict[str, Tensor], str]: ...
    def record(self, step: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], None], str]: ...


class CudaGraphs:
    """Records in CUDA graphs, which do nothing while they are recorded."""

    runs = False
    without = "runs without a CUDA graph"

    def __init__(self, device: torch.device) -> None:
        self.aside = _beside(torch.cuda.current_stream(device))
        self.last: ref[torch.cuda.CUDAGraph] | None = None

    def run(self, step: Step) -> dict[str, Tensor]:
        """On another stream, as a recording wants of what comes before it."""
        self.aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.aside):
            metrics = step()
        torch.cuda.current_stream().wait_stream(self.aside)
        return metrics

    def rehearse(self, step: Step) -> tuple[dict[str, Tensor], str]:
        """Take the step and say where it waits for the device, which a recording could not: torch warns of it."""
        with warnings_here(not_elsewhere=WAITS) as heard:
            mode = torch.cuda.get_sync_debug_mode()
            torch.cuda.set_sync_debug_mode("warn")
            try:
                metrics = self.run(step)
            finally:
                torch.cuda.set_sync_debug_mode(mode)
        waits = [one for one in heard if WAITS in str(one.message)]
        for one in heard:
            if one not in waits and "Synchronization debug mode" not in str(one.message):
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        where = f"{Path(waits[0].filename).name}, line {waits[0].lineno}" if waits else ""
        return metrics, f"step waits for a number from the GPU in {where}" if waits else ""

    def record(self, step: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], None], str]:
        graph, other = torch.cuda.CUDAGraph(), self.last() if self.last else None
        # One after the other they can share memory: nothing that one leaves there is read by the next.
        pool = other.pool() if other is not None else None
        with torch.cuda.graph(graph, pool=pool, stream=self.aside, capture_error_mode="thread_local"):
            row = step()
        self.last = ref(graph)
        return row, graph.replay, ""


class Tapes:
    """Records on a CPU, taking the step."""

    runs = True
    without = "cannot be replayed"

    def run(self, step: Step) -> dict[str, Tensor]:
        return step()

    def rehearse(self, step: Step) -> tuple[dict[str, Tensor], str]:
        tape = Tape()
        with tape.recording():
            return step(), tape.refused

    def record(self, step: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], None], str]:
        tape = Tape()
        with tape.recording():
            row = step()
        return row, tape.replay, tape.refused


@contextmanager
def warnings_here(not_elsewhere: str) -> Iterator[list[warnings.WarningMessage]]:
    """Collect the warnings of this thread.

    Filters hold for the whole process, so those of other threads come here too. They are shown as ever, but for those
    that contain ``not_elsewhere``.
    """
    heard: list[warnings.WarningMessage] = []
    here, show = threading.get_ident(), warnings.showwarning

    def sort(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if threading.get_ident() == here:
            heard.append(warnings.WarningMessage(message, category, *where, **more))
        elif not_elsewhere not in str(message):
            show(message, category, *where, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = sort
        yield heard


@cache
def _beside(stream: torch.cuda.Stream) -> torch.cuda.Stream:
    """Another one, to record on: the same every time, since torch gives out 32 and then begins again, with one that a
    trial may be working on, and since each that was recorded on left 64 MiB of memory taken."""
    return torch.cuda.Stream(stream.device)  # type: ignore[no-untyped-call]
