"""Networks written down for the compiler, which need not read their Python at every start.

``torch.compile`` interprets the code of a network and finds out what it depends on. That is right for any network, and
for a ResNet-50 it took a quarter of a start whose kernels were all there already (docs/performance.md). What a ResNet
does whose blocks compute in ways of ours can be had in much less, by calling a copy of it with names for its tensors.
"""

from __future__ import annotations

import copy
import logging
import operator
import sys
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn
from torch.fx.proxy import GraphAppendingTracer

from domainwise.acceleration.rewrite import REPLACED, hooked, let_watch

MANY = 8  # situations of one network. Whoever comes with more is left to torch.compile, which gives up at as many

Function = Callable[..., Any]
Options = dict[str, Any] | None

_log = logging.getLogger(__name__)
_lock = threading.RLock()
_compiled: dict[Hashable, Function] = {}  # of all networks in the process: those of one architecture share them


def compile_in_place(net: nn.Module, options: Options = None) -> None:
    """``net.compile(dynamic=False)`` that takes less time where it can."""
    net.compile(dynamic=False, options=options)
    with suppress(AttributeError, ImportError):  # it asks torch for what a later one may call otherwise
        if known(net) and _ordinary():
            assert net._compiled_call_impl is not None
            net._compiled_call_impl = Traced(net, net._compiled_call_impl, options)


class Seen(NamedTuple):
    """A network as it was at a call. In one piece, since another thread may be calling it too."""

    looks: list[object]
    places: list[tuple[dict[str, Any], str]]  # of its tensors; none if it is not known
    found: dict[Hashable, Function | None]  # by situation


class Traced:
    """What a call of a network does: something compiled for the situation, by ``torch.compile`` where we cannot."""

    def __init__(self, net: nn.Module, otherwise: Function, options: Options = None) -> None:
        self.net, self.otherwise, self.options = net, otherwise, options
        self.seen: dict[bool, Seen] = {}  # in training and in evaluation
        self.situations = 0  # there were so far

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) != 1 or kwargs:
            return self.otherwise(*args, **kwargs)
        seen = self._look()
        there = [*args, *(table.get(name) for table, name in seen.places)]
        tensors = [tensor for tensor in there if tensor is not None]
        if not (seen.places and _ordinary(*tensors)):
            return self.otherwise(*args)
        situation = (*_modes(args[0].device), *map(_kind, there))
        if situation not in seen.found:
            with _lock:
                self._find(seen, situation, tensors)
        function = seen.found[situation]
        return self.otherwise(*args) if function is None else function(*tensors)

    def _look(self) -> Seen:
        """What was found before, or nothing yet if somebody has changed the network since then."""
        looks, seen = _looks(self.net), self.seen.get(self.net.training)
        if seen is None or len(looks) != len(seen.looks) or not all(map(operator.is_, looks, seen.looks)):
            let_watch(self.net)
            seen = Seen(_looks(self.net), _places(self.net) if known(self.net) else [], {})
            self.seen[self.net.training] = seen
        return seen

    def _find(self, seen: Seen, situation: Hashable, tensors: list[Tensor]) -> None:
        if situation not in seen.found:  # nor has another thread found it meanwhile
            self.situations += 1
            seen.found[situation] = self._function(situation, tensors) if self.situations <= MANY else None

    def _function(self, situation: Hashable, tensors: list[Tensor]) -> Function | None:
        try:
            graph = written(self.net, tensors[1:])
            key = (str(graph), repr(self.options), situation)
            if key not in _compiled:
                _compiled[key] = _compile(graph, tensors, self.options)
        except Exception:  # it goes through interfaces of the compiler that a later one may have changed
            _log.debug("left to torch.compile", exc_info=True)
            return None
        return _compiled[key]


def known(net: nn.Module) -> bool:
    """Whether it is a ResNet of timm's with all its blocks and batch-norms replaced, and nothing else done to it."""
    resnet, pooling = (_imported(f"timm.{name}") for name in ("models.resnet", "layers.adaptive_avgmax_pool"))
    if resnet is None or type(net) is not resnet.ResNet or net.grad_checkpointing or _watched_everywhere():
        return False
    plain = {resnet.ResNet, pooling.SelectAdaptivePool2d, nn.AdaptiveAvgPool2d, nn.Flatten, nn.Identity}
    plain |= {nn.Sequential, nn.Conv2d, nn.ReLU, nn.MaxPool2d}
    replaced = set(vars(net).get(REPLACED, ()))
    return not any(map(hooked, net.modules())) and all(
        _methods(one) == {"forward": True} if one in replaced else type(one) in plain and not _methods(one)
        for one in net.modules()
    )


def _methods(module: nn.Module) -> dict[str, bool]:
    """Those that are not its class's, and whether they are ours."""
    own = {name: value for name, value in vars(module).items() if callable(getattr(type(module), name, None))}
    return {name: str(getattr(value, "__module__", "")).startswith("domainwise.") for name, value in own.items()}


def _imported(name: str) -> Any:
    return sys.modules.get(name)


def _watched_everywhere() -> bool:
    """By hooks of all modules there are."""
    there: Any = nn.modules.module
    forward = there._global_forward_hooks or there._global_forward_pre_hooks
    return bool(forward or there._global_backward_hooks or there._global_backward_pre_hooks)


def _looks(net: nn.Module) -> list[object]:
    """All that says what a network does but its tensors: the same objects if nothing has changed."""
    found: list[object] = [_watched_everywhere()]
    for module in net.modules():
        found += (module, type(module), hooked(module), *vars(module).values(), *module._modules.values())
    return found


def _places(net: nn.Module) -> list[tuple[dict[str, Any], str]]:
    """Of all tensors. They are looked up at every call, since somebody may have put others there."""
    return [(table, name) for one in net.modules() for table in (one._parameters, one._buffers) for name in table]


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


def _ordinary(*tensors: Any) -> bool:
    """Tensors like any other, each of its own, in nobody's transformation of the computation."""
    dynamo = import_module("torch._dynamo")
    return (
        all(type(one) in (Tensor, nn.Parameter) and one.layout == torch.strided for one in tensors)
        and len(set(map(id, tensors))) == len(tensors)
        and torch._C._functorch.peek_interpreter_stack() is None
        and not torch._C._len_torch_dispatch_stack()
        and not torch._C._len_torch_function_stack()
        and not torch.compiler.is_compiling()
        and not dynamo.config.disable
        and dynamo.eval_frame._stance.stance == "default"
    )


def _modes(device: torch.device) -> tuple[Hashable, ...]:
    """What of the process and the thread says how to compute."""
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled(device.type) and torch.get_autocast_dtype(device.type),
        torch.are_deterministic_algorithms_enabled(),
    )


def _kind(tensor: Tensor | None) -> Hashable:
    return tensor is not None and (tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.requires_grad)
