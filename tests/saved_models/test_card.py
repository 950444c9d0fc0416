"""A saved model carries what its users should know: what to expect, what it was made from, a card to read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from made_data import image_folder, stripes
from PIL import Image

import domainwise as dw
from domainwise import InputError
from domainwise.data.domains import Domains
from domainwise.data.sources.arrays import domains
from domainwise.data.sources.folders import folders
from domainwise.experiment.integrity import Damaged, sealed
from domainwise.experiment.records import publish
from domainwise.experiment.trial import Trial
from domainwise.saved_models import card
from domainwise.saved_models.card import CARD, MADE_FROM, README, Expectation
from domainwise.saved_models.predict import Prediction, Tally

Command = Callable[..., tuple[int, str, str]]
EXPECTED = Expectation("erm", {"day": 0.81, "night": 0.625, "dusk": 0.7}, 0.95, (("cat", 0.4),), 2.0)


def made(data: Domains, folder: Path, expected: Expectation | None = EXPECTED) -> Path:
    """A model with a card."""
    config = dw.fit(data, "erm", steps=4, evaluate_every=2, batch=4, output=folder).config
    home = folder / "best"
    card.write(home, data, Trial.from_json(config["trial"]), config, expected)
    return home


def test_fit_writes_a_card_beside_every_model_and_no_expectation_without_a_comparison(tmp_path: Path) -> None:
    data = stripes()
    options = {"steps": 4, "evaluate_every": 2, "batch": 4, "average": "ma(start=0)", "output": tmp_path}
    model = dw.fit(data, "erm", **options)
    assert (model.card.expected, model.card.temperature) == (None, 1.0)
    assert all(model.card.knows(image) for domain in data for image in domain.images)
    for home in ("best", "best-average"):
        assert (tmp_path / home / README).read_text().startswith("# Model card: erm, trained on stripes")
        assert "It is not known: no domain was held out." in (tmp_path / home / README).read_text()
    for name in (CARD, README):  # as a kill right after the result leaves it
        (tmp_path / "best" / name).unlink()
    dw.fit(data, "erm", **options)
    assert not dw.check(tmp_path).damaged
    assert (tmp_path / "best" / README).is_file()


def test_what_was_expected_of_a_model_stays_where_the_same_is_trained_once_more(tmp_path: Path) -> None:
    made(stripes(), tmp_path)
    again = dw.fit(stripes(), "erm", steps=4, evaluate_every=2, batch=4, output=tmp_path)
    assert again.card.expected == EXPECTED


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return image_folder(tmp_path_factory.mktemp("photos"), ("day", "night"), count=8, side=16)


@pytest.fixture(scope="module")
def model(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(folders(photos, size=16), tmp_path_factory.mktemp("model"))


def test_what_is_expected_is_a_range_over_sites_and_the_chance_that_it_covers_a_new_one() -> None:
    assert EXPECTED.expected == (0.625, 0.81)
    assert EXPECTED.chance == 0.5
    said = str(EXPECTED)
    assert said.startswith("At a new site expect 62.5% to 81.0% right.")
    for part in ("day 81.0%, night 62.5%, dusk 70.0%", "probability 50%", "right on 95.0%", "cat (40.0%)"):
        assert part in said
    assert "cannot be told from the one" in str(Expectation("erm", {"day": 0.8}))


def test_a_range_of_sites_covers_a_new_one_as_often_as_is_said() -> None:
    drawn = np.random.default_rng(0).beta(8, 3, (20_000, 6))
    covered = (drawn[:, -1] >= drawn[:, :-1].min(1)) & (drawn[:, -1] <= drawn[:, :-1].max(1))
    said = Expectation("erm", {str(i): 0.5 for i in range(5)}).chance
    assert covered.mean() == pytest.approx(said, abs=0.01)


def test_a_card_comes_back_as_it_was_written(model: Path) -> None:
    loaded = dw.load(model)
    assert loaded.card.expected == EXPECTED
    assert loaded.expectation == str(EXPECTED)
    assert not dw.check(model).damaged


def test_the_temperature_of_the_card_makes_probabilities_milder_and_changes_no_class(model: Path, photos: Path) -> None:
    data = folders(photos, size=16)
    warm, cold = dw.load(model), dw.Model(dw.load(model).algorithm, dw.load(model).config)
    images = data["day"].images
    logits = np.log(cold.probabilities(images))
    expected = np.exp(logits / 2)
    assert np.allclose(warm.probabilities(images), expected / expected.sum(1, keepdims=True), atol=1e-5)
    assert warm.predict(images) == cold.predict(images)


def test_a_model_without_a_card_is_read_as_before(tmp_path: Path) -> None:
    dw.fit(stripes(), "erm", steps=4, evaluate_every=2, output=tmp_path)
    for name in (CARD, MADE_FROM, README):
        (tmp_path / "best" / name).unlink(missing_ok=True)
    loaded = dw.load(tmp_path)
    assert (loaded.expectation, loaded.card.temperature) == ("", 1.0)


def test_predict_says_what_to_expect_and_which_images_the_model_was_made_from(
    domainwise: Command, model: Path, photos: Path, tmp_path: Path
) -> None:
    known = sorted((photos / "day").glob("*/*.png"))[:3]
    pixels = np.random.RandomState(9).randint(0, 255, (16, 16, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "new.png")
    code, _, said = domainwise("predict", model, *known, tmp_path / "new.png")
    assert code == 0
    assert str(EXPECTED) in said
    assert "have the temperature 2, which fits the sites that were held out" in said
    assert "the model was made from 3 of these 4 images: being right on those says nothing of new ones" in said
    assert "made from none of these images" in domainwise("predict", model, tmp_path / "new.png")[2]
    found = list(dw.load(model).predict_files(*known, tmp_path / "new.png"))
    assert [one.made_from for one in found] == [True, True, True, False]


def test_an_image_that_no_class_is_probable_enough_for_gets_none(
    domainwise: Command, model: Path, photos: Path
) -> None:
    image = sorted((photos / "day").glob("*/*.png"))[0]
    (sure,) = dw.load(model).predict_files(image)
    assert sure.probability is not None
    above = sure.probability + 0.001
    code, out, said = domainwise("predict", model, image, "--min-probability", above, "--format", "json")
    (row,) = json.loads(out)
    assert (code, row["class"], row["probability"]) == (0, None, sure.probability)
    assert row["problem"].startswith(f"not sure: the most probable class is {sure.class_name}, below")
    assert "without a class, since none is probable enough: 1 of 1" in said
    assert domainwise("predict", model, image, "--min-probability", 1.5)[0] == 2
    (kept,) = dw.load(model).predict_files(image, min_probability=sure.probability)
    assert kept.class_name == sure.class_name
    pixels = np.asarray(Image.open(image))
    assert dw.load(model).predict(pixels, min_probability=above) == [""]
    for odd in (50, -1, float("nan"), "a", None):
        with pytest.raises(InputError, match="min_probability is a number from 0 to 1, got"):
            dw.load(model).predict(pixels, min_probability=odd)  # type: ignore[arg-type]


def test_of_images_that_are_in_no_file_nothing_is_said_about_files(tmp_path: Path) -> None:
    pixels = np.random.RandomState(0).rand(12, 8, 8, 3)
    model = dw.fit(domains({"a": (pixels, [0, 1] * 6), "b": (pixels, [1, 0] * 6)}), "erm", steps=1, output=tmp_path)
    assert len(model.card.made_from) == 0


def test_a_class_that_the_model_does_not_know_is_a_sentence() -> None:
    tally = Tally(("cat", "dog"), hashed=True)
    rows = [Prediction("x/cat/0.png", "cat", 0.9), Prediction("x/zebra/0.png", "cat", 0.9)]
    list(tally.watch(rows))
    assert any("called like no class of this model: zebra 1." in line for line in tally.summary)
    assert not any("right, by the names" in line for line in tally.summary)


@pytest.mark.parametrize("name", [CARD, MADE_FROM])
@pytest.mark.parametrize("damage", ["truncate", "empty", "flip", "gone", "a folder"])
def test_a_damaged_card_is_a_sentence(photos: Path, tmp_path: Path, name: str, damage: str) -> None:
    home = made(folders(photos, size=16), tmp_path)
    path = home / name
    content = path.read_bytes()
    changed = {"truncate": content[:-7], "empty": b"", "flip": content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]}
    if damage in ("gone", "a folder"):
        path.unlink()
        if damage == "a folder":
            path.mkdir()
    else:
        path.write_bytes(changed[damage])
    with pytest.raises(Damaged, match=rf"{name} (is missing|is damaged|has changed)"):
        dw.load(home)
    assert [one.path for one in dw.check(home).damaged] == [home]
    if damage == "flip":
        with pytest.warns(UserWarning, match="what a comparison let one expect of the model is lost"):
            made(folders(photos, size=16), tmp_path, expected=None)
        assert dw.load(home).expectation == ""


def test_a_card_or_a_model_of_a_later_version_is_a_sentence(photos: Path, tmp_path: Path) -> None:
    home = made(folders(photos, size=16), tmp_path)
    content = {"format": 2, "domainwise": "9.9", "something": "new"}
    publish(home / CARD, sealed(content))
    with pytest.raises(InputError, match=r"card.json is of a later version of domainwise than this, 9.9"):
        dw.load(home)
    for name in (CARD, MADE_FROM):
        (home / name).unlink()
    config = json.loads((home / "config.json").read_text())
    config.pop("checksum")
    publish(home / "config.json", sealed({**config, "format": 2, "domainwise": "9.9"}))
    with pytest.raises(InputError, match=r"holds a model of a later version of domainwise than this, 9.9"):
        dw.load(home)
    config["trial"]["invented_later"] = 1
    publish(home / "config.json", sealed({**config, "domainwise": "9.9"}))
    with pytest.raises(InputError, match=r"can read: it was made by version 9.9, and this is"):
        dw.load(home)


@pytest.mark.parametrize(
    "change", [{"sites": {}}, {"sites": {"a": 3}}, {"temperature": 0}, {"known": "much"}, {"other": 1}, {"sites": 7}]
)
def test_a_card_that_makes_no_sense_is_refused(photos: Path, tmp_path: Path, change: dict[str, object]) -> None:
    home = made(folders(photos, size=16), tmp_path)
    content = json.loads((home / CARD).read_text())
    content.pop("checksum")
    publish(home / CARD, sealed({**content, "expected": {**asdict(EXPECTED), **change}}))
    with pytest.raises(Damaged, match="it is no card of a model"):
        dw.load(home)


def test_the_card_to_read_has_what_was_asked_of_it_and_no_name_is_markup(tmp_path: Path) -> None:
    arrays = {name: (domain.images, domain.labels) for name, domain in zip("ab", stripes("ab"), strict=True)}
    arrays["<b>|x"] = (arrays["a"][0], np.zeros(30, int))
    data = domains(arrays, name="my*data", classes=["low_one", "high"])
    text = (made(data, tmp_path) / README).read_text()
    for part in ("# Model card: erm, trained on my\\*data", "low\\_one, high", data.fingerprint, "| small |", "8 x 8"):
        assert part in text
    assert "\\<b\\>\\|x has no high." in text
    assert "At a new site expect 62.5% to 81.0% right" in text
    assert "the temperature that fits" in text
    assert "| \\<b\\>\\|x | 30 |" in text


def test_images_of_another_size_than_the_network_sees_are_not_said_to_be_known(tmp_path: Path) -> None:
    data = stripes(side=12)
    home = made(data, tmp_path)
    assert dw.load(home).card.knows(data["a"].images[0])
    assert not dw.load(home).card.knows(data["a"].images[0][:8])
    assert len(card.image_hashes(data, 8)) == 0
