"""Surfaces and balance on a real GPU: the same numbers as on a CPU, compiled once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from made_data import stripes
from torch._dynamo.utils import counters

from domainwise.analysis.balance import balance
from domainwise.analysis.loss_surface import on_plane, surface, walk
from domainwise.analysis.measurement_files import Surface
from domainwise.analysis.task import Task, place, task
from domainwise.api import compare
from domainwise.saved_models.saved import load

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")]

DATA = stripes("abcd", size=90, side=32)
Open = Callable[[str, str], Task]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Open:
    """The same trained model on a device, in a precision."""
    found = compare(
        DATA, "erm", targets=["d"], seeds=1, steps=20, batch=8, network="resnet18", weights="none",
        freeze_batch_norm=True, input_size=32, output=tmp_path_factory.mktemp("out"),
    )  # fmt: skip
    folder: Path = found.outcomes[0].folder
    return lambda device, precision: task(load(folder, device=device), DATA, precision=precision)


@pytest.fixture(autouse=True)
def nothing_compiled_before() -> None:
    torch.compiler.reset()
    counters.clear()


def assert_alike(found: Surface, expected: Surface, tolerance: float) -> None:
    """To a share of how much the losses differ from place to place."""
    for name in expected.losses:
        one, other = torch.tensor(expected.losses[name]), torch.tensor(found.losses[name])
        assert float(one.max() - one.min()) > 0.1
        torch.testing.assert_close(other, one, rtol=0, atol=tolerance * float(one.max() - one.min()))
    for name, model in expected.models.items():
        assert found.models[name] == pytest.approx(model, abs=tolerance)


def test_a_surface_on_a_gpu_is_that_on_a_cpu(opened: Open) -> None:
    """In full precision alone: on a walk every step makes the roundings before it larger."""
    expected, found = (surface(opened(device, "fp32"), points=4, steps=6, lr=0.1) for device in ("cpu", "cuda"))
    assert_alike(found, expected, 2e-3)


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-3), ("tf32", 1e-2), ("bf16", 5e-2)])
def test_on_one_plane_the_losses_on_a_gpu_are_those_on_a_cpu(opened: Open, precision: str, tolerance: float) -> None:
    on_cpu = opened("cpu", "fp32")
    models = dict(zip("abc", walk(on_cpu, "abc", steps=6, lr=0.1), strict=True))
    expected = on_plane(on_cpu, models, points=4)
    found = on_plane(opened("cuda", precision), {name: model.cuda() for name, model in models.items()}, points=4)
    assert_alike(found, expected, tolerance)


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 5e-3), ("bf16", 3e-2)])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_balance_on_a_gpu_is_that_on_a_cpu(opened: Open, precision: str, tolerance: float, compiled: bool) -> None:
    expected = balance(opened("cpu", "fp32"), steps=4, lr=0.1)
    found = balance(opened("cuda", precision), steps=4, lr=0.1, compiled=compiled)
    assert found.distances == pytest.approx(expected.distances, rel=tolerance)
    assert found.off_centroid == pytest.approx(expected.off_centroid, rel=tolerance)
    assert found.angles == pytest.approx(expected.angles, rel=3 * tolerance)
    assert found.at_model == pytest.approx(expected.at_model, rel=tolerance / 5)
    assert found.at_mean == pytest.approx(expected.at_mean, rel=tolerance / 5)


def compiled() -> int:
    """How many graphs, whoever has made them."""
    return counters["aot_autograd"]["total"]


def test_a_surface_compiles_its_network_once_for_all_points(opened: Open) -> None:
    graphs: list[int] = []
    surface(opened("cuda", "bf16"), points=4, steps=2, tick=lambda *at: graphs.append(compiled()))
    assert graphs[0] > 0
    assert graphs == [graphs[0]] * 16


def test_models_of_one_network_measured_one_after_the_other_share_what_was_compiled(opened: Open) -> None:
    balance(opened("cuda", "bf16"), steps=2, compiled=True)
    once = compiled()
    balance(opened("cuda", "bf16"), steps=2, compiled=True)
    assert compiled() == once > 0


def test_a_network_on_a_gpu_is_afterwards_where_it_was_with_its_layout(opened: Open) -> None:
    trained = opened("cuda", "bf16")
    before, layout = place(trained.net.parameters()), [p.stride() for p in trained.net.parameters()]
    surface(trained, points=3, steps=2)
    assert torch.equal(place(trained.net.parameters()), before)
    assert [p.stride() for p in trained.net.parameters()] == layout


def test_images_wait_on_the_gpu_as_its_convolutions_read_them(opened: Open) -> None:
    x, _ = opened("cuda", "bf16").domains["a"]
    assert x.dtype == torch.bfloat16
    assert x.is_contiguous(memory_format=torch.channels_last)
