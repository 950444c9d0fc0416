"""Weights of classes are in the cross-entropy of every algorithm, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_data import stripes
from made_updates import batches, network
from torch.nn import functional as F

import domainwise as dw
from domainwise.algorithms import Algorithm, Penalized, Terms, algorithm, create, names
from domainwise.algorithms._checks import asks_for
from domainwise.data.batches.feed import Feed
from domainwise.data.batches.inputs import Inputs, Part
from domainwise.experiment.settings import resolve
from domainwise.experiment.trial import Trial
from domainwise.networks.network import build
from domainwise.sklearn import DomainClassifier
from domainwise.training.setup import class_weights

WEIGHTS = torch.tensor([0.25, 3.0, 1.5])
SIZES = [6, 6, 6]


def risk_of(made: Algorithm, weights: torch.Tensor | None) -> float:
    made.class_weights = weights
    torch.manual_seed(0)
    data = batches(0, SIZES)
    return float((made.terms(data).risk if isinstance(made, Penalized) else made.loss(data)).detach())


@pytest.mark.parametrize("name", sorted({*names()} - {"arm", "rsc"}))
def test_every_cross_entropy_is_torchs_with_weights_over_the_samples(name: str) -> None:
    made = create(name).setup(network(), seed=0)
    made._begin(batches(0, SIZES))
    x, y = (torch.cat(parts) for parts in zip(*batches(0, SIZES), strict=True))
    logits = made.net(x)
    weighted = F.cross_entropy(logits, y, WEIGHTS.double()) * WEIGHTS[y].sum() / len(y)  # torch divides by the weights
    change = weighted - F.cross_entropy(logits, y)  # whatever is added to the cross-entropy stays as it is
    assert risk_of(made, WEIGHTS) - risk_of(made, None) == pytest.approx(change.item(), rel=1e-9)


@pytest.mark.parametrize("name", ["arm", "rsc"])
def test_where_the_network_is_shown_something_else_the_risk_is_still_linear_in_the_weights(name: str) -> None:
    net = build("small", (5, 5, 1), 3, extra_channels=name == "arm").double()
    made = create(name).setup(net, seed=0)
    each = [risk_of(made, torch.eye(3)[c]) for c in range(3)]
    assert min(each) > 0
    assert risk_of(made, WEIGHTS) == pytest.approx(np.dot(each, WEIGHTS.numpy()), rel=1e-6)
    assert risk_of(made, None) == pytest.approx(sum(each), rel=1e-6)


def test_in_parts_the_gradient_is_that_of_the_whole() -> None:
    found = []
    for parts in (1, 3):
        made = create("erm").setup(network(), seed=0)
        made.class_weights = WEIGHTS
        made.take_parts(parts)
        made.update(batches(0, SIZES))
        found.append(torch.cat([p.detach().flatten() for p in made.net.parameters()]))
    assert torch.allclose(*found, rtol=0, atol=1e-9)


LABELS = {"a": [0] * 12 + [1] * 4, "b": [0] * 4 + [1] * 2 + [2] * 2, "c": [1] * 10}  # class 3 is nowhere, 0 not in c


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("how", [{}, {"pooled": True}, {"some": 1}, {"some": 1, "by": "size"}])
def test_balanced_weights_let_every_class_count_the_same_in_what_is_drawn(balanced: bool, how: dict[str, Any]) -> None:
    arrays = {name: (np.zeros((len(y), 2)), y) for name, y in LABELS.items()}
    data = dw.domains(arrays, classes=["w", "x", "y", "z"])
    parts = [Part(domain, np.arange(len(domain)), "cpu") for domain in data]
    feed = Feed(parts, Inputs("none", 0), 8, seed=0, balanced=balanced, **how)
    weights = class_weights(trial("balanced"), feed, data.classes)
    assert weights is not None
    drawn = torch.cat([y for _ in range(1500) for _, y in feed.draw()])
    counts = torch.bincount(drawn, weights[drawn].double(), minlength=4) / len(drawn)
    assert counts[:3].tolist() == pytest.approx([1 / 3] * 3, rel=0.12)
    assert counts[3] == 0
    assert weights.isfinite().all()


def trial(weights: str) -> Trial:
    return Trial("arrays", "", (), "erm", {}, class_weights=weights)


def test_a_class_without_a_weight_of_its_own_counts_once() -> None:
    data = stripes()
    feed = Feed([Part(data.items[0], np.arange(30), "cpu")], Inputs("none", 8), 4, seed=0)
    assert class_weights(trial('{"high": 2.5}'), feed, data.classes).tolist() == [1, 2.5]  # type: ignore[union-attr]
    assert class_weights(trial("none"), feed, data.classes) is None


def test_training_goes_by_the_weights() -> None:
    x, y = np.zeros((400, 1)), np.array([0, 0, 0, 1] * 100)  # nothing to learn but how frequent a class is
    site = np.repeat(["a", "b"], 200)

    def share(class_weight: Any, algorithm: str = "erm", **settings: int) -> float:
        made = DomainClassifier(
            algorithm, network="linear", steps=200, lr=0.05, class_weight=class_weight, random_state=0, device="cpu",
            average="ma(start=50)", settings={"selection": "last", **settings},
        )  # fmt: skip
        return float(made.fit(x, y, sample_domain=site).predict_proba(x)[0, 1])

    assert share(None) == pytest.approx(1 / 4, abs=0.07)
    assert share("balanced") == pytest.approx(1 / 2, abs=0.07)
    assert share({0: 1, 1: 3}) == pytest.approx(1 / 2, abs=0.07)
    assert share({0: 1, 1: 27}) == pytest.approx(9 / 10, abs=0.07)
    assert share("balanced", "fish", erm_updates=199) == pytest.approx(1 / 2, abs=0.07)


def test_ids_are_those_of_before_unless_classes_are_weighed() -> None:
    plain = trial("none")
    assert "class_weights" not in plain.identity
    assert len({plain.id, trial("balanced").id, trial('{"high": 2.0}').id}) == 3


def test_weights_are_kept_as_text_however_they_are_given() -> None:
    kept = '{"dog": 2.0, "é": 0.5}'
    for given in ({"é": 0.5, "dog": 2}, kept, '{"é": 0.5, "dog": 2}'):
        assert resolve(given={"class_weights": given}).class_weights == kept


def test_the_command_line_takes_them_and_fit_keeps_those_of_a_comparison(
    domainwise: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    weights = 'class_weights={"3": 5, "7": 0.5}'
    asked = ["--data", "digits", "--algorithms", "erm", "--targets", "0,15", "--seeds", "1", "--steps", "2"]
    assert domainwise("compare", *asked, "--set", weights, "-o", "results", "--quiet")[0] == 0
    results = dw.Results.open(tmp_path / "results")
    assert {one.trial.class_weights for one in results.outcomes} == {'{"3": 5.0, "7": 0.5}'}
    assert domainwise("fit", "--from", "results", "-o", "model", "--quiet")[0] == 0
    assert dw.load(tmp_path / "model").config["trial"]["class_weights"] == '{"3": 5.0, "7": 0.5}'


@algorithm
class Plain(Algorithm):
    """Forgets the weights."""

    def loss(self, batches: Any) -> Any:
        return F.cross_entropy(self.net(batches[0][0]), batches[0][1])


@algorithm
class Above(Algorithm):
    """Hands on to what knows of weights."""

    def loss(self, batches: Any) -> Any:
        return 2 * super().loss(batches)


@algorithm
class Bare(Penalized):
    """Forgets them in one of two terms."""

    def terms(self, batches: Any) -> Terms:
        return Terms(F.cross_entropy(self.net(batches[0][0]), batches[0][1]), torch.zeros(()))


def test_it_is_known_whose_loss_asks_for_the_weights() -> None:
    assert all(asks_for(type(create(name)), "class_weights") for name in names())
    assert [asks_for(cls, "class_weights") for cls in (Plain, Above, Bare)] == [False, True, False]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("balance", "class_weights must be none, balanced or a weight for each class"),
        (2, "class_weights must be none, balanced"),
        ({"hihg": 2}, 'class_weights names "hihg", which is none of the classes: did you mean high'),
        ({"high": -1}, "numbers from 0 up"),
        ({"high": float("nan")}, "numbers from 0 up"),
        ({"high": "2"}, "numbers from 0 up"),
        ({"high": 0, "low": 0}, "not all of them 0"),
        ({}, "not all of them 0"),
        ("{high: 2}", "cannot read class_weights"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(given: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(dw.InputError, match=sentence):
        dw.compare(stripes(), "erm", set={"class_weights": given}, output=tmp_path / "results", dry_run=True)


def test_an_algorithm_that_forgets_the_weights_is_refused_before_it_is_trained(tmp_path: Path) -> None:
    with pytest.raises(dw.InputError, match="Plain weighs no classes, for its loss does not ask for"):
        dw.fit(stripes(), Plain, class_weights="balanced", output=tmp_path / "model", progress=False)
