from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import typer
from made_data import stripes
from torch import nn
from typer.testing import CliRunner, Result

from domainwise.analysis.loss_surface import on_plane, places
from domainwise.analysis.task import Task, place, task
from domainwise.api import compare, prepare
from domainwise.cli.commands.analysis import surface as command
from domainwise.data.sources.digits import digits
from domainwise.errors import InputError
from domainwise.experiment.results import outcomes
from domainwise.experiment.settings import resolve
from domainwise.networks.network import Network
from domainwise.report.page.page import render
from domainwise.saved_models.saved import load, save
from domainwise.training.run_options import RunOptions
from domainwise.training.run_trial import execute

DATA = stripes("abcd")


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    found = compare(DATA, "erm", targets=["d"], seeds=3, steps=5, batch=8, output=tmp_path_factory.mktemp("out"))
    return [outcome.folder for outcome in sorted(found.outcomes, key=lambda one: one.trial.seed)]


@pytest.fixture(scope="module")
def opened(seeds: list[Path]) -> Task:
    return task(load(seeds[0]), DATA)


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One with three snapshots."""
    output = tmp_path_factory.mktemp("snapshots")
    settings = resolve(benchmark="digits", device="cpu", given={"steps": 6, "batch": 8})
    (one,) = prepare(digits(), "erm", targets=["75"], seeds=1, settings=settings, output=output).trials
    execute(one, digits(), output / "trials" / one.id, RunOptions(snapshots=3))
    return output / "trials" / one.id


def run(folder: Path, output: Path, *words: str) -> Result:
    app = typer.Typer()
    app.command()(command)
    fixed = ["--data", "digits", "-o", str(output), "--points", "3", "--images", "30", "-q"]
    return CliRunner().invoke(app, [str(folder), *fixed, *words])


def test_saved_models_are_places_named_by_what_tells_them_apart(seeds: list[Path], opened: Task) -> None:
    found = places(opened, seeds)
    assert list(found) == ["seed 0", "seed 1", "seed 2"]
    for folder, vector in zip(seeds, found.values(), strict=True):
        assert torch.equal(vector, place(load(folder).algorithm.net.parameters()))


def test_a_plane_through_saved_models_has_each_ones_own_loss_where_it_is(seeds: list[Path], opened: Task) -> None:
    found = on_plane(opened, places(opened, seeds), points=2, margin=0)
    assert found.start is None
    assert found.a == pytest.approx([0, 1], abs=1e-5)  # so that the first two models are corners of the grid
    for folder, loss in zip(seeds, found.losses["a"][0], strict=False):
        own = replace(opened, net=load(folder).algorithm.net.eval())
        assert loss == pytest.approx(float(own.loss(opened.domains["a"]).detach()), rel=1e-4)


@pytest.mark.parametrize(
    ("folders", "said"),
    [((0, 0, 1), "the same one"), ((0, 1), "three models, got 2"), ((0, 1, None), "no saved model")],
)
def test_models_without_a_plane_are_refused(
    seeds: list[Path], opened: Task, tmp_path: Path, folders: tuple[int | None, ...], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        on_plane(opened, places(opened, [tmp_path if at is None else seeds[at] for at in folders]))


def test_models_of_another_network_or_with_statistics_of_their_own_are_refused(
    seeds: list[Path], opened: Task, tmp_path: Path
) -> None:
    net = Network(nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64)), nn.Linear(64, 2)).eval()
    normed = Task(net, opened.domains, ("d",), 0)
    save(tmp_path, net.state_dict(), load(seeds[0]).config)
    assert torch.equal(places(normed, [tmp_path])[""], place(net.parameters()))
    net.featurizer[1].running_mean += 1
    with pytest.raises(InputError, match="batch-norm statistics of its own"):
        places(normed, [tmp_path])
    with pytest.raises(InputError, match="another network"):
        places(opened, [tmp_path])


def test_a_model_that_is_not_finite_lies_on_no_plane(seeds: list[Path], opened: Task, tmp_path: Path) -> None:
    weights = {name: tensor.clone() for name, tensor in opened.net.state_dict().items()}
    weights["head.bias"][0] = float("nan")
    save(tmp_path, weights, load(seeds[0]).config)
    with pytest.raises(InputError, match="not finite numbers"):
        places(opened, [tmp_path])


def test_the_command_draws_the_plane_through_snapshots_and_the_report_shows_it(trial: Path, tmp_path: Path) -> None:
    models = ",".join(str(trial / "snapshots" / step) for step in ("1", "3", "5"))
    assert run(trial, tmp_path / "plane.svg", "--models", models, "--keep").exit_code == 0
    assert "step 3" in (tmp_path / "plane.svg").read_text()
    assert "Where there are no arrows" in render(outcomes(trial.parent.parent))
    assert "--domains" in str(run(trial, tmp_path / "x.svg", "--models", models, "--domains", "0,15,30").exception)


def test_a_walk_from_a_snapshot_is_kept_with_its_trial_under_its_name(trial: Path, tmp_path: Path) -> None:
    assert run(trial / "snapshots" / "3", tmp_path / "plane.svg", "--steps", "1", "--keep").exit_code == 0
    assert "erm, target 75, seed 0, snapshot 3" in render(outcomes(trial.parent.parent))
