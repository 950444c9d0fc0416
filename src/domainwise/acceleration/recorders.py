"""Record a step: in CUDA graphs on a GPU, on a tape of operations on a CPU."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Protocol
from weakref import ref

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from domainwise.acceleration.values import line_of

WAITS = "called a synchronizing"  # in torch's warning of a wait for the device

Operation = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], list[Tensor]]
Step = Callable[[], dict[str, Tensor]]

HOST = "tolist numpy item __array__ __dlpack__ __bool__ __float__ __int__ __index__ __repr__".split()  # noqa: SIM905
SIZED = "one_hot into so many"
CHECKS_ON_CPU = ("quantile", "nanquantile", SIZED)  # whose own look at a number torch does without on a GPU
NOT_AGAIN = "which a replay does not do again"
NUMBERS, SIZES = torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape


class Recorder(Protocol):
    """Record steps. Each way of running one also says why it could not be recorded; "" if it could."""

    runs: bool  # whether recording a step also takes it
    without: str  # what a sentence says of an algorithm that is not recorded

    def run(self, step: Step) -> dict[str, Tensor]: ...
    def rehearse(self, step: Step) -> tuple[dict[str, Tensor], str]: ...
    def record(self, step: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], None], str]: ...


class CudaGraphs:
    """Record in CUDA graphs, which do nothing while they are recorded."""

    runs = False
    without = "runs without a CUDA graph"

    def __init__(self, device: torch.device) -> None:
        self.aside = _beside(torch.cuda.current_stream(device))
        self.last: ref[torch.cuda.CUDAGraph] | None = None

    def run(self, step: Step) -> dict[str, Tensor]:
        """Run a step on another stream, as a recording wants of what comes before it."""
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
    """Record on a CPU, where recording a step also takes it."""

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
    """Return another stream to record on, the same every time.

    Torch gives out 32 and then begins again, with one that a trial may be working on; and each that was recorded on
    left 64 MiB of memory taken.
    """
    return torch.cuda.Stream(stream.device)  # type: ignore[no-untyped-call]


class Tape:
    """Record without a GPU: the operations of a step are repeated over memory that stays where it is.

    It behaves as a CUDA graph does: the same operations on the same memory, whatever the Python around them would do by
    now. So what a graph would get wrong shows on any machine. ``refused`` says what a GPU could not record.
    """

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.refused = ""
        self.inside: list[str] = []  # the functions of torch that were called from Python and are at work

    @contextmanager
    def recording(self) -> Iterator[None]:
        with _Calls(self), _Operations(self):
            yield

    def replay(self) -> None:
        with torch._C._AutoDispatchBelowAutograd(), torch.autocast("cpu", enabled=False):
            for function, args, kwargs, results in self.operations:
                again = [one for one in tree_leaves(function(*args, **kwargs)) if isinstance(one, Tensor)]
                for old, new in zip(results, again, strict=True):
                    if old.data_ptr() != new.data_ptr():
                        old.copy_(new)

    def refuse(self, what: str) -> None:
        if not self.refused:
            self.refused = what.format(where=line_of((frame, frame.f_lineno) for frame in _frames()))


class _Calls(TorchFunctionMode):
    """See what Python asks of tensors."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self.tape = tape

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in HOST:
            self.tape.refuse(f"step reads a tensor on the host ({_plain(name)}){{where}}, {NOT_AGAIN}")
        self.tape.inside.append(SIZED if name == "one_hot" and (args[1:] or kwargs) else name)
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.tape.inside.pop()


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """See what tensors are made of, in forward and in backward passes."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tape = tape

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kept = tree_map_only(Tensor, _as_it_is, (args, kwargs or {}))
        result = func(*args, **(kwargs or {}))
        args, kwargs = kept
        self._judge(func, args, kwargs)
        repeated, results = func, [_as_it_is(one) for one in tree_leaves(result) if isinstance(one, Tensor)]
        if func is torch.ops.aten.lift_fresh.default:  # numbers that came from Python
            given = args[0].clone()
            repeated = lambda *_: given.clone()  # noqa: E731
        if torch.Tag.inplace_view not in func.tags:  # which writes to no memory
            self.tape.operations.append((repeated, args, kwargs, results))
        return result

    def _judge(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        inside = self.tape.inside[-1] if self.tape.inside else ""
        if NUMBERS in func.tags and inside not in CHECKS_ON_CPU:
            self.tape.refuse(
                f"step reads a tensor on the host{f' ({_plain(inside)})' if inside else ''}{{where}}, {NOT_AGAIN}"
            )
        elif _picks(func, args) or (SIZES in func.tags and func.overloadpacket.__name__ != "index"):
            self.tape.refuse(f"step makes a tensor whose shape depends on numbers in another{{where}}, {NOT_AGAIN}")
        elif any(isinstance(one, torch.Generator) for one in (*args, *kwargs.values())):
            self.tape.refuse("step draws from its own generator{where}: draw in prepare(), into a tensor that stays")


def _picks(func: Any, args: Any) -> bool:
    """Whether an operation takes the entries where a mask is true; to put one number there is no matter."""
    kind = func.overloadpacket.__name__
    if kind not in ("index", "index_put", "index_put_"):
        return False
    masks = [one for one in args[1] if one is not None and one.dtype in (torch.bool, torch.uint8)]
    return bool(masks) and (kind == "index" or args[2].numel() > 1)


def _as_it_is(tensor: Tensor) -> Tensor:
    """Return the same memory, in a shape that no later operation changes in place."""
    return tensor.detach()


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _plain(name: str) -> str:
    return {"__bool__": "bool()", "__float__": "float()", "__int__": "int()"}.get(name, f".{name}()")
