"""The mean of outputs and the output of mean weights, which averaging of weights takes for one another."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from made_data import stripes
from torch import nn

from domainwise.analysis.ensemble import ensembles, outputs
from domainwise.analysis.loss_surface import walk
from domainwise.analysis.task import Task, place, task
from domainwise.api import compare
from domainwise.errors import InputError
from domainwise.saved_models.saved import load

DATA = stripes("abcd")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Task:
    found = compare(DATA, "erm", targets=["d"], seeds=1, steps=20, batch=8, output=tmp_path_factory.mktemp("out"))
    single = task(load(found.outcomes[0].folder), DATA)
    double = {name: (x.double(), y) for name, (x, y) in single.domains.items()}
    return replace(single, net=copy.deepcopy(single.net).double(), domains=double)


def at(net: nn.Module, model: torch.Tensor) -> nn.Module:
    moved = copy.deepcopy(net)
    torch.nn.utils.vector_to_parameters(model, moved.parameters())
    return moved


def test_both_means_are_those_of_plain_torch(trained: Task) -> None:
    models = walk(trained, ["a", "b", "c"], steps=15, lr=0.1)
    found = ensembles(trained, models)
    assert list(found) == ["a", "b", "c", "d"]
    nets = [at(trained.net, model) for model in models]
    middle = at(trained.net, sum(models) / 3)
    for name, (x, y) in trained.domains.items():
        with torch.no_grad():
            each = [net(x).softmax(1) for net in nets]
            one = middle(x).softmax(1)
        mean = sum(each) / 3
        own = found[name]
        assert own.alone == pytest.approx(sum(float((p.argmax(1) == y).double().mean()) for p in each) / 3)
        assert own.of_outputs == pytest.approx(float((mean.argmax(1) == y).double().mean()))
        assert own.of_weights == pytest.approx(float((one.argmax(1) == y).double().mean()))
        assert own.agreement == pytest.approx(float((mean.argmax(1) == one.argmax(1)).double().mean()))
        assert own.apart == pytest.approx(float((mean - one).abs().sum(1).mean() / 2), rel=1e-4)
        assert own.spread == pytest.approx(sum(float((p - mean).abs().sum(1).mean() / 2) for p in each) / 3, rel=1e-4)


def test_models_that_are_one_have_one_output(trained: Task) -> None:
    home = place(trained.net.parameters())
    for own in ensembles(trained, [home, home, home]).values():
        assert own.agreement == 1
        assert own.apart == pytest.approx(0, abs=1e-6)
        assert own.alone == own.of_outputs == own.of_weights


def test_the_means_part_to_second_order_and_the_models_to_first(trained: Task) -> None:
    home = place(trained.net.parameters())
    ways = torch.randn(3, len(home), dtype=home.dtype, generator=torch.Generator().manual_seed(0))

    def distances(far: float) -> tuple[float, float]:
        own = [outputs(trained, "a", home + far * way) for way in ways - ways.mean(0)]
        middle, mean = outputs(trained, "a", home), sum(own) / 3
        return float((mean - middle).abs().sum()), float((own[0] - mean).abs().sum())

    (apart, spread), (nearer, less) = distances(2e-3), distances(1e-3)
    assert apart / nearer == pytest.approx(4, rel=0.05)
    assert spread / less == pytest.approx(2, rel=0.05)


def test_measuring_leaves_the_model_as_it_was(trained: Task) -> None:
    before = place(trained.net.parameters())
    ensembles(trained, [before + 1, before - 1])
    assert torch.equal(place(trained.net.parameters()), before)


def test_one_model_is_no_ensemble(trained: Task) -> None:
    with pytest.raises(InputError, match="two models or more, got 1"):
        ensembles(trained, [place(trained.net.parameters())])
