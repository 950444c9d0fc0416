"""Networks that are written down instead of being read: the same function, in every situation they are called in."""

from __future__ import annotations

import copy
import gc
import os
import random
import shutil
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MethodType
from typing import Any

import pytest
import torch
from made_networks import resnet, timm
from torch import Tensor, fx, nn
from torch.func import functional_call, grad
from torch.utils.flop_counter import FlopCounterMode

from domainwise.acceleration import cuda_graph as capture, tracing
from domainwise.acceleration.rewrite import let_watch
from domainwise.acceleration.tracing import compile_in_place, known

X = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0)).double()


def plain(name: str = "resnet18", **settings: Any) -> nn.Module:
    return resnet(name, **settings).to(memory_format=torch.channels_last)


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
        def called(*args: Any, **kwargs: Any) -> Tensor:
            self.read += 1
            return function(*args, **kwargs)

        return called


@pytest.fixture(autouse=True)
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    made = Compiler()
    monkeypatch.setattr(tracing, "_compile", made.graph)
    monkeypatch.setattr(tracing, "_compiled", {})
    monkeypatch.setattr(torch, "compile", made.python)
    return made


def traced(net: nn.Module, options: dict[str, Any] | None = None) -> nn.Module:
    compile_in_place(net, options)
    return net


def frozen(net: nn.Module, mode: bool) -> nn.Module:
    net.train(mode)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
    return net


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "resnet50c"])
def test_what_is_written_down_is_the_network(name: str, compiler: Compiler) -> None:
    net = plain(name)
    other = traced(ready(copy.deepcopy(net)))
    outputs = [net(X), other(X)]
    assert (compiler.graphs, compiler.read) == (1, 0)
    torch.testing.assert_close(*outputs)
    for output in outputs:
        output.square().mean().backward()
    for p, q in zip(net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


def test_it_computes_with_the_tensors_that_are_there_when_it_is_called(compiler: Compiler) -> None:
    net = traced(ready(plain()))
    before = net(X)
    with torch.no_grad():
        net.layer1[0].conv1.weight.mul_(2)
        net.bn1.running_mean.add_(1)
    net.layer1[0].conv2.weight = nn.Parameter(net.layer1[0].conv2.weight.detach() * 1.5)
    net.bn1.running_var = net.bn1.running_var * 1.5
    torch.testing.assert_close(net(X), net._call_impl(X))
    assert not torch.allclose(net(X), before)
    state = {name: value.detach() * 1.5 for name, value in net.named_parameters()}
    found = functional_call(net, state, X)
    assert compiler.read == 0
    net._compiled_call_impl = None
    torch.testing.assert_close(functional_call(net, state, X), found)
    assert not torch.allclose(net(X), found)


def test_every_situation_has_its_own_and_comes_back_to_it(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    net = traced(ready(plain()))
    monkeypatch.setattr(tracing, "MANY", 20)

    def deterministic() -> Tensor:
        torch.use_deterministic_algorithms(True)
        try:
            return net(X)
        finally:
            torch.use_deterministic_algorithms(False)

    calls: list[Callable[[], Tensor]] = [
        lambda: net(X),
        lambda: net(X[:1]),
        lambda: net(X.to(memory_format=torch.channels_last)),
        lambda: net(X.clone().requires_grad_()),
        torch.no_grad()(lambda: net(X)),
        torch.inference_mode()(lambda: net(X)),
        torch.autocast("cpu", torch.bfloat16)(lambda: net(X)),
        torch.autocast("cpu", torch.float16)(lambda: net(X)),
        deterministic,
    ]
    for _ in range(2):
        results = [call() for call in calls]
    assert (compiler.graphs, compiler.read) == (len(calls), 0)
    torch.testing.assert_close(results[4], net._call_impl(X).detach())
    assert [result.requires_grad for result in results] == [True] * 4 + [False, False] + [True] * 3
    net.layer1.requires_grad_(False)
    net(X)
    net.float()
    net(X.float())
    net.layer1[0].conv1.weight.data = net.layer1[0].conv1.weight.data.contiguous()
    net(X.float())
    assert (compiler.graphs, compiler.read) == (len(calls) + 3, 0)


def test_who_comes_in_ever_new_sizes_is_read(compiler: Compiler) -> None:
    net = traced(ready(plain()))
    for count in range(tracing.MANY + 2):
        assert len(net(X.repeat(5, 1, 1, 1)[:count])) == count
    assert (compiler.graphs, compiler.read) == (tracing.MANY, 2)


def test_who_changes_it_all_the_time_is_read(compiler: Compiler) -> None:
    net: Any = traced(ready(plain()))
    for i in range(tracing.MANY + 5):
        net.drop_rate = i / 1000
        net.eval()(X)
    assert (compiler.graphs, compiler.read) == (tracing.MANY, 5)


def test_dropout_drops_in_training_alone() -> None:
    net = frozen(traced(ready(plain(drop_rate=0.5))), False)
    torch.testing.assert_close(net(X), net._call_impl(X))
    dropped = frozen(net, True)(X) == 0
    assert 0.3 < dropped.double().mean() < 0.7
    assert not torch.equal(net(X) == 0, dropped)


def test_training_and_evaluation_in_turn_are_written_down_once_each(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[nn.Module] = []
    write = tracing.written
    monkeypatch.setattr(tracing, "written", lambda net, tensors: (written.append(net), write(net, tensors))[1])
    net = traced(ready(plain()))
    for mode in (True, False, True, False):
        frozen(net, mode)(X)
    assert len(written) == 2
    assert (compiler.graphs, compiler.read) == (1, 0)  # without dropout, both do the same


def test_networks_of_one_architecture_share_what_was_compiled(compiler: Compiler) -> None:
    first, second, third = ready(plain()), ready(plain()), ready(plain(output_stride=16))
    with torch.no_grad():
        second.conv1.weight.neg_()
    for net in map(traced, (first, second)):
        torch.testing.assert_close(net(X), net._call_impl(X))
    assert compiler.graphs == 1
    torch.testing.assert_close(traced(third)(X), third._call_impl(X))  # its tensors have the same shapes
    traced(first, {"deterministic": True})(X)
    assert compiler.graphs == 3


def test_two_threads_have_it_compiled_once(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(*args: Any) -> Callable[..., Tensor]:
        time.sleep(0.3)
        return compiler.graph(*args)

    monkeypatch.setattr(tracing, "_compile", slowly)
    nets = [traced(ready(plain())) for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(lambda net: net(X), nets)
    assert torch.equal(one, other)
    assert compiler.graphs == 1


def unfrozen() -> nn.Module:
    net = plain()
    net.layer3[0].bn1.train()
    return ready(net)


def own() -> nn.Module:
    class Own(timm.models.resnet.ResNet):  # type: ignore[name-defined,misc]
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + torch.rand(())  # written down, that would be one number for ever

    net = plain()
    net.__class__ = Own
    return ready(net)


OTHERS = [
    unfrozen, own, plain,
    lambda: ready(plain(global_pool="max")),
    lambda: ready(plain(drop_path_rate=0.1)),
    lambda: ready(plain("resnet50", block_args={"attn_layer": "se"})),
    lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()).double(),
]  # fmt: skip


@pytest.mark.parametrize("make", OTHERS)
def test_other_networks_are_read(make: Callable[[], nn.Module], compiler: Compiler) -> None:
    net = make()
    assert not known(net)
    traced(net)(X)
    assert (compiler.graphs, compiler.read) == (0, 1)


def hooked(net: Any) -> None:
    net.layer1.register_forward_hook(lambda *_: None)


def hooked_inside(net: Any) -> None:
    net.layer1[0].conv1.register_forward_hook(lambda module, inputs, output: output + 1)
    let_watch(net)


def hooked_itself(net: Any) -> None:
    net.register_forward_hook(lambda module, inputs, output: output + 1)


def hooked_unsaid(net: Any) -> None:
    net.layer1[0].conv1.register_forward_hook(lambda module, inputs, output: output + 1)


def restored(net: Any) -> None:
    hooked_inside(net)
    net.layer3[0].bn1.train()


def another_pooling(net: Any) -> None:
    net.reset_classifier(0, "max")


def another_block(net: Any) -> None:
    net.layer4.append(nn.Tanh())


def same_block_again(net: Any) -> None:
    net.layer1.append(net.layer1[0])


def shortened(net: Any) -> None:
    net.layer3 = net.layer3[:1]


def another_convolution(net: Any) -> None:
    torch.manual_seed(1)
    net.layer1[0].conv1 = nn.Conv2d(64, 64, 3, padding=1).double()


def another_norm(net: Any) -> None:
    net.layer1[0].bn1 = nn.InstanceNorm2d(64)


def other_activations(net: Any) -> None:
    net.act1 = nn.LeakyReLU()
    net.layer1[0].act1 = nn.Tanh()


def moving(net: Any) -> None:
    net.layer1[0].bn1.train()


def all_moving(net: Any) -> None:
    net.train()


def another_forward(net: Any) -> None:
    net.layer2.forward = lambda x: nn.Sequential.forward(net.layer2, x) + 1


def another_head(net: Any) -> None:
    before = net.forward_head
    net.forward_head = lambda x: before(x) + random.random()


def another_way_of_a_block(net: Any) -> None:
    net.layer1[0].forward = MethodType(lambda self, x: 2 * x, net.layer1[0])


def normed(net: Any) -> None:
    nn.utils.parametrizations.weight_norm(net.layer2[0].conv1)


def checkpointed(net: Any) -> None:
    net.set_grad_checkpointing()


def tied(net: Any) -> None:
    net.layer1[0].conv2.weight = net.layer1[0].conv1.weight


READ = [
    hooked, hooked_inside, hooked_itself, hooked_unsaid, restored, another_pooling, another_block, same_block_again,
    shortened, another_convolution, another_norm, other_activations, moving, all_moving, another_forward, another_head,
    another_way_of_a_block, normed, checkpointed, tied,
]  # fmt: skip


@pytest.mark.parametrize("change", READ)
@pytest.mark.parametrize("called_before", [False, True])
def test_a_changed_network_is_read(change: Callable[[Any], None], called_before: bool, compiler: Compiler) -> None:
    net = traced(ready(plain()))
    if called_before:
        net(X)
    never_ready = plain()
    found = []
    for one in (net, never_ready):
        change(one)
        random.seed(0)
        found.append(one(X))
    assert (compiler.graphs, compiler.read) == (called_before, 1)
    torch.testing.assert_close(*found)
    assert [*net.state_dict()] == [*never_ready.state_dict()]
    for name, value in net.state_dict().items():
        torch.testing.assert_close(value, never_ready.state_dict()[name])  # statistics that move do so in both


def drops(net: Any) -> None:
    net.drop_rate = 1.0


def small(net: Any) -> None:
    net.layer1[0].bn1.eps = 0.5


def skips(net: Any) -> None:
    net.layer2[0].conv1.stride = net.layer2[0].downsample[0].stride = (4, 4)


def biased(net: Any) -> None:
    net.layer1[0].conv1.bias = nn.Parameter(torch.ones(64).double())


@pytest.mark.parametrize("change", [drops, small, skips, biased])
def test_a_network_that_is_still_known_is_written_down_anew(change: Callable[[Any], None], compiler: Compiler) -> None:
    net = traced(ready(plain()))
    before = net(X)
    change(net)
    torch.testing.assert_close(net(X), net._call_impl(X))
    assert not torch.allclose(net(X), before)
    assert (compiler.graphs, compiler.read) == (2, 0)


def test_a_network_is_read_while_everything_is_watched(compiler: Compiler) -> None:
    net = traced(ready(plain()))
    watching = nn.modules.module
    for watch in (watching.register_module_forward_pre_hook, watching.register_module_full_backward_hook):
        with watch(lambda *_: None), torch.no_grad():  # with gradients, torch refuses what timm does in place
            net(X)
    assert (compiler.graphs, compiler.read) == (0, 2)
    net(X)
    assert (compiler.graphs, compiler.read) == (1, 2)


class Marked(nn.Parameter):
    pass


def test_what_is_transformed_or_of_another_kind_is_read(compiler: Compiler) -> None:
    net = traced(ready(plain()))
    slope = grad(lambda x: net(x).sum())(X)
    torch.testing.assert_close(slope, grad(lambda x: net._call_impl(x).sum())(X))
    with FlopCounterMode(display=False):
        net(X)
    with torch.device("cpu"):
        net(X)
    with torch.compiler.set_stance("force_eager"):
        net(X)
    net(x=X)
    net.conv1.weight = Marked(net.conv1.weight.detach())
    net(X)
    assert (compiler.graphs, compiler.read) == (0, 6)


def test_a_compiler_that_takes_no_graph_reads_it(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise TypeError("compile() takes something else today")

    monkeypatch.setattr(tracing, "_compile", refuses)
    net = traced(ready(plain()))
    for _ in range(2):
        torch.testing.assert_close(net(X), net._call_impl(X))
    assert compiler.read == 2


def test_a_torch_that_cannot_be_asked_reads_it(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._C, "_len_torch_dispatch_stack")
    net = traced(ready(plain()))
    net(X)
    assert (compiler.graphs, compiler.read) == (0, 1)


def test_a_network_goes_when_nobody_has_it_any_more() -> None:
    net = traced(ready(plain()))
    names = list(net.state_dict())
    net(X)
    assert list(net.state_dict()) == names
    gone = [weakref.ref(net), weakref.ref(net.conv1.weight)]
    del net
    gc.collect()
    assert [one() for one in gone] == [None, None]


REAL = """
import sys, torch
sys.path[:0] = sys.argv[1:]
from test_tracing import ready, traced
from timm.models.resnet import BasicBlock, ResNet
net = ResNet(BasicBlock, (1, 1, 1, 1), num_classes=0, channels=(16, 16, 16, 16), stem_width=16)
for module in net.modules():
    if isinstance(module, torch.nn.BatchNorm2d):
        module.eval()
x = torch.randn(2, 3, 64, 64)
net = ready(net.double()).float().to(memory_format=torch.channels_last)
expected = net(x)
found = traced(net)(x)
torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
gradients = [torch.autograd.grad(y.square().sum(), list(net.parameters())) for y in (expected, found)]
torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-3)
with torch.no_grad():
    torch.testing.assert_close(net(x), net._call_impl(x), rtol=1e-4, atol=1e-4)
assert None not in net._compiled_call_impl.seen[True].found.values()
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
