"""Networks that are written down instead of being read: the same function, in every situation they are called in."""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch.func import functional_call, grad

from domainwise import capture, tracing
from domainwise.tracing import Traced, known
from domainwise.vision import import_timm
from domainwise.wiring import let_watch

timm = import_timm()
X = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0)).double()


def plain(name: str = "resnet18", **settings: Any) -> nn.Module:
    torch.manual_seed(0)
    net: nn.Module = timm.create_model(name, num_classes=0, **settings)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1)
            nn.init.normal_(module.bias, std=0.1)
            module.eval()
    return net.double().to(memory_format=torch.channels_last)


def ready(net: nn.Module) -> nn.Module:
    capture._rewire(net, X[:1], on_blocks=True)
    return net


class Compiler:
    """Instead of the real one, which takes a minute: the graph itself, and a count of what it was asked for."""

    def __init__(self) -> None:
        self.graphs = 0
        self.read = 0

    def graph(self, graph: fx.Graph, inputs: list[Tensor], options: object) -> Callable[..., Tensor]:
        self.graphs += 1
        function = fx.GraphModule({}, graph)
        return lambda *args: function(*args)[0]

    def python(self, function: Callable[..., Tensor], **_: object) -> Callable[..., Tensor]:
        def called(*args: Tensor) -> Tensor:
            self.read += 1
            return function(*args)

        return called


@pytest.fixture(autouse=True)
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    made = Compiler()
    monkeypatch.setattr(tracing, "_compile", made.graph)
    monkeypatch.setattr(tracing, "_compiled", {})
    monkeypatch.setattr(torch, "compile", made.python)
    return made


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "resnet50c"])
def test_what_is_written_down_is_the_network(name: str, compiler: Compiler) -> None:
    net = plain(name)
    other = ready(copy.deepcopy(net))
    outputs = [net(X), Traced(other)(X)]
    assert (compiler.graphs, compiler.read) == (1, 0)
    torch.testing.assert_close(*outputs)
    for output in outputs:
        output.square().mean().backward()
    for p, q in zip(net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


def test_it_computes_with_the_tensors_that_are_there_when_it_is_called() -> None:
    net = ready(plain())
    traced = Traced(net)
    before = traced(X)
    with torch.no_grad():
        net.layer1[0].conv1.weight.mul_(2)
        net.bn1.running_mean.add_(1)
    torch.testing.assert_close(traced(X), net(X))
    assert not torch.allclose(traced(X), before)
    state = {name: value.detach() * 1.5 for name, value in net.named_parameters()}
    expected = functional_call(net, state, X)
    net._compiled_call_impl = traced
    torch.testing.assert_close(functional_call(net, state, X), expected)
    assert not torch.allclose(net(X), expected)


def test_every_situation_has_its_own_and_comes_back_to_it(compiler: Compiler) -> None:
    net = ready(plain())
    traced = Traced(net)
    calls: list[Callable[[], Tensor]] = [
        lambda: traced(X),
        lambda: traced(X[:1]),
        lambda: traced(X.clone().requires_grad_()),
        torch.no_grad()(lambda: traced(X)),
        torch.inference_mode()(lambda: traced(X)),
        torch.autocast("cpu", torch.bfloat16)(lambda: traced(X)),
    ]
    for _ in range(2):
        results = [call() for call in calls]
    assert (compiler.graphs, compiler.read) == (len(calls), 0)
    torch.testing.assert_close(results[3], net(X).detach())
    assert [result.requires_grad for result in results] == [True, True, True, False, False, True]
    net.layer1.requires_grad_(False)
    traced(X)
    assert compiler.graphs == len(calls) + 1


def test_dropout_drops_in_training_alone() -> None:
    net = ready(plain(drop_rate=0.5))
    traced = Traced(net.eval())
    torch.testing.assert_close(traced(X), net(X))
    net.train()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
    dropped = traced(X) == 0
    assert 0.3 < dropped.double().mean() < 0.7
    assert not torch.equal(traced(X) == 0, dropped)


def test_networks_of_one_architecture_share_what_was_compiled(compiler: Compiler) -> None:
    first, second, third = ready(plain()), ready(plain()), ready(plain(output_stride=16))
    with torch.no_grad():
        second.conv1.weight.neg_()
    for net in (first, second):
        torch.testing.assert_close(Traced(net)(X), net(X))
    assert compiler.graphs == 1
    torch.testing.assert_close(Traced(third)(X), third(X))  # its tensors have the same shapes
    Traced(first, {"deterministic": True})(X)
    assert compiler.graphs == 3


def unfrozen() -> nn.Module:
    net = plain()
    net.layer3[0].bn1.train()
    return ready(net)


def watched() -> nn.Module:
    net = ready(plain())
    net.layer1.register_forward_hook(lambda *_: None)
    return net


def watched_inside() -> nn.Module:
    net = ready(plain())
    net.layer1[0].conv1.register_forward_hook(lambda *_: None)
    let_watch(net)
    return net


def changed() -> nn.Module:
    net = ready(plain())
    net.layer2.forward = lambda x: nn.Sequential.forward(net.layer2, x) + 1
    return net


def checkpointed() -> nn.Module:
    net = ready(plain())
    net.set_grad_checkpointing()
    return net


def own() -> nn.Module:
    class Own(timm.models.resnet.ResNet):  # type: ignore[name-defined,misc]
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + torch.rand(())  # at tracing, that would be one number for ever

    net = plain()
    net.__class__ = Own
    return ready(net)


OTHERS = [
    unfrozen, watched, watched_inside, changed, checkpointed, own, plain,
    lambda: ready(plain(global_pool="max")),
    lambda: ready(plain(drop_path_rate=0.1)),
    lambda: ready(plain("resnet50", block_args={"attn_layer": "se"})),
    lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()).double(),
]  # fmt: skip


@pytest.mark.parametrize("make", OTHERS)
def test_other_networks_are_read(make: Callable[[], nn.Module], compiler: Compiler) -> None:
    net = make()
    assert not known(net)
    Traced(net)(X)
    assert (compiler.graphs, compiler.read) == (0, 1)


def test_a_network_is_read_while_everything_is_watched(compiler: Compiler) -> None:
    net = ready(plain())
    with nn.modules.module.register_module_forward_hook(lambda *_: None):
        Traced(net)(X)
    assert (compiler.graphs, compiler.read) == (0, 1)


def test_what_is_transformed_is_read(compiler: Compiler) -> None:
    net = ready(plain())
    traced = Traced(net)
    slopes = [grad(lambda x, function=function: function(x).sum())(X) for function in (traced, net)]  # type: ignore[misc]
    torch.testing.assert_close(*slopes)
    assert (compiler.graphs, compiler.read) == (0, 1)


def test_a_compiler_that_takes_no_graph_reads_it(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise TypeError("compile() takes something else today")

    monkeypatch.setattr(tracing, "_compile", refuses)
    net = ready(plain())
    traced = Traced(net)
    torch.testing.assert_close(traced(X), net(X))
    traced(X)
    assert compiler.read == 2


def test_a_copy_is_as_it_was() -> None:
    net = ready(plain())
    names = list(net.state_dict())
    net._compiled_call_impl = Traced(net)
    net(X)
    assert list(net.state_dict()) == names
    assert copy.deepcopy(net)._compiled_call_impl is None


REAL = """
import sys, torch
sys.path[:0] = sys.argv[1:]
from test_tracing import plain, ready, Traced
from timm.models.resnet import BasicBlock, ResNet
net = ResNet(BasicBlock, (1, 1, 1, 1), num_classes=0, channels=(16, 16, 16, 16), stem_width=16)
for module in net.modules():
    if isinstance(module, torch.nn.BatchNorm2d):
        module.eval()
x = torch.randn(2, 3, 64, 64)
net = ready(net.double()).float().to(memory_format=torch.channels_last)
traced = Traced(net)
expected, found = net(x), traced(x)
torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
gradients = [torch.autograd.grad(y.square().sum(), list(net.parameters())) for y in (expected, found)]
torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-3)
with torch.no_grad():
    torch.testing.assert_close(traced(x), net(x), rtol=1e-4, atol=1e-4)
assert None not in traced.found.values()
from torch._dynamo.utils import counters
print(counters["aot_autograd"]["autograd_cache_hit"], counters["aot_autograd"]["autograd_cache_miss"])
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler here")
def test_a_second_process_finds_what_the_first_has_compiled(tmp_path: Path) -> None:
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    found = [
        subprocess.run(
            [sys.executable, "-c", REAL, str(Path(__file__).parent)],
            env=environment,
            check=True,
            text=True,
            capture_output=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert found == [["0", "2"], ["2", "0"]]
