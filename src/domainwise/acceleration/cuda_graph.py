"""Take the fast path: low precision, a compiled featurizer, one update in one CUDA graph. Eager is the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from domainwise.acceleration.compile_cache import keep_compiled
from domainwise.acceleration.recorders import Recorder
from domainwise.acceleration.recording import Captured, Say
from domainwise.acceleration.rewrite import let_watch, rewrite
from domainwise.algorithms import Algorithm
from domainwise.networks.network import Network

Update = Callable[..., dict[str, Tensor]]  # called like Algorithm.update


@dataclass(frozen=True)
class Fast:
    """Choose what to use of the fast path, where there is a GPU."""

    compile: bool = True
    capture: bool = True
    deterministic: bool = False  # the same bits every time, at some cost

    def compiles(self, device: str) -> bool:
        """Whether networks on a device are compiled."""
        return self.compile and torch.device(device).type != "cpu" and has_triton()

    def compiler(self, device: str) -> Callable[[Any], Any]:
        """Return what makes a function of one shape of inputs fast on a device."""
        if not self.compiles(device):
            return lambda function: function
        keep_compiled()
        return lambda function: torch.compile(function, dynamic=False, options=self.options)

    @property
    def options(self) -> dict[str, Any] | None:
        """Return the compiler's options."""
        return {"deterministic": True} if self.deterministic else None


def has_triton() -> bool:
    """Whether Triton, which torch.compile needs on a GPU, is installed."""
    return find_spec("triton") is not None


def prepare(net: Network, *, precision: str, fast: Fast, full: int = 0) -> None:
    """Make a network on a GPU ready for training, in place; the names in its state stay as they are.

    ``full`` is how many images it is asked about at most in evaluation, where that varies: it is compiled for that
    many. A network on a CPU only takes the precision.
    """
    net.low_precision = precision == "bf16"
    if next(net.parameters()).device.type != "cuda":
        return
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if fast.compiles("cuda"):
        net.pad_to = full
        rewrite(net.featurizer, on_blocks=net.low_precision)
        keep_compiled()
        net.featurizer.compile(dynamic=False, options=fast.options)


def updater(
    algorithm: Algorithm, *, capture: bool, say: Say = lambda sentence: None, recorder: Recorder | None = None
) -> Update:
    """Return what updates an algorithm, called like ``algorithm.update`` and to the same effect.

    ``recorder`` records in another way than CUDA graphs, on any device.
    """
    let_watch(algorithm.net)  # its setup may have put hooks into the network
    if not capture or (algorithm.device.type != "cuda" and recorder is None):
        return algorithm.update
    why_not = algorithm.uncapturable or algorithm.outer_settings.untried
    if type(algorithm).update is not Algorithm.update:
        why_not = "it has an update of its own; one that overrides prepare() and step() can be captured"
    if why_not:
        say(f"{algorithm.name} runs without a CUDA graph: {why_not}")
        return algorithm.update
    return Captured(algorithm, say, recorder)
