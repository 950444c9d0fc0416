from __future__ import annotations

import json
import shutil
from itertools import product
from pathlib import Path
from statistics import fmean
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner, Result

from domainwise.analysis.balance import balance, balance_along, snapshots
from domainwise.analysis.measurement_files import BALANCE
from domainwise.analysis.task import task
from domainwise.api import prepare
from domainwise.cli.commands.analysis import balance as command
from domainwise.data.sources.digits import digits
from domainwise.experiment.results import outcomes
from domainwise.experiment.settings import resolve
from domainwise.report.page.balance import Measured, compared, rows
from domainwise.report.page.page import render
from domainwise.report.statistics import sentences, sign_flip
from domainwise.saved_models.saved import load
from domainwise.training.run_options import RunOptions
from domainwise.training.run_trial import execute


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two algorithms with two seeds, three models kept along the way."""
    output = tmp_path_factory.mktemp("out")
    settings = resolve(benchmark="digits", device="cpu", given={"steps": 9, "batch": 8})
    for trial in prepare(digits(), "fish,arith", targets=["75"], seeds=2, settings=settings, output=output).trials:
        execute(trial, digits(), output / "trials" / trial.id, RunOptions(snapshots=3))
    return output


def run(*words: str) -> Result:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [*words, "--data", "digits", "--steps", "2", "--images", "40"])


def first(folder: Path) -> Path:
    return sorted((folder / "trials").iterdir())[0]


def test_along_training_every_snapshot_is_measured_as_it_would_be_alone(folder: Path) -> None:
    trial = first(folder)
    models = snapshots(trial)
    assert list(models) == [2, 5, 8]
    trained = task(load(trial), digits(), 40)
    before = [p.clone() for p in trained.net.parameters()]
    found = dict(balance_along(trained, models, steps=2))
    for step, home in models.items():
        assert found[step] == balance(task(load(home), digits(), 40), steps=2)
    assert all(torch.equal(p, q) for p, q in zip(trained.net.parameters(), before, strict=True))


def test_the_command_tells_kept_numbers_step_by_step_and_the_report_shows_them(folder: Path, tmp_path: Path) -> None:
    picture = tmp_path / "along.svg"
    said = run(str(folder), "--along", "--keep", "-o", str(picture)).output.splitlines()
    assert [line.split()[:3] for line in said[5:11]] == [
        [name, step, "2"] for name in ("arith", "fish") for step in ("2", "5", "8")
    ]
    assert {"arith", "fish", "loss of the targets"} <= set(ElementTree.parse(picture).getroot().itertext())
    kept = json.loads((first(folder) / BALANCE).read_text())
    assert [place["step"] for place in kept["along"]] == [2, 5, 8]
    page = render(outcomes(folder))
    assert "Balance along training: distance to the centroid" in page
    assert "Over all snapshots, arith is nearer the centroid than fish in" in page
    again = json.loads(run(str(first(folder)), "--keep", "--json").output)  # without --along
    assert "along" not in again
    assert json.loads((first(folder) / BALANCE).read_text())["along"] == kept["along"]


def test_one_trial_alone_is_drawn_with_the_loss_of_each_domain(folder: Path, tmp_path: Path) -> None:
    picture = tmp_path / "along.svg"
    (line,) = run(str(first(folder)), "--along", "--json", "-o", str(picture)).output.splitlines()
    assert [place["step"] for place in json.loads(line)["along"]] == [2, 5, 8]
    assert {"loss of each domain", "0", "75 (target)"} <= set(ElementTree.parse(picture).getroot().itertext())


def test_a_trial_without_snapshots_and_a_picture_of_nothing_are_answered_with_a_sentence(folder: Path) -> None:
    assert "--snapshots N" in str(run(str(first(folder) / "best"), "--along").exception)
    assert "add --along" in str(run(str(first(folder)), "-o", "x.svg").exception)


@pytest.mark.parametrize(("missing", "words"), [("snapshots", ["--along"]), ("best", [])])
def test_trials_of_a_comparison_that_kept_nothing_are_left_out(
    folder: Path, tmp_path: Path, missing: str, words: list[str]
) -> None:
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    shutil.rmtree(first(other) / missing)
    said = run(str(other), "--json", *words)
    assert said.stderr.splitlines()[0].startswith("1 of 4 trials have kept no ")
    assert len({json.loads(line)["id"] for line in said.stdout.splitlines()} - {first(other).name}) == 3
    for trial in (other / "trials").iterdir():
        shutil.rmtree(trial / missing, ignore_errors=True)
    assert f"no {'snapshots' if words else 'saved model'}" in str(run(str(other), *words).exception)


def test_a_snapshot_is_a_model_like_any_other(folder: Path) -> None:
    last = json.loads(run(str(first(folder) / "snapshots" / "8"), "--json").output)
    along = json.loads(run(str(first(folder)), "--along", "--json").output)["along"]
    assert last["distances"] == along[-1]["distances"]
    assert "no --keep for snapshot 8" in str(run(str(first(folder) / "snapshots" / "8"), "--keep").exception)


@pytest.mark.parametrize("differences", [[1.0], [1.0, 2.0, -0.5], [0.3, 0.3, 0.3, -0.1, 0.2], [0.0, 0.0]])
def test_the_sign_flip_test_is_the_share_of_signs_that_lead_as_far(differences: list[float]) -> None:
    means = [abs(fmean(np.multiply(differences, signs))) for signs in product((1, -1), repeat=len(differences))]
    least = abs(fmean(differences)) - 1e-12
    assert sign_flip(differences) == pytest.approx(sum(mean >= least for mean in means) / len(means))


def test_with_many_pairs_signs_are_drawn_and_come_to_much_the_same() -> None:
    differences = np.random.RandomState(3).normal(0.25, 1, 20)
    exact = sign_flip(list(differences))
    assert 0.05 < exact < 0.95
    assert sign_flip([*differences, 0.0]) == pytest.approx(exact, abs=0.01)


def test_sentences_count_the_trials_that_two_algorithms_share() -> None:
    values = {"fish": {0: 1.0, 1: 2.0, 2: 3.0, 9: 0.0}, "arith": {0: 2.0, 1: 1.0, 2: 4.0, 8: 0.0}}
    (said,) = sentences(values, "is nearer than")
    assert said.startswith("fish is nearer than arith in 2 of 3 trials")
    assert "mean difference -0.333, exact sign-flip permutation p = 1." in said
    assert sentences({"fish": {0: 1.0}, "arith": {1: 1.0}}, "is nearer than") == []


def measured(name: str, seed: int, value: float) -> Measured:
    keys = ("variation", "off_centroid", "angle", "gain")
    return Measured(name, "75", seed, dict.fromkeys(keys, value))


def test_a_measure_that_is_no_number_is_left_out_of_means_and_pairs() -> None:
    trials = [measured("erm", 0, 1.0), measured("erm", 1, 3.0), measured("arith", 0, 2.0), measured("arith", 1, 2.5)]
    trials[3].found["off_centroid"] = None  # type: ignore[index]
    assert "in 1 of 1 trials" in compared(trials)[0]
    erm, arith = rows(trials)
    assert erm.cells[1][0] == "2"
    assert arith.cells[1][0] == "2"
