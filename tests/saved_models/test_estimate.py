"""How right a model may be is estimated without labels, and beside that stands how wrong such estimates were."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_data import image_folder, stripes
from PIL import Image

import domainwise as dw
from domainwise.experiment import outcomes
from domainwise.experiment.integrity import Damaged
from domainwise.experiment.outcomes import Seen
from domainwise.saved_models.card import CARD, ESTIMATE
from domainwise.saved_models.estimate import (
    Estimate,
    Estimator,
    Features,
    estimator_for,
    from_bytes,
    plain_confidence,
    to_bytes,
    tried_on_targets,
    watched,
)

Command = Callable[..., tuple[int, str, str]]  # the command line, in an empty folder
SHORT: dict[str, Any] = {"steps": 6, "evaluate_every": 3, "batch": 8}
DATA = stripes()


def seen(confidence: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> Seen:
    """What a model of two classes made of images: how sure it was of the first, and whether it was right."""
    logits = np.stack([np.log(confidence), np.log(1 - confidence)], 1)
    return Seen(2, {"index": np.arange(len(right)), "label": np.where(right, 0, 1), "logits": logits})


@pytest.mark.parametrize("seed", range(3))
def test_on_the_images_that_it_was_fitted_on_the_estimate_is_the_accuracy(seed: int) -> None:
    random = np.random.RandomState(seed)
    confidence = random.uniform(0.5, 1, 200)
    found = Estimator.fitted(
        [seen(confidence[:80], random.rand(80) < 0.7), seen(confidence[80:], random.rand(120) < 0.9)]
    )
    assert found.expected(confidence) == pytest.approx(found.accuracy, abs=1 / 200)
    assert np.mean(confidence < found.unsure) == pytest.approx(0.05, abs=1 / 200)


def hard_and_easy(seed: int, hard: float, *, surely_wrong: bool = False) -> tuple[Any, Any]:
    """Easy images, which are right, and hard ones, which are wrong, of which the model knows or not."""
    random = np.random.RandomState(seed)
    is_hard = random.rand(2000) < hard
    unsure = random.uniform(0.5, 0.7, 2000) if not surely_wrong else random.uniform(0.8, 0.99, 2000)
    return np.where(is_hard, unsure, random.uniform(0.8, 0.99, 2000)), ~is_hard


def test_more_hard_images_that_the_model_is_unsure_of_are_seen_without_labels() -> None:
    estimator = Estimator.fitted([seen(*hard_and_easy(0, 0.1))])
    confidence, right = hard_and_easy(1, 0.45)
    assert estimator.expected(confidence) == pytest.approx(right.mean(), abs=0.02)


def test_mistakes_that_the_model_is_sure_of_are_not_seen_and_that_is_said() -> None:
    estimator = Estimator.fitted([seen(*hard_and_easy(0, 0.1))])
    confidence, right = hard_and_easy(1, 0.45, surely_wrong=True)
    expected = estimator.expected(confidence)
    assert expected - right.mean() > 0.4
    said = Estimate(expected, float(confidence.mean()), 0.0, {}, estimator).sentences
    assert any("Where it is surely wrong" in one for one in said)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dw.Results:
    folder = tmp_path_factory.mktemp("results")
    return dw.compare(DATA, "erm", seeds=2, output=folder, set={"lr": 1e-4}, **SHORT)


@pytest.fixture(scope="module")
def model(results: dw.Results, tmp_path_factory: pytest.TempPathFactory) -> dw.Model:
    return dw.fit(results, output=tmp_path_factory.mktemp("models") / "model")


def test_a_model_of_a_comparison_knows_how_wrong_estimates_were_on_each_site_held_out(
    results: dw.Results, model: dw.Model
) -> None:
    found: dict[str, list[tuple[float, float]]] = {}
    for one in results.outcomes:
        (target,) = one.trial.targets
        parts = outcomes.read(one)
        held = [parts[name]["holdout"] for name in parts if name != target]
        sure = np.concatenate([part.probabilities().max(1) for part in held])
        wrong = np.concatenate([part.predicted != part.label for part in held]).mean()
        tested = parts[target]["main"]
        share = np.mean(tested.probabilities().max(1) >= np.quantile(sure, wrong))
        found.setdefault(target, []).append((float(share), float((tested.predicted == tested.label).mean())))
    estimator = model.card.estimator
    assert estimator is not None
    assert dict(estimator.tried) == {name: pytest.approx(np.mean(pairs, 0)) for name, pairs in found.items()}
    assert dict(estimator.tried) == tried_on_targets(results.outcomes)
    errors = [a - b for a, b in estimator.tried.values()]
    estimate = Estimate(0.5, 0.6, 0.1, {}, estimator)
    assert estimate.range == pytest.approx((0.5 - max(errors), 0.5 - min(errors)))
    assert f"off by {100 * np.mean(np.abs(errors)):.1f} points on average" in estimate.sentences[0]


def test_images_look_most_like_their_own_domain(tmp_path: Path) -> None:
    data = stripes(size=200)
    model = dw.fit(data, "erm", output=tmp_path, **SHORT)
    features = model.card.estimator and model.card.estimator.features
    assert features is not None
    for domain in data:
        with watched(model) as own:
            model.probabilities(domain.images)
        assert own.total / own.count == pytest.approx(model.features(domain.images).mean(0), abs=1e-5)
        distances = features.distances(own.total / own.count, own.count)
        assert min(distances, key=lambda name: distances[name]) == domain.name


def test_a_distance_is_that_of_the_means_in_units_of_the_scatter_less_what_chance_makes() -> None:
    random = np.random.RandomState(0)
    own, other = random.randn(4000, 5), 3 + random.randn(50, 5)
    features = Features(("own",), (4000,), own.mean(0)[None], own.std(0))
    assert features.distances(other.mean(0), 50)["own"] == pytest.approx(3, rel=0.05)
    assert features.distances(random.randn(50, 5).mean(0), 50)["own"] < 0.2


def test_a_temperature_makes_no_difference_to_how_sure_a_model_is() -> None:
    logits = np.random.RandomState(0).randn(20, 4) * 3
    warm, plain = outcomes.probabilities(logits, 2.5), outcomes.probabilities(logits)
    assert plain_confidence(warm, 2.5) == pytest.approx(plain.max(1))


def flat(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for i, image in enumerate(DATA["b"].images):
        Image.fromarray(image[..., 0]).save(folder / f"{i}.png")
    return folder


def test_a_folder_without_labels_gets_an_estimate_as_text_page_and_numbers(
    model: dw.Model, tmp_path: Path, domainwise: Command
) -> None:
    assert model.folder is not None
    found = model.evaluate(flat(tmp_path / "new"))
    assert found.estimate is not None
    assert model.card.estimator is not None
    sure = plain_confidence(model.probabilities(DATA["b"].images), model.card.temperature)
    assert found.estimate.expected == pytest.approx(np.mean(sure >= model.card.estimator.threshold))
    code, out, _ = domainwise("evaluate", model.folder, "new", "-o", "page.html")
    assert (code, out) == (0, found.table())
    assert f"Expected accuracy: {found.estimate.expected:.1%}" in out
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'id="tried"' in page
    assert all(f"{100 * b:.1f}" in page for _, b in model.card.estimator.tried.values())
    told = json.loads(found.table("json"))["estimate"]
    assert told["expected"] == found.estimate.expected
    assert {name: one["accuracy"] for name, one in told["tried"].items()} == {
        name: b for name, (_, b) in model.card.estimator.tried.items()
    }
    assert "estimated expected" in found.table("csv")
    with pytest.raises(dw.InputError, match="have no labels, so that how right the model is is not known"):
        _ = found.accuracy
    labelled = model.evaluate(DATA)
    assert any(said.startswith("Without labels the estimate") for said in labelled.table().split("\n\n"))


def test_what_estimates_start_from_survives_and_a_damaged_file_is_told(model: dw.Model, tmp_path: Path) -> None:
    one = model.card.estimator
    assert one is not None
    assert one.features is not None
    again = from_bytes(to_bytes(one))
    assert (again.threshold, again.tried, again.unsure) == (one.threshold, one.tried, one.unsure)
    assert again.features is not None
    assert again.features.means == pytest.approx(one.features.means)
    assert model.folder is not None
    copy = shutil.copytree(model.folder, tmp_path / "copy")
    content = (copy / ESTIMATE).read_bytes()
    (copy / ESTIMATE).write_bytes(content[:-20] + bytes(20))
    with pytest.raises(Damaged, match=r"estimate\.npz"):
        dw.load(copy)


def test_what_a_later_version_wrote_is_named(model: dw.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    assert model.card.estimator is not None
    content = to_bytes(model.card.estimator)
    monkeypatch.setattr("domainwise.saved_models.estimate.FORMAT", 0)
    with pytest.raises(dw.InputError, match="was written by a later version of domainwise than this"):
        from_bytes(content)


def test_a_trial_of_a_comparison_has_an_estimate_and_a_model_taken_out_of_its_folder_says_what_is_missing(
    results: dw.Results, tmp_path: Path
) -> None:
    one = results.outcomes[0]
    own = dw.load(one.folder)
    assert own.card.estimator is None
    assert set(estimator_for(own).tried) == set(one.trial.targets)
    found = own.evaluate(flat(tmp_path / "new"))
    assert found.estimate is not None
    assert "keeps no features of its domains" in found.table()
    alone = dw.load(shutil.copytree(one.folder / "best", tmp_path / "alone"))
    found = alone.evaluate(tmp_path / "new")
    assert found.estimate is None
    assert "How right the model may be here cannot be estimated" in found.table()
    assert "30 images without labels" in found.report(tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_model_that_was_fitted_without_a_comparison_says_that_errors_are_not_known(tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos")
    model = dw.fit(dw.folders(photos, size=10), "erm", output=tmp_path / "model", **SHORT)
    for i, file in enumerate(photos.rglob("*.png")):
        (tmp_path / "new").mkdir(exist_ok=True)
        shutil.copy(file, tmp_path / "new" / f"{i}.png")
    assert "this model comes from no comparison" in model.evaluate(tmp_path / "new").table()
    card = tmp_path / "model" / "best" / CARD
    content = json.loads(card.read_text(encoding="utf-8"))
    assert set(content["files"]) == {"made_from.npy", "estimate.npz"}
