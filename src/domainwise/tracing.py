"""A compiled network that is written down from its modules: what reading their Python finds out anew at every start.

``torch.compile`` interprets a network's Python code and checks, at every call, whatever the code depended on. That is
right for any network, and it is the longest part of a start whose kernels are all there already. The forward of a
ResNet whose blocks compute in ways of ours depends on nothing but its tensors: it can be called with names in their
place, which is a tenth of the time.
"""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable, Hashable
from functools import cached_property
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.proxy import GraphAppendingTracer

from domainwise.wiring import REPLACED, hooked, watched

Function = Callable[..., Tensor]
Options = dict[str, Any] | None

_lock = threading.RLock()
_compiled: dict[Hashable, Function] = {}  # of all networks in the process: those of one architecture share them


class Traced:
    """What a call of a network does: something compiled for the situation, by ``torch.compile`` where we cannot."""

    def __init__(self, net: nn.Module, options: Options = None) -> None:
        self.net, self.options = net, options
        self.otherwise: Function = torch.compile(net._call_impl, dynamic=False, options=options)
        self.found: dict[Hashable, Function | None] = {}

    @cached_property
    def places(self) -> list[tuple[dict[str, Any], str]]:
        """Of all tensors. They are looked up at every call, since somebody may put others there."""
        modules = list(self.net.modules())
        return [(table, name) for m in modules for table in (m._parameters, m._buffers) for name in table]

    def __call__(self, x: Tensor) -> Tensor:
        tensors = [tensor for table, name in self.places if (tensor := table[name]) is not None]
        if not _ordinary(x, *tensors):
            return self.otherwise(x)
        situation = (self.net.training, _modes(x.device), *map(_kind, (x, *tensors)))
        if situation not in self.found:
            with _lock:
                self.found[situation] = self._function(situation, x, tensors)
        function = self.found[situation]
        return self.otherwise(x) if function is None else function(x, *tensors)

    def _function(self, situation: Hashable, x: Tensor, tensors: list[Tensor]) -> Function | None:
        if not known(self.net):
            return None
        try:
            graph = written(self.net, tensors)
            key = (str(graph), repr(self.options), situation)
            if key not in _compiled:
                _compiled[key] = _compile(graph, [x, *tensors], self.options)
        except Exception:  # it goes through interfaces of the compiler that a later one may have changed
            return None
        return _compiled[key]


def known(net: nn.Module) -> bool:
    """Whether it is a ResNet of timm's with all its blocks and batch-norms replaced, that nobody watches."""
    resnet, pooling = (_imported(f"timm.{name}") for name in ("models.resnet", "layers.adaptive_avgmax_pool"))
    if resnet is None or type(net) is not resnet.ResNet or net.grad_checkpointing or _watched_everywhere():
        return False
    plain = {resnet.ResNet, pooling.SelectAdaptivePool2d, nn.AdaptiveAvgPool2d, nn.Flatten, nn.Identity}
    plain |= {nn.Sequential, nn.Conv2d, nn.ReLU, nn.MaxPool2d}
    ours = set(vars(net).get(REPLACED, ()))
    return all(
        not hooked(module) and (module in ours or (type(module) in plain and not watched(module)))
        for module in net.modules()
    )


def _imported(name: str) -> Any:
    return sys.modules.get(name)


def _watched_everywhere() -> bool:
    """By hooks of all modules there are."""
    hooks: Any = nn.modules.module
    return bool(hooks._global_forward_hooks or hooks._global_forward_pre_hooks)


def written(net: nn.Module, tensors: list[Tensor]) -> fx.Graph:
    """What a network does with an input and with those tensors, which are all it has: a function of both."""
    graph = fx.Graph()
    tracer = GraphAppendingTracer(graph)
    x, *names = (fx.Proxy(graph.placeholder(f"x{i}"), tracer) for i in range(len(tensors) + 1))
    double: Any = copy.deepcopy(net, dict(zip(map(id, tensors), names, strict=True)))  # with names for tensors
    graph.output((double(x).node,))
    return graph


def _compile(graph: fx.Graph, inputs: list[Tensor], options: Options) -> Function:
    inductor, guards, shapes, fake = (
        import_module(f"torch.{name}")
        for name in ("_inductor", "_guards", "fx.experimental.symbolic_shapes", "_subclasses.fake_tensor")
    )
    for method in graph.nodes:
        if method.op == "call_method":  # what has such an entry is a tensor, whose methods may be looked up
            method.args[0].meta.setdefault("example_value", None)
    # In such a context what was compiled is looked up, and kept, as that of torch.compile is.
    mode = fake.FakeTensorMode(shape_env=shapes.ShapeEnv())
    shapely = [mode.from_tensor(one, static_shapes=True) for one in inputs]
    with guards.tracing(guards.TracingContext(mode)):
        function = inductor.compile(fx.GraphModule({}, graph), shapely, options)
    return lambda *args: function(*args)[0]


def _ordinary(*tensors: Tensor) -> bool:
    """Tensors like any other, in nobody's transformation of the computation."""
    return (
        all(type(one) in (Tensor, nn.Parameter) for one in tensors)
        and torch._C._functorch.peek_interpreter_stack() is None
        and not torch._C._len_torch_dispatch_stack()
        and not torch._C._len_torch_function_stack()
        and not torch.compiler.is_compiling()
    )


def _modes(device: torch.device) -> Hashable:
    """What of the process and the thread says how to compute."""
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled(device.type) and torch.get_autocast_dtype(device.type),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_float32_matmul_precision(),
    )


def _kind(tensor: Tensor) -> Hashable:
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.requires_grad
