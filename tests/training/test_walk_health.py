"""What an evaluation says of a walk is what a plain loop finds, and it changes nothing in the training."""

from __future__ import annotations

import math
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from made_trials import run, trial
from torch import nn
from torch.nn import functional as F

from domainwise import Network, Results
from domainwise.algorithms import create
from domainwise.algorithms._bases import last_step, walk_health
from domainwise.experiment import records
from domainwise.experiment.integrity import is_record
from domainwise.saved_models.evaluation import Evaluator

Batch = tuple[torch.Tensor, torch.Tensor]


def network() -> Network:
    torch.manual_seed(0)
    return Network(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh()), nn.Linear(6, 3), dropout=0.2)


def minibatches(n: int = 3) -> list[Batch]:
    return [(torch.randn(16, 4), torch.randint(3, (16,))) for _ in range(n)]


def flat(net: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in net.parameters()])


@pytest.mark.parametrize("text", ["erm", "erm(weight_decay=0.1, lr=0.01)", "arith"])
def test_the_last_outer_step_is_how_far_the_parameters_went(text: str) -> None:
    algorithm = create(text).setup(network(), seed=0)
    for _ in range(3):
        before = flat(algorithm.net)
        algorithm.update(minibatches())
    assert math.isclose(
        last_step(algorithm.optimizer.outer), float((flat(algorithm.net) - before).norm()), rel_tol=1e-4
    )


@pytest.mark.parametrize("alpha", [0.01, 50.0])
def test_a_walk_is_as_long_and_goes_wrong_as_often_as_in_a_plain_loop(alpha: float) -> None:
    net = network()
    net.dropout.p = 0.0
    algorithm, legs = create("fish", inner_lr=alpha).setup(net, seed=0), minibatches()
    twin, rose = deepcopy(net), 0
    for x, y in legs:
        before = F.cross_entropy(twin(x), y)
        gradients = torch.autograd.grad(before, [*twin.parameters()])
        with torch.no_grad():
            for p, g in zip(twin.parameters(), gradients, strict=True):
                p -= alpha * g
            rose += int(F.cross_entropy(twin(x), y) > before)
    found = walk_health(algorithm, legs)
    assert math.isclose(found["length"], float((flat(twin) - flat(net)).norm()), rel_tol=1e-4)
    assert found["rose"] == rose / len(legs)
    assert (rose > 0) == (alpha > 1)


def test_looking_at_a_walk_leaves_everything_as_it_was() -> None:
    algorithm = create("arith(inner_steps=2)").setup(network(), seed=0)
    batches = [[one, one] for one in minibatches()]
    algorithm.update(batches)
    before, drawn = deepcopy(algorithm.state_dict()), torch.get_rng_state()
    assert set(walk_health(algorithm, batches)) == {"length", "rose", "outer"}
    for name, value in algorithm.state_dict()["net"].items():
        assert torch.equal(value, before["net"][name]), name
    assert torch.equal(torch.get_rng_state(), drawn)


@pytest.mark.parametrize("text", ["erm", "coral", "arith(inner='adam')", "fish(inner_lr=0.0)"])
def test_of_what_does_not_walk_by_plain_descent_nothing_is_said(text: str) -> None:
    assert walk_health(create(text).setup(network(), seed=0), minibatches()) == {}


def test_training_is_the_same_to_the_last_bit_whether_walks_are_looked_at_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(trial("arith"), tmp_path / "seen")
    monkeypatch.setattr(Evaluator, "walk", lambda self, step: {})
    run(trial("arith"), tmp_path / "unseen")
    seen, unseen = ([*records.read(tmp_path / name / "records.jsonl")] for name in ("seen", "unseen"))
    assert all(0 <= record["walk"]["rose"] <= 1 for record in seen)
    assert [{**one, "walk": 0, "seconds": 0} for one in seen] == [{**one, "walk": 0, "seconds": 0} for one in unseen]
    models = [(tmp_path / name / "best" / "model.safetensors").read_bytes() for name in ("seen", "unseen")]
    assert models[0] == models[1]


def test_records_without_a_walk_are_records_and_a_walk_of_words_is_none(tmp_path: Path) -> None:
    run(trial("arith"), tmp_path / "o")
    record = next(iter(records.read(tmp_path / "o" / "records.jsonl")))
    assert is_record(record)
    assert is_record({name: value for name, value in record.items() if name != "walk"})
    assert not is_record({**record, "walk": {"rose": "often"}})


def outcomes_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **walk: float) -> Any:
    monkeypatch.setattr(Evaluator, "walk", lambda self, step: dict(walk))
    run(trial("arith"), tmp_path / "trials" / trial("arith").id)
    return Results.open(tmp_path)


@pytest.mark.parametrize(
    ("walk", "sentence"),
    [
        ({"rose": 0.7, "length": 2.0, "outer": 1.0}, "arith overshoots: most steps of its walk raise the loss"),
        ({"rose": 0.1, "length": 0.02, "outer": 1.0}, "The walk of arith has faded: late in training it goes 0.02 of"),
        ({"rose": 0.1, "length": 0.7, "outer": 1.0}, ""),
    ],
)
def test_the_page_says_where_a_walk_overshoots_or_has_faded(
    walk: dict[str, float], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = outcomes_with(tmp_path, monkeypatch, **walk)
    page = results.report(tmp_path / "report.html").read_text()
    assert '<section id="walks">' in page
    assert sentence in page
    assert ("overshoots:" in page, "has faded" in page) == ("overshoots" in sentence, "faded" in sentence)


def test_a_page_of_trials_that_do_not_walk_has_no_such_section(tmp_path: Path) -> None:
    run(trial("erm"), tmp_path / "trials" / trial("erm").id)
    assert 'id="walks"' not in Results.open(tmp_path).report(tmp_path / "report.html").read_text()
