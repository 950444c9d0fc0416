"""A recording without a GPU: the operations of a step, repeated over memory that stays where it is.

It behaves as a CUDA graph does: the same operations on the same memory, whatever the Python around them would do by
now. So what a graph would get wrong shows on any machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from domainwise.acceleration.guards import line_of

Operation = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], list[Tensor]]

HOST = (
    "tolist",
    "numpy",
    "__array__",
    "__dlpack__",
    "item",
    "__bool__",
    "__float__",
    "__int__",
    "__index__",
    "__repr__",
)
SIZED = "one_hot into so many"
CHECKS_ON_CPU = ("quantile", "nanquantile", SIZED)  # whose own look at a number torch does without on a GPU
NOT_AGAIN = "which a replay does not do again"
NUMBERS, SIZES = torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape


class Tape:
    """What was recorded. ``refused`` says what in it a GPU could not record, if anything."""

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
    """Sees what Python asks of tensors."""

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
    """Sees what tensors are made of, in forward and in backward passes."""

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
    """Whether it takes the entries where a mask is true; to put one number there is no matter."""
    kind = func.overloadpacket.__name__
    if kind not in ("index", "index_put", "index_put_"):
        return False
    masks = [one for one in args[1] if one is not None and one.dtype in (torch.bool, torch.uint8)]
    return bool(masks) and (kind == "index" or args[2].numel() > 1)


def _as_it_is(tensor: Tensor) -> Tensor:
    """The same memory, in a shape that no later operation changes in place."""
    return tensor.detach()


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _plain(name: str) -> str:
    return {"__bool__": "bool()", "__float__": "float()", "__int__": "int()"}.get(name, f".{name}()")
