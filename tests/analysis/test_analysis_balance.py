from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import typer
from made_data import stripes
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector
from typer.testing import CliRunner, Result

from domainwise.analysis.balance import Balance, balance
from domainwise.analysis.loss_surface import walk
from domainwise.analysis.task import Task, task
from domainwise.api import Results, compare
from domainwise.cli.commands.analysis import balance as command
from domainwise.data.sources.digits import digits
from domainwise.networks.network import Network
from domainwise.report.page.page import render
from domainwise.saved_models.saved import load


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Task:
    found = compare(
        stripes("abcd"), "erm", targets=["d"], seeds=1, steps=20, batch=8, output=tmp_path_factory.mktemp("out")
    )
    return task(load(found.outcomes[0].folder), stripes("abcd"))


def test_a_distance_is_that_to_where_descent_on_the_domain_alone_leads(trained: Task) -> None:
    found = balance(trained, steps=4)
    home = parameters_to_vector(trained.net.parameters()).detach().clone()
    for name in "abc":
        (expert,) = walk(trained, [name], steps=4)
        assert found.distances[name] == pytest.approx(float((expert - home).norm()))
    assert "d" not in found.distances
    assert torch.equal(parameters_to_vector(trained.net.parameters()), home)


def test_an_expert_does_better_than_the_model_on_its_own_domain(trained: Task) -> None:
    found = balance(trained, steps=20)
    for name in found.distances:
        assert found.at_experts[name][name] < found.at_model[name]
    assert set(found.at_model) == set(found.at_mean) == set("abcd")
    saved = [found.at_model[name] - found.at_mean[name] for name in "abc"]
    assert found.gain == pytest.approx(sum(saved) / 3)


def pulling(*inputs: float) -> Task:
    """A linear model without weights yet whose domains, one image each, pull it along that image."""
    net = Network(nn.Identity(), nn.Linear(1, 2, bias=False))
    nn.init.zeros_(net.head.weight)
    domains = {str(i): (torch.full((1, 1), x), torch.zeros(1, dtype=torch.long)) for i, x in enumerate(inputs)}
    return Task(net.double(), {name: (x.double(), y) for name, (x, y) in domains.items()}, ("unseen",), 0)


def test_domains_that_pull_equally_in_opposite_directions_leave_the_model_at_the_centroid() -> None:
    found = balance(pulling(1.0, -1.0), steps=5)
    assert found.variation == pytest.approx(0)
    assert found.off_centroid == pytest.approx(0, abs=1e-9)
    assert found.angle == pytest.approx(180)
    assert found.gain == pytest.approx(0)


def test_domains_that_agree_have_one_expert_and_no_angle() -> None:
    found = balance(pulling(1.0, 1.0), steps=5)
    assert found.off_centroid == pytest.approx(1)
    assert found.angle == pytest.approx(0, abs=1e-5)
    assert found.gain > 0


def test_a_domain_that_pulls_harder_has_its_expert_farther_off() -> None:
    found = balance(pulling(1.0, -3.0), steps=1)
    near, far = found.distances.values()
    assert far == pytest.approx(3 * near)
    assert found.variation == pytest.approx(0.5)


def test_everything_a_diagnosis_says_can_be_written_as_json() -> None:
    found = balance(pulling(1.0, -2.0), steps=2)
    assert json.loads(json.dumps(found.to_json()))["angle"] == pytest.approx(180)
    assert isinstance(found, Balance)
    x, y = pulling(2.0).domains["0"]
    assert found.at_model["0"] == pytest.approx(float(F.cross_entropy(0 * torch.cat([x, x], 1), y)))


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return compare(digits(), "erm,arith", targets=["75"], seeds=2, steps=3, output=tmp_path_factory.mktemp("out"))


def run(*words: str) -> Result:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [*words, "--data", "digits", "--steps", "2"])


def test_the_command_tells_of_one_trial_domain_by_domain(compared: Results) -> None:
    said = run(str(compared.outcomes[0].folder)).output.splitlines()
    assert [line.split()[0] for line in said[1:7]] == ["0", "15", "30", "45", "60", "75"]
    assert said[6].startswith("75 (target)")


def test_the_command_opens_one_model_of_a_trial(compared: Results) -> None:
    folder = compared.outcomes[0].folder
    assert run(str(folder / "best")).output == run(str(folder)).output


def test_the_command_compares_the_algorithms_of_a_folder(compared: Results) -> None:
    _, erm, arith, _, nearer, evener = run(str(compared.folder)).output.splitlines()
    assert erm.split()[:2] == ["erm", "2"]
    assert arith.split()[:2] == ["arith", "2"]
    assert nearer.startswith("erm is nearer the centroid than arith in ")
    assert evener.startswith("erm is at more equal distances from the experts than arith in ")
    lines = run(str(compared.folder), "--algorithms", "arith", "--json").output.splitlines()
    assert [json.loads(line)["seed"] for line in lines] in ([0, 1], [1, 0])


def test_numbers_that_are_kept_are_a_section_of_the_report(compared: Results) -> None:
    assert 'id="balance"' not in render(compared.outcomes)
    lines = run(str(compared.folder), "--keep", "--json").output.splitlines()
    page = render(Results.open(compared.folder).outcomes)
    assert 'id="balance"' in page
    found = [json.loads(line) for line in lines]
    for name in ("erm", "arith"):
        mean = sum(one["angle"] for one in found if one["algorithm"] == name) / 2
        assert f'data-value="{mean:.3g}"' in page


def test_a_folder_without_trials_is_answered_with_a_sentence(tmp_path: Path) -> None:
    assert "give the folder of a trial" in str(run(str(tmp_path)).exception)
