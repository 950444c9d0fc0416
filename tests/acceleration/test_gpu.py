"""The fast path on a real GPU: the same training, captured or not, compiled or not."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from made_data import stripes
from made_pooling import SHAPES, made
from torch._dynamo.utils import counters

from domainwise.acceleration.cuda_graph import Fast, prepare, updater
from domainwise.acceleration.max_pool import max_pool
from domainwise.acceleration.recording import Captured
from domainwise.algorithms import create, names, parse
from domainwise.experiment.settings import resolve
from domainwise.experiment.trial import Trial
from domainwise.networks.network import Network, build
from domainwise.training.loop import run
from domainwise.training.plan import plan
from domainwise.training.run_options import RunOptions
from domainwise.training.run_trial import execute

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")]

VARIANTS = [
    *names(),
    "causirl(distance='mmd')",
    "irm(anneal=6)",
    "vrex(anneal=6)",
    "fishr(anneal=6)",
    "arith(inner_steps=2)",
    "arith(inner='adam', inner_lr=0.001)",
    "fish(inner='momentum')",
    "fish(outer='interpolate', weight_decay=0.001)",
    "mldg(pairs='split')",
]


def network(extra_channels: int = 0) -> Network:
    torch.manual_seed(0)
    return build("resnet18", (32, 32, 3), 4, freeze_batch_norm=True, extra_channels=extra_channels).cuda()


def batches(fresh: int, seed: int) -> list:
    generator = torch.Generator().manual_seed(seed)

    def one() -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.randn(8, 3, 32, 32, generator=generator)
        return x.cuda(), torch.randint(4, (8,), generator=generator).cuda()

    return [one() if fresh == 1 else [one() for _ in range(fresh)] for _ in range(3)]


def trained(text: str, *, capture: bool, steps: int = 10, compile: bool = False, precision: str = "fp32"):
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    said: list[str] = []
    algorithm = create(text, lr=1e-4)
    net = network(algorithm.extra_channels)
    prepare(net, precision=precision, fast=Fast(compile=compile))
    algorithm.setup(net, seed=1)
    update = updater(algorithm, capture=capture, say=said.append)
    losses = [update(batches(algorithm.fresh, step)) for step in range(steps)]
    return algorithm, update, [{name: value.item() for name, value in row.items()} for row in losses], said


@pytest.mark.parametrize("text", VARIANTS)
def test_captured_training_is_eager_training(text: str) -> None:
    _, _, expected, _ = trained(text, capture=False)
    _, update, found, said = trained(text, capture=True)
    assert not said
    assert isinstance(update, Captured)
    assert update.made == (2 if "anneal=6" in text else 1)  # once more with the fresh optimizer
    for step, (a, b) in enumerate(zip(expected, found, strict=True)):
        assert list(a) == list(b)
        assert list(b.values()) == pytest.approx(list(a.values()), rel=2e-3, abs=1e-4), f"step {step}"


def test_what_cannot_be_captured_runs_and_says_why() -> None:
    _, update, losses, said = trained("hutchinson(draws=2)", capture=True, steps=5)
    assert not isinstance(update, Captured)
    assert [sentence.startswith("hutchinson runs without a CUDA graph: ") for sentence in said] == [True]
    assert len(losses) == 5


@pytest.mark.parametrize("text", ["arith", "arm"])
@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 2e-3), ("bf16", 0.05)])
def test_compiled_and_folded_training_is_eager_training(text: str, precision: str, tolerance: float) -> None:
    plain, _, expected, _ = trained(text, capture=False)
    fast, _, found, _ = trained(text, capture=True, compile=True, precision=precision)
    assert [row["loss"] for row in found] == pytest.approx([row["loss"] for row in expected], rel=tolerance)
    assert list(plain.net.state_dict()) == list(fast.net.state_dict())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [*SHAPES, (32, 64, 112, 112)])
def test_pooling_is_that_of_the_host(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    found = []
    for device in ("cpu", "cuda"):
        x = made(shape, dtype).to(device).requires_grad_()
        largest, which = max_pool(x)
        (gradient,) = torch.autograd.grad(largest, x, made(tuple(largest.shape), dtype).to(device))
        found.append((largest.cpu(), which.cpu(), gradient.cpu()))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-2, atol=1e-6)


def test_a_network_to_be_compiled_computes_in_ways_of_ours() -> None:
    net = network()
    prepare(net, precision="bf16", fast=Fast())
    body = net.featurizer
    ways = [vars(module)["forward"].__func__.__name__ for module in (body.conv1, body.maxpool, body.layer4[1].conv1)]
    assert ways == ["_folded_on_blocks", "pooled_then_relu", "convolved"]
    expected = body._call_impl(x := torch.randn(4, 3, 32, 32, device="cuda"))
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            torch.testing.assert_close(body(x), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("text", ["erm", "arm"])
def test_the_network_is_compiled_for_one_size_of_evaluation(text: str) -> None:
    torch.compiler.reset()
    counters.clear()
    slow, fast = create(text), create(text)
    for algorithm, compile in ((slow, False), (fast, True)):
        net = network(algorithm.extra_channels)
        prepare(net, precision="bf16", fast=Fast(compile), full=16)
        algorithm.setup(net, seed=0)
    x = torch.randn(16, 3, 32, 32, device="cuda")
    with torch.no_grad():
        for size in (5, 16, 8):  # ARM sees each of them as one group
            torch.testing.assert_close(fast.predict(x[:size]), slow.predict(x[:size]), rtol=0.05, atol=0.05)
    assert counters["stats"]["unique_graphs"] == 1


def test_however_many_captures_use_one_stream_beside_that_of_the_work() -> None:
    algorithm = create("erm").setup(network(), seed=0)
    beside = {updater(algorithm, capture=True).recorder.aside for _ in range(40)}
    assert len(beside) == 1
    assert torch.cuda.current_stream() not in beside


def test_memory_comes_back_after_every_training() -> None:
    def left() -> int:
        trained("arith", capture=True, compile=True, precision="bf16", steps=5)
        gc.collect()
        return torch.cuda.memory_allocated()

    assert left() >= left() == left()


def test_a_loaded_state_is_captured_anew() -> None:
    first, *_ = trained("arith", capture=True, steps=8)
    second, update, *_ = trained("arith", capture=True, steps=5)
    second.load_state_dict(first.state_dict())
    update.forget()
    _, _, rows, _ = trained("arith", capture=True, steps=12)
    again = [update(batches(1, step))["loss"].item() for step in range(8, 12)]
    assert again == pytest.approx([row["loss"] for row in rows[8:]], rel=2e-3)


DATA = stripes()


def trial(**given: object) -> Trial:
    settings = {"precision": "fp32", **given}
    (one,) = plan(DATA, parse("arith"), [("c",)], [0], resolve(given=settings))
    return one


@pytest.mark.parametrize("fast", [Fast(False, False), Fast(False, True), Fast(True, True)])
def test_a_trial_runs_on_the_gpu_from_start_to_result(tmp_path: Path, fast: Fast) -> None:
    one = trial(steps=40, evaluate_every=20)
    result = execute(one, DATA, tmp_path / "gpu", RunOptions("cuda", fast))
    host = execute(one, DATA, tmp_path / "cpu")
    assert result["status"] == "finished", result["message"]
    assert result["selected"]["validation"] == pytest.approx(host["selected"]["validation"], abs=0.1)


@pytest.mark.parametrize("augment", ["none", "domainbed"])
@pytest.mark.parametrize("average", ["none", "ema(decay=0.9)", "swad,ma(start=3)"])
def test_nothing_waits_for_the_gpu_between_two_evaluations(augment: str, average: str) -> None:
    """Torch itself says so of whatever waits; from the second glance at the losses to the last."""
    heard: list[int] = []

    def tick(step: int) -> None:
        heard.append(step)
        torch.cuda.set_sync_debug_mode("error" if 20 <= step < 50 else "default")

    one = replace(trial(steps=60, evaluate_every=1000, augment=augment), average=average)
    try:
        records = list(run(one, DATA, device="cuda", tick=tick))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert heard == [1, 10, 20, 30, 40, 50, 60]
    assert [record["step"] for record in records] == [0, 59]
