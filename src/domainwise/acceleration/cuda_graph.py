"""The fast path: low precision, a compiled featurizer, and one update in one CUDA graph. Eager is the reference."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn

from domainwise.acceleration.blocked_stem import stems
from domainwise.acceleration.compile_cache import keep_compiled
from domainwise.acceleration.fold_batch_norm import folds
from domainwise.acceleration.max_pool import pools
from domainwise.acceleration.recorders import Recorder
from domainwise.acceleration.recording import Captured, Say
from domainwise.acceleration.rewrite import let_watch, replace, wiring
from domainwise.algorithms import Algorithm
from domainwise.networks.network import Network

Update = Callable[[Sequence[Any]], dict[str, Tensor]]


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
        net.pad_to = full
        example = torch.randn_like(example, memory_format=torch.channels_last)
        _rewire(net.featurizer, example, on_blocks=net.low_precision)
        keep_compiled()
        net.featurizer.compile(dynamic=False, options=fast.options)


def _rewire(featurizer: nn.Module, example: Tensor, *, on_blocks: bool) -> None:
    """The same function of the same parameters in fewer passes; what cannot be changed stays."""
    wired = wiring(featurizer, example)
    folding = folds(wired)
    parts = [folding, pools(wired), stems(wired, folding) if on_blocks else {}]
    for forwards in (*reversed([*accumulate(parts, operator.or_)]), parts[1]):
        if replace(featurizer, example, forwards):
            break


def updater(
    algorithm: Algorithm, *, capture: bool, say: Say = lambda sentence: None, recorder: Recorder | None = None
) -> Update:
    """How to update an algorithm: called with minibatches like ``algorithm.update``, and to the same effect.

    ``recorder`` is another than CUDA graphs, which any device can have.
    """
    let_watch(algorithm.net)  # its setup may have put hooks into the network
    if not capture or (algorithm.device.type != "cuda" and recorder is None):
        return algorithm.update
    why_not = algorithm.uncapturable
    if type(algorithm).update is not Algorithm.update:
        why_not = "it has an update of its own; one that overrides prepare() and step() can be captured"
    if why_not:
        say(f"{algorithm.name} runs without a CUDA graph: {why_not}")
        return algorithm.update
    return Captured(algorithm, say, recorder)
