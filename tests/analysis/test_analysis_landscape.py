from __future__ import annotations

import copy
import json
import math
import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
import typer
from made_data import stripes
from made_folders import draw
from torch._dynamo.utils import counters
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from typer.testing import CliRunner

from domainwise.analysis import loss_surface as landscape
from domainwise.analysis.loss_surface import on_plane, plane, surface, walk
from domainwise.analysis.measurement_files import Surface
from domainwise.analysis.task import BACKWARD, FORWARD, Task, chunks, evenly, gradient, task
from domainwise.api import compare
from domainwise.cli import app as everything
from domainwise.cli.commands.analysis import surface as command
from domainwise.data.sources.digits import digits
from domainwise.errors import InputError
from domainwise.experiment.records import publish
from domainwise.report.page.page import render
from domainwise.report.page.surfaces import contours, levels, picture
from domainwise.saved_models.saved import load

DATA = stripes("abcd")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = compare(DATA, "erm", targets=["d"], seeds=1, steps=20, batch=8, output=tmp_path_factory.mktemp("out"))
    return found.outcomes[0].folder


@pytest.fixture(scope="module")
def trained(stored: Path) -> Task:
    return task(load(stored), DATA)


def test_a_plane_goes_through_its_three_models_with_true_angles() -> None:
    models = [torch.randn(50, dtype=torch.float64) for _ in range(3)]
    through = plane(models)
    assert through.place(models[0]) == pytest.approx((0, 0))
    assert through.place(models[1]) == pytest.approx((1, 0))
    for model in models:
        torch.testing.assert_close(through.at(*through.place(model)), model)
    assert float(through.across @ through.upward) == pytest.approx(0, abs=1e-9)
    assert float(through.upward.norm()) == pytest.approx(float(through.across.norm()))


def test_models_on_a_line_have_no_plane() -> None:
    model = torch.randn(5)
    with pytest.raises(InputError, match="on a line"):
        plane([model, 2 * model, 3 * model])


def test_a_walk_leaves_the_model_as_it_was_and_goes_on_from_leg_to_leg(trained: Task) -> None:
    before = parameters_to_vector(trained.net.parameters()).clone()
    first, second = walk(trained, ["a", "b"], steps=3)
    assert torch.equal(parameters_to_vector(trained.net.parameters()), before)
    assert 0 < (first - before).norm() < (second - before).norm() * 10
    (alone,) = walk(trained, ["a"], steps=3)
    assert torch.equal(alone, first)


def test_the_surface_has_at_each_point_the_loss_of_the_model_there(trained: Task) -> None:
    found = surface(trained, points=5, steps=3)
    assert set(found.losses) == set("abcd")
    through = plane(walk(trained, "abc", steps=3))
    params = list(trained.net.parameters())
    before = parameters_to_vector(params).clone()
    vector_to_parameters(through.at(float(found.a[3]), float(found.b[1])), params)
    with torch.no_grad():
        expected = {name: float(trained.loss(batch)) for name, batch in trained.domains.items()}
    vector_to_parameters(before, params)
    assert {name: losses[1][3] for name, losses in found.losses.items()} == pytest.approx(expected, rel=1e-4)


def test_a_walk_that_diverges_is_walked_with_shorter_steps_and_says_so(
    trained: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landscape, "LENGTHS", (1e38, 1e-2))
    found = surface(trained, points=3, steps=3)
    assert found.lr == 1e-2
    assert found == surface(trained, points=3, steps=3, lr=1e-2)
    with pytest.raises(InputError, match="the walk diverges"):
        surface(trained, points=3, steps=3, lr=1e38)
    lost = replace(trained, net=copy.deepcopy(trained.net))
    with torch.no_grad():
        lost.net.head.bias[0] = float("nan")
    with pytest.raises(InputError, match="parameters that are not finite"):
        surface(lost, points=3, steps=3)


def test_chunks_have_one_size_and_what_fills_them_up_counts_for_nothing(trained: Task) -> None:
    batch = trained.domains["a"]
    parts = chunks(batch, evenly(len(batch[1]), 5) + 2)
    assert len({x.shape for x, _ in parts}) == 1
    assert sum(len(y) for _, y in parts) > len(batch[1])
    with torch.no_grad():
        total = sum(F.cross_entropy(trained.net(x), y, reduction="sum") for x, y in parts)
    assert float(total) / len(batch[1]) == pytest.approx(float(trained.loss(batch).detach()), rel=1e-5)


def test_a_gradient_in_chunks_is_that_of_the_whole(trained: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = torch.autograd.grad(trained.loss(trained.domains["b"]), list(trained.net.parameters()))
    monkeypatch.setitem(BACKWARD, "cpu", 5)
    torch.testing.assert_close(gradient(trained, "b"), torch.cat([part.flatten() for part in expected]))


def test_a_compiled_network_stays_compiled_from_point_to_point(trained: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """With chunks that do not come out even, and parameters laid out as a GPU wants them."""
    monkeypatch.setitem(FORWARD, "cpu", 14)
    own = replace(trained, net=copy.deepcopy(trained.net).to(memory_format=torch.channels_last))
    layout = [p.stride() for p in own.net.parameters()]
    models = dict(zip("abc", walk(trained, "abc", steps=2), strict=True))
    graphs: list[int] = []
    torch.compiler.reset()
    counters.clear()
    own.net.featurizer.compile(dynamic=False, backend="eager")
    found = on_plane(own, models, points=3, tick=lambda *at: graphs.append(counters["stats"]["unique_graphs"]))
    assert graphs[0] > 0
    assert graphs == [graphs[0]] * 9
    assert [p.stride() for p in own.net.parameters()] == layout
    torch.testing.assert_close(
        torch.tensor(found.losses["d"]), torch.tensor(on_plane(trained, models, points=3).losses["d"])
    )


def test_low_precision_is_near_full_precision_and_an_unknown_one_is_refused(stored: Path, trained: Task) -> None:
    exact, rough = (surface(task(load(stored), DATA, precision=p), points=3, steps=2) for p in ("fp32", "bf16"))
    assert exact.losses == surface(trained, points=3, steps=2).losses
    assert rough.losses != exact.losses
    torch.testing.assert_close(torch.tensor(rough.losses["a"]), torch.tensor(exact.losses["a"]), rtol=0, atol=0.02)
    with pytest.raises(InputError, match="fp32, tf32, bf16"):
        task(load(stored), DATA, precision="fp8")


def test_the_grid_holds_all_three_models_with_room_around_them(trained: Task) -> None:
    found = surface(trained, points=4, steps=3, margin=0.2)
    for a, b in found.models.values():
        assert found.a[0] < a < found.a[-1]
        assert found.b[0] < b < found.b[-1]
    assert found.end == found.models["c"]
    assert found.mean == pytest.approx(
        (sum(a for a, _ in found.models.values()) / 3, found.models["c"][1] / 3), abs=1e-5
    )


def test_other_data_and_other_than_three_domains_are_refused(trained: Task, tmp_path: Path) -> None:
    found = compare(stripes(), "erm", targets=["c"], seeds=1, steps=2, batch=4, output=tmp_path)
    model = load(found.outcomes[0].folder)
    with pytest.raises(InputError, match="other data"):
        task(model, digits())
    with pytest.raises(InputError, match="three"):
        surface(trained, domains=["a", "b"])


def test_pictures_mark_the_unseen_domain_and_name_the_models(trained: Task) -> None:
    found = replace(surface(trained, points=5, steps=3), targets=("d",))
    panels = contours(found)
    assert [panel.title for panel in panels] == ["a", "b", "c", "d (target)"]
    assert {"a", "b", "c"} <= set(ElementTree.fromstring(panels[0].svg).itertext())
    assert "d (target)" in set(ElementTree.fromstring(picture(found).svg).itertext())


def test_the_command_writes_a_picture_that_needs_no_page_and_keeps_one_for_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = compare(digits(), "erm", targets=["75"], seeds=1, steps=5, output=tmp_path / "out")
    app = typer.Typer()
    app.command()(command)
    file = tmp_path / "deep" / "surface.svg"
    words = [str(found.outcomes[0].folder), "--data", "digits", "-o", str(file), "--points", "3", "--steps", "2"]
    assert 'id="surfaces"' not in render(found.outcomes)
    assert CliRunner().invoke(app, [*words, "--keep"]).exit_code == 0
    assert "75 (target)" in file.read_text()
    assert "var(" not in file.read_text()
    assert "Loss surface of 75 around erm, target 75, seed 0, a walk with steps of 0.01" in render(found.outcomes)
    home = found.outcomes[0].folder
    kept = json.loads((home / "surface.json").read_text())
    del kept["checksum"]
    kept["losses"]["75"][0][0] = None  # a hole
    publish(home / "surface.json", kept)
    assert "Loss surface of 75 around erm" in render(found.outcomes)
    publish(home / "surface.json", {**kept, "a": [None] * 3, "b": [None] * 3})
    assert "seed 0: the walk diverged" in render(found.outcomes)
    monkeypatch.setattr(landscape, "LENGTHS", (1e38, 1e-3))
    said = CliRunner().invoke(app, words).stderr
    assert said.endswith("surface.svg, of a walk with steps of 0.001: longer ones diverge\n")


def test_contours_are_close_where_most_of_the_plane_is_and_reach_the_top() -> None:
    losses = [[0.2 + 0.01 * i for i in range(20)] for _ in range(4)] + [[50.0, 900.0, math.nan] + [0.3] * 17]
    near, far = levels(losses)
    assert len([level for level in near if 0.2 < level < 0.39]) >= 5
    assert {round(b - a, 9) for a, b in pairwise(near)} == {round(near[1] - near[0], 9)}
    assert near[-1] < far[0] < 1
    assert far[-1] > 400
    assert len(far) < 20
    assert all(b - a < d - c for (a, b), (c, d) in pairwise(pairwise(far)))


@pytest.mark.parametrize("losses", [[[1.0] * 3] * 3, [[math.nan] * 3] * 3, [[1.0, math.nan, 2.0]] * 3])
def test_flat_and_broken_surfaces_can_be_drawn(losses: list[list[float]]) -> None:
    places = {"a": (0.0, 0.0), "b": (1.0, 0.0), "c": (0.0, 1.0)}
    found = Surface([0, 1, 2], [0, 1, 2], {"a": losses}, None, places, ())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "<svg" in picture(found).svg


def test_a_picture_of_a_walk_says_what_its_marks_are(trained: Task) -> None:
    said = set(ElementTree.fromstring(picture(surface(trained, points=3, steps=1)).svg).itertext())
    assert {"where the walk begins", "after each domain", "their mean", "where Fish heads", "where Arith heads"} <= said


@pytest.mark.parametrize("size", ["20", "original"])
def test_what_was_decoded_for_training_is_not_decoded_again(tmp_path: Path, size: str) -> None:
    for i, domain in enumerate("abcd"):
        for j, kind in enumerate(("cat", "dog")):
            for k in range(8):
                draw(tmp_path / "data" / domain / kind / f"{k}.png", (40 * i, 90 * j, 20 * k), (24, 24))
    ask = ["--data", str(tmp_path / "data"), "--cache", str(tmp_path / "cache"), "--device", "cpu", "--quiet"]
    train = ["compare", "--algorithms", "erm", "--targets", "d", "--seeds", "1", "--steps", "2", "--batch", "4"]
    train += ["--size", "16", "--set", f"train_size={size}", "--set", "augment=domainbed", "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(everything, [*train, *ask])
    assert done.exit_code == 0, done.output
    decoded = sorted(path.name for path in (tmp_path / "cache").iterdir())
    (run,) = (tmp_path / "out" / "trials").iterdir()
    small = ["--points", "3", "--steps", "1", "--images", "4", "-o", str(tmp_path / "surface.svg")]
    done = CliRunner().invoke(everything, ["surface", str(run), *small, *ask])
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == decoded
