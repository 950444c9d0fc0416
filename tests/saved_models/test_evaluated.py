"""A model says how right it is on new data, in whatever form they come, and what it cannot use is named."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_data import image_folder, stripes

import domainwise as dw
from domainwise.data.splits import split
from domainwise.experiment.records import read
from domainwise.report.evaluated import MISTAKES
from domainwise.saved_models.card import CARD, MADE_FROM

Command = Callable[..., tuple[int, str, str]]  # the command line, in an empty folder
SHORT: dict[str, Any] = {"steps": 6, "evaluate_every": 3, "batch": 8}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return image_folder(tmp_path_factory.mktemp("photos") / "photos")


@pytest.fixture(scope="module")
def model(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "model"
    dw.fit(dw.folders(photos, size=10), "erm", output=folder, steps=2, evaluate_every=1, batch=8, set={"lr": 1e-6})
    return folder


def test_it_agrees_with_the_evaluation_that_the_training_wrote_down(tmp_path: Path) -> None:
    data = stripes()
    model = dw.fit(data, "erm", output=tmp_path, **SHORT)
    (record,) = (one for one in read(tmp_path / "records.jsonl") if one["step"] == model.config["step"])
    rows = {domain.name: split(len(domain), 0.2, 0, i)[1] for i, domain in enumerate(data)}
    found = model.evaluate(
        {domain.name: (domain.images[own], domain.labels[own]) for domain, own in zip(data, rows.values(), strict=True)}
    )
    counts = json.loads((tmp_path / "counts.json").read_text(encoding="utf-8"))["model"]
    for answers in found.answers:
        written, own = record["domains"][answers.domain]["holdout"], counts[answers.domain]["holdout"]
        assert (answers.scores["accuracy"], answers.scores["count"]) == (written["accuracy"], written["count"])
        assert answers.scores["confusion"] == own["confusion"]
        assert answers.scores["loss"] == pytest.approx(written["loss"], rel=1e-5)
        assert answers.scores["calibration"]["count"] == own["calibration"]["count"]
        assert answers.scores["calibration"]["confidence"] == pytest.approx(own["calibration"]["confidence"], rel=1e-5)
    assert found.accuracy == pytest.approx(np.mean([d["holdout"]["accuracy"] for d in record["domains"].values()]))


def test_folders_a_manifest_a_data_set_and_arrays_give_the_same_answers(
    photos: Path, model: Path, tmp_path: Path
) -> None:
    loaded, data = dw.load(model), dw.folders(photos, size=10)
    rows = [f"{file},{file.parts[-3]},{file.parts[-2]}" for file in photos.rglob("*.png")]
    (tmp_path / "list.csv").write_text("\n".join(["path,domain,label", *rows]))
    names = {d.name: (d.images, [data.classes[i] for i in d.labels]) for d in data}
    numbers = {d.name: (d.images, d.labels) for d in data}
    expected = {d.name: loaded.probabilities(d.images) for d in data}
    for given in (photos, str(photos), tmp_path / "list.csv", data, names, numbers):
        found = loaded.evaluate(given)
        assert {one.domain: one.probabilities.tolist() for one in found.answers} == {
            name: rows.tolist() for name, rows in expected.items()
        }
        assert all((one.labels == data[one.domain].labels).all() for one in found.answers)
    (alone,) = loaded.evaluate(photos / "art").answers
    assert (alone.domain, len(alone)) == ("art", 12)
    assert (alone.probabilities == expected["art"]).all()


def test_a_manifest_with_boxes_is_read_part_by_part(photos: Path, model: Path, tmp_path: Path) -> None:
    file = photos / "art" / "cat" / "0.png"
    (tmp_path / "list.csv").write_text(
        f'path,domain,label,box\n{file},x,cat,"0 0 5 10"\n{file},x,cat,"5 0 5 10"\n{file},y,dog,"0 0 10 10"\n'
    )
    first, second = dw.load(model).evaluate(tmp_path / "list.csv").answers
    assert (first.probabilities[0] != first.probabilities[1]).any()
    assert (second.probabilities[0] == dw.load(model).evaluate(photos).answers[0].probabilities[0]).all()


def test_classes_may_be_missing_and_labels_the_model_does_not_know_are_named(
    photos: Path, model: Path, tmp_path: Path, domainwise: Command
) -> None:
    some = tmp_path / "some"
    shutil.copytree(photos / "art" / "cat", some / "cat")
    assert dw.load(model).evaluate(some).answers[0].scores["count"] == 6
    shutil.copytree(photos / "art" / "dog", some / "dogs")
    code, _, said = domainwise("evaluate", model, some)
    assert code == 2
    assert '"dogs", the label of 6 images of "' in said
    assert "is no class of this model; did you mean dog?" in said
    shutil.rmtree(some / "cat")
    with pytest.raises(dw.InputError, match=r'the folder "dogs" .* is called nearly like the class "dog"'):
        dw.load(model).evaluate(some)
    with pytest.raises(dw.InputError, match=r'"low", the label of .* is no class of this model'):
        dw.load(model).evaluate(stripes())
    with pytest.raises(dw.InputError, match="from 0 to 2, and the classes of this model are numbered from 0 to 1"):
        dw.load(model).evaluate({"a": (np.zeros((2, 9, 9, 3), np.uint8), [0, 2])})


def test_a_domain_may_have_the_name_of_a_class(photos: Path, model: Path, tmp_path: Path) -> None:
    shutil.copytree(photos / "art", tmp_path / "in" / "cat")
    shutil.copytree(photos / "photo", tmp_path / "in" / "night")
    assert [one.domain for one in dw.load(model).evaluate(tmp_path / "in").answers] == ["cat", "night"]


def test_what_cannot_be_read_is_left_out_and_told(
    photos: Path, model: Path, tmp_path: Path, domainwise: Command
) -> None:
    shutil.copytree(photos, tmp_path / "in")
    (tmp_path / "in" / "art" / "cat" / "0.png").write_bytes(b"no image")
    code, out, _ = domainwise("evaluate", model, "in", "--format", "json")
    found = json.loads(out)
    assert code == 1
    assert found["domains"]["art"]["images"] == 11
    assert "0.png" in found["unreadable"][0]["file"]
    assert any(said.startswith("1 of 24 files cannot be read as images") for said in found["sentences"])
    for file in (tmp_path / "in").rglob("*.png"):
        file.write_bytes(b"no image")
    code, _, said = domainwise("evaluate", model, "in")
    assert (code, "none of the 24 files of in can be read" in said) == (2, True)
    (tmp_path / "empty").mkdir()
    code, _, said = domainwise("evaluate", model, "empty")
    assert (code, "there are no images in" in said) == (2, True)


def test_the_forms_have_the_same_numbers_and_a_page_shows_the_worst(
    photos: Path, model: Path, domainwise: Command, tmp_path: Path
) -> None:
    found = dw.load(model).evaluate(photos)
    rows = list(csv.DictReader(io.StringIO(found.table("csv"))))
    facts = json.loads(found.table("json"))
    for answers in found.answers:
        own = {row["metric"]: row["value"] for row in rows if (row["domain"], row["class"]) == (answers.domain, "")}
        assert float(own["accuracy"]) == answers.scores["accuracy"] == facts["domains"][answers.domain]["accuracy"]
        assert f"{100 * answers.scores['accuracy']:.1f}" in found.table()
    worst = max(one.probabilities[i].max() for one in found.answers for i in one.mistakes(MISTAKES))
    assert f"with a confidence of {100 * worst:.0f} %" in found.table().partition("surest mistakes:")[2].splitlines()[1]
    code, out, _ = domainwise("evaluate", model, photos, "-o", "page.html")
    assert (code, out) == (0, found.table())
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("data:image/jpeg") == sum(len(one.mistakes(MISTAKES)) for one in found.answers) > 0
    assert "<table" in found._repr_html_()
    assert repr(found).startswith("<Evaluation of erm, small, trained on photos on photos: art 12, photo 12; accuracy")
    for name, content in (("mine.html", "mine"), ("mine.csv", "mine")):
        (tmp_path / name).write_text(content)
        assert domainwise("evaluate", model, photos, "-o", name)[0] == 2
        assert (tmp_path / name).read_text() == content
    assert 'let "x.txt" end in .html, .csv or .json' in domainwise("evaluate", model, photos, "-o", "x.txt")[2]
    code, *_ = domainwise("evaluate", model, photos, "-o", "x.csv", "-q")
    assert (tmp_path / "x.csv").read_text() == found.table("csv")


def test_pictures_of_a_benchmark_are_shown_only_where_they_are_asked_for(tmp_path: Path) -> None:
    image_folder(tmp_path / "old", ("art_painting", "cartoon", "photo", "sketch"))
    (tmp_path / "new").mkdir()
    (tmp_path / "old" / "sketch").rename(tmp_path / "new" / "sketch")
    short = {"steps": 1, "evaluate_every": 1, "batch": 8, "set": {"lr": 1e-6}}
    model = dw.fit(dw.folders(tmp_path / "old", size=10), "erm", output=tmp_path / "model", **short)
    found = model.evaluate(tmp_path / "new")
    assert found.answers[0].mistakes(1)
    page = found.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "data:image/jpeg" not in page
    assert "only where they are asked for: --pictures" in page
    assert "data:image/jpeg" in found.report(tmp_path / "page.html", pictures=True).read_text(encoding="utf-8")


def test_images_that_the_model_was_made_from_are_counted_or_told_by_the_names_of_domains(
    photos: Path, model: Path, tmp_path: Path
) -> None:
    assert "the model was made from 24 of these 24 images" in dw.load(model).evaluate(photos).notes[-1]
    folder = shutil.copytree(model, tmp_path / "model")
    for name in (CARD, MADE_FROM):
        (folder / "best" / name).unlink()
    assert "trained on domains of these names (art, photo)" in dw.load(folder).evaluate(photos).notes[-1]
    shutil.copytree(photos / "art", tmp_path / "in" / "elsewhere")
    assert dw.load(folder).evaluate(tmp_path / "in").notes == ()


def test_a_table_of_numbers_is_evaluated_too(tmp_path: Path) -> None:
    random = np.random.RandomState(0)
    rows = {name: (random.randn(20, 3), random.randint(0, 2, 20)) for name in "ab"}
    model = dw.fit(dw.domains(rows), "erm", output=tmp_path, **SHORT)
    found = model.evaluate(rows)
    assert "made from 40 of these 40 images" in found.notes[-1]
    assert [len(one) for one in found.answers] == [20, 20]
    assert "data:image" not in found.report(tmp_path / "page.html").read_text(encoding="utf-8")
