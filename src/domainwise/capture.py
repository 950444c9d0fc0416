"""The fast path: low precision, a compiled featurizer, and one update in one CUDA graph. Eager is the reference."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from domainwise.algorithms import Algorithm
from domainwise.compiled import keep_compiled
from domainwise.folding import folds
from domainwise.network import Network
from domainwise.pooling import pools
from domainwise.residual import residuals
from domainwise.stem import stems
from domainwise.tracing import compile_in_place
from domainwise.wiring import let_watch, replace, wiring

WARM_UP = 3  # eager updates before a capture: they make the optimizer's state and let libraries choose their kernels

Update = Callable[[Sequence[Any]], dict[str, Tensor]]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Fast:
    """What to use of the fast path, where there is a GPU."""

    compile: bool = True
    capture: bool = True
    deterministic: bool = False  # the same bits every time, at some cost

    def compiles(self, device: str) -> bool:
        return self.compile and torch.device(device).type != "cpu" and has_triton()

    def compiler(self, device: str) -> Callable[[Any], Any]:
        """What makes a function of one shape of inputs fast on a device."""
        if not self.compiles(device):
            return lambda function: function
        keep_compiled()
        return lambda function: torch.compile(function, dynamic=False, options=self.options)

    @property
    def options(self) -> dict[str, Any] | None:
        return {"deterministic": True} if self.deterministic else None


def has_triton() -> bool:
    """The compiler's own for GPUs, which comes with torch on Linux."""
    return find_spec("triton") is not None


def prepare(net: Network, shape: tuple[int, int, int], *, precision: str, fast: Fast, full: int = 0) -> None:
    """Make a network on a GPU ready for training, in place; the names in its state stay as they are.

    ``shape`` is (C, H, W) of its inputs, and ``full`` how many of them it is asked about at most in evaluation, where
    that varies: it is compiled for that many. A network on a CPU only takes the precision.
    """
    net.low_precision = precision == "bf16"
    example = next(net.parameters()).new_zeros(1, *shape)
    if example.device.type != "cuda":
        return
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if fast.compiles("cuda"):
        net.full = full
        example = torch.randn_like(example, memory_format=torch.channels_last)
        _rewire(net.featurizer, example, on_blocks=net.low_precision)
        keep_compiled()
        compile_in_place(net.featurizer, fast.options)


def _rewire(featurizer: nn.Module, example: Tensor, *, on_blocks: bool) -> None:
    """The same function of the same parameters in fewer passes; what cannot be changed stays."""
    wired = wiring(featurizer, example)
    folding = folds(wired)
    parts = [folding, pools(wired), stems(wired, folding) if on_blocks else {}, residuals(featurizer, wired, folding)]
    for forwards in (*reversed([*accumulate(parts, operator.or_)]), parts[1]):
        if replace(featurizer, example, forwards):
            break


def updater(algorithm: Algorithm, *, capture: bool, say: Say = lambda sentence: None) -> Update:
    """How to update an algorithm: called with minibatches like ``algorithm.update``, and to the same effect."""
    let_watch(algorithm.net)  # its setup may have put hooks into the network
    if not capture or algorithm.device.type != "cuda":
        return algorithm.update
    why_not = algorithm.uncapturable
    if type(algorithm).update is not Algorithm.update:
        why_not = "it has an update of its own; one that overrides prepare() and step() can be captured"
    if why_not:
        say(f"{algorithm.name} runs without a CUDA graph: {why_not}")
        return algorithm.update
    return Captured(algorithm, say)


@cache
def _beside(stream: torch.cuda.Stream) -> torch.cuda.Stream:
    """Another one, to record on: the same every time, since torch gives out 32 and then begins again, with one that a
    trial may be working on, and since each that was recorded on left 64 MiB of memory taken."""
    return torch.cuda.Stream(stream.device)  # type: ignore[no-untyped-call]


class Captured:
    """Replays one recorded step over inputs that lie still.

    The random order of a walk is which domain fills which slot. Whatever makes the recording wrong (another optimizer,
    other shapes) makes a new one.
    """

    def __init__(self, algorithm: Algorithm, say: Say) -> None:
        self.algorithm, self.say = algorithm, say
        self.situation: Hashable = None
        self.warm = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.given_up = False
        self.aside = _beside(torch.cuda.current_stream(algorithm.device))

    def __call__(self, batches: Sequence[Any]) -> dict[str, Tensor]:
        order = self.algorithm.begin(batches)
        return self.algorithm.end(self.step([batches[i] for i in order]), order)

    def forget(self) -> None:
        """After a state was loaded: the recording speaks of tensors that are no longer those of the algorithm."""
        self.situation = None

    def step(self, batches: Sequence[Any]) -> dict[str, Tensor]:
        given, structure = tree_flatten(batches)
        situation = (id(self.algorithm.optimizer), *(tensor.shape for tensor in given))
        if situation != self.situation:
            self.situation, self.warm, self.graph = situation, 0, None
        if not self.given_up and self.warm == WARM_UP and self.graph is None:
            self._capture(given, structure)
        if self.graph is None:
            self.warm = min(self.warm + 1, WARM_UP)
            return self._aside(batches)
        torch._foreach_copy_(self.slots, given, non_blocking=True)
        self.graph.replay()
        return dict(zip(self.names, self.row.clone(), strict=True))

    def _aside(self, batches: Sequence[Any]) -> dict[str, Tensor]:
        """On another stream, as a capture wants of what comes before it."""
        self.aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.aside):
            metrics = self.algorithm.step(batches)
        torch.cuda.current_stream().wait_stream(self.aside)
        return metrics

    def _capture(self, given: list[Tensor], structure: Any) -> None:
        self.slots = [tensor.clone(memory_format=torch.preserve_format) for tensor in given]
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=self.aside, capture_error_mode="thread_local"):
                metrics = self.algorithm.step(tree_unflatten(self.slots, structure))
                self.names, self.row = list(metrics), torch.stack([value.float() for value in metrics.values()])
        except RuntimeError as error:
            self.given_up = True
            self.say(f"{self.algorithm.name} runs without a CUDA graph: {str(error).splitlines()[0]}")
        else:
            self.graph = graph
