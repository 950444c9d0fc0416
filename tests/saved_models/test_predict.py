"""A model says of image files what it says of the data that is made of them."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_data import image_folder, stripes
from made_images import decode
from PIL import Image
from safetensors.torch import save_file

import domainwise as dw
from domainwise.data.decoded.image import pillow_warnings
from domainwise.data.sources.digits import digits
from domainwise.data.sources.folders import images_in
from domainwise.data.sources.open import open_data
from domainwise.data.splits import split
from domainwise.experiment.records import read
from domainwise.files import replacing_text
from domainwise.saved_models.card import CARD, MADE_FROM
from domainwise.saved_models.predict import Prediction, Tally, as_csv, as_json

Command = Callable[..., tuple[int, str, str]]  # the command line, in an empty folder
SHORT: dict[str, Any] = {"steps": 6, "evaluate_every": 3, "batch": 8}
STRANGE = ("a,b.png", 'quote".png', "two\nlines.png", "return\r.png", "ünï çø 猫.png", " space .png", "=1+1.png")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noise of many sizes and kinds, so that whatever else is done to an image shows."""
    root = tmp_path_factory.mktemp("photos")
    random = np.random.default_rng(0)
    for domain in ("art", "photo"):
        for label, kind in enumerate(("cat", "dog")):
            (root / domain / kind / "deeper").mkdir(parents=True)
            for i in range(15):
                height, width = random.integers(9, 40, 2)
                pixels = random.integers(0, 160, (height, width, 4), np.uint8)
                pixels[:, : width // 2, :3] += np.uint8(60 * label)
                _save(Image.fromarray(pixels), root / domain / kind / ("deeper" if i % 4 == 0 else ""), i)
    return root


def _save(image: Image.Image, folder: Path, i: int) -> None:
    suffix, mode = (("png", "RGBA"), ("BMP", "L"), ("jpg", "RGB"), ("tif", "P"), ("webp", "RGB"))[i % 5]
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter
    image.convert(mode).save(folder / f"{i}.{suffix}", **({"exif": exif} if suffix == "jpg" else {}))


@pytest.fixture(scope="module")
def model(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained on images that are cropped from larger ones than it is evaluated on."""
    data = open_data(str(photos), train_size=20, eval_size=16)
    folder = tmp_path_factory.mktemp("models") / "model"
    dw.fit(data, "erm", output=folder, augment="domainbed", validation="plain", **SHORT)
    return folder


def test_it_agrees_with_the_evaluation_that_the_training_wrote_down(photos: Path, model: Path) -> None:
    loaded = dw.load(model)
    (record,) = (one for one in read(model / "records.jsonl") if one["step"] == loaded.config["step"])
    for position, domain in enumerate(("art", "photo")):
        found = sorted(loaded.predict_files(photos / domain), key=_as_data_is_ordered)
        _, holdout = split(len(found), 0.2, 0, position)
        kinds = [_kind(found[i]) for i in holdout]
        written = record["domains"][domain]["holdout"]
        assert written["count"] == len(kinds)
        assert np.mean([found[i].class_name for i in holdout] == np.array(kinds)) == pytest.approx(written["accuracy"])
        rows = [found[i].probabilities[loaded.classes.index(kind)] for i, kind in zip(holdout, kinds, strict=True)]
        assert -np.log(rows).mean() == pytest.approx(written["loss"], rel=1e-5)


def _kind(one: Prediction) -> str:
    return next(part for part in Path(one.file).parts if part in ("cat", "dog"))


def _as_data_is_ordered(one: Prediction) -> tuple[str, str]:
    return os.path.split(one.file)  # the images of a class before those of its folders


def test_an_image_is_what_the_data_reader_makes_of_it(photos: Path, model: Path) -> None:
    loaded = dw.load(model)
    found = list(loaded.predict_files(photos))
    assert len(found) == 60
    assert len({Path(one.file).suffix for one in found}) == 5
    with pillow_warnings():
        images = [decode(Path(one.file).read_bytes(), 16) for one in found]
    np.testing.assert_allclose([one.probabilities for one in found], loaded.probabilities(np.stack(images)), rtol=1e-5)
    assert [one.class_name for one in found] == loaded.predict(np.stack(images))
    for one in found:
        assert one.probability == one.probabilities.max()


def test_more_images_than_are_taken_at_once_keep_their_order(photos: Path, model: Path, tmp_path: Path) -> None:
    several = images_in([photos])
    for i in range(600):
        if i in (3, 256, 511):
            (tmp_path / f"{i:03}.png").touch()
        else:
            (tmp_path / f"{i:03}.png").symlink_to(several[i % 60])
    loaded = dw.load(model)
    once = list(loaded.predict_files(photos))
    found = list(loaded.predict_files(tmp_path))
    assert [one.file for one in found] == [str(tmp_path / f"{i:03}.png") for i in range(600)]
    for i, one in enumerate(found):
        assert one.problem == ("it is empty" if i in (3, 256, 511) else "")
        assert one.problem or one.probability == pytest.approx(once[i % 60].probability, rel=1e-4)


def test_a_model_for_one_channel_gets_grey_images(tmp_path: Path) -> None:
    data = digits()
    loaded = dw.fit(data, "erm", output=tmp_path / "model", **SHORT)
    images = data["15"].images[:20]
    for i, image in enumerate(images):
        grey = Image.fromarray(image[..., 0])
        (grey if i % 2 else grey.convert("RGB")).save(tmp_path / f"{i:02}.png")
    found = list(loaded.predict_files(tmp_path))
    np.testing.assert_allclose([one.probabilities for one in found], loaded.probabilities(images), rtol=1e-5)


def test_channels_that_no_file_has_are_a_sentence(tmp_path: Path) -> None:
    arrays = {d.name: (np.repeat(d.images, 2, axis=-1), d.labels) for d in stripes("ab")}
    loaded = dw.fit(dw.domains(arrays), "erm", output=tmp_path / "model", **SHORT)
    Image.new("RGB", (8, 8)).save(tmp_path / "0.png")
    with pytest.raises(dw.InputError, match="takes images of 2 channels"):
        loaded.predict_files(tmp_path / "0.png")


def test_files_are_found_once_in_order_and_however_deep(tmp_path: Path) -> None:
    names = ["b.png", "a.JPG", "z/c/d.webp", "z/a.bmp", ".hidden.png", ".hidden/e.png", "notes.txt", "loose.dat"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "z" / "back").symlink_to(tmp_path)
    found = images_in([tmp_path / "b.png", tmp_path, tmp_path / "z" / ".." / "a.JPG", tmp_path / "loose.dat"])
    expected = ["b.png", "a.JPG", "z/a.bmp", "z/c/d.webp", "loose.dat"]
    assert [Path(path).relative_to(tmp_path).as_posix() for path in found] == expected


def test_any_name_comes_back_from_csv_and_json(tmp_path: Path) -> None:
    row = np.array([0.25, 0.75], np.float32)
    made = [Prediction(name, "dog, or", 0.75, probabilities=row) for name in STRANGE]
    made.append(Prediction("broken.png", problem='it is "odd"'))
    classes = ("cat", "dog, or")
    for lines in (as_csv, as_json):
        with replacing_text(tmp_path / lines.__name__) as file:
            file.writelines(lines(made, classes))
    with (tmp_path / "as_csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [one["file"] for one in rows] == [*STRANGE[:-1], f"./{STRANGE[-1]}", "broken.png"]  # no formula
    assert [one["class"] for one in rows] == ["dog, or"] * len(STRANGE) + [""]
    assert [one["probability cat"] for one in rows] == ["0.25"] * len(STRANGE) + [""]
    assert rows[0]["probability dog, or"] == rows[0]["probability"] == "0.75"
    table = json.loads((tmp_path / "as_json").read_text(encoding="utf-8"))
    assert [one["file"] for one in table] == [*STRANGE, "broken.png"]
    assert table[0]["probabilities"] == {"cat": 0.25, "dog, or": 0.75}
    assert (table[-1]["class"], table[-1]["probabilities"], table[-1]["problem"]) == (None, None, 'it is "odd"')


def test_a_name_that_is_no_unicode_spoils_no_file(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.png")
    for lines in (as_csv, as_json):
        with replacing_text(tmp_path / "file") as file:
            file.writelines(lines([Prediction(name, "dog", 0.5)]))
        text = (tmp_path / "file").read_text(encoding="utf-8")
        assert "caf\\udce9.png" in text
    assert json.loads(text)[0]["file"] == name


def test_what_breaks_off_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "predictions.csv"
    file.write_text("before")

    def lines() -> Iterator[str]:
        yield "half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), replacing_text(file) as written:
        written.writelines(lines())
    assert file.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["predictions.csv"]


def outside(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "domainwise", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def test_from_outside_photos_become_a_model_and_new_ones_a_table(tmp_path: Path) -> None:
    image_folder(tmp_path / "photos", ("day", "dusk"), count=8)
    for kind in ("cat", "dog"):
        (tmp_path / "new" / kind).mkdir(parents=True)
        (tmp_path / "photos" / "day" / kind / "0.png").rename(tmp_path / "new" / kind / STRANGE[2])
    end = outside("fit", "--data", "photos", "--steps", 20, "--size", 16, "-o", "my model", "-q", cwd=tmp_path)
    assert end.returncode == 0, end.stderr
    assert "domainwise predict 'my model' IMAGES... -o predictions.csv" in end.stdout
    end = outside("predict", "my model", "new", "-o", "out/predictions.csv", cwd=tmp_path)
    assert (end.returncode, end.stdout) == (0, ""), end.stderr
    with (tmp_path / "out" / "predictions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [one["file"] for one in rows] == [f"new/{kind}/{STRANGE[2]}" for kind in ("cat", "dog")]
    right = sum(one["class"] in one["file"] for one in rows)
    assert f"right, by the names of their folders: {right} of 2" in end.stderr
    assert end.stderr.startswith("2 images: ")


@pytest.mark.parametrize(
    ("place", "domains", "unseen", "said"),
    [
        ("day", ("day", "night"), (), "2 lie in folders called like domains it was trained on (day): being right on"),
        ("day", ("day", "night"), ("day",), "all lie in folders called like domains it was not trained on (day)"),
        ("new", ("day", "night"), (), "if the model was trained on these, under other names, mind that being right on"),
        ("day", None, (), "if these are from photos, which the model was trained on, mind that being right on"),
    ],
)
def test_a_share_of_right_ones_says_what_it_is_worth(place: str, domains, unseen, said: str) -> None:
    tally = Tally(("cat", "dog"), domains, unseen, "photos")
    list(tally.watch([Prediction(f"x/{place}/cat/0.png", "cat", 0.9), Prediction(f"x/{place}/dog/0.png", "cat", 0.9)]))
    right, worth = tally.summary[1:]
    assert right.endswith("1 of 2, 50.0%")
    assert worth.startswith(said)


def test_a_model_knows_the_domains_it_was_trained_on(domainwise: Command, photos: Path, model: Path) -> None:
    art = sorted((photos / "art").glob("*/*.*"))[:3]
    assert "the model was made from 3 of these 3 images" in domainwise("predict", model, *art)[2]
    for name in (CARD, MADE_FROM):  # as a model of an earlier version has none
        (model / "best" / name).unlink()
    assert "3 lie in folders called like domains it was trained on (art)" in domainwise("predict", model, *art)[2]


def test_the_three_forms_say_the_same(domainwise: Command, photos: Path, model: Path) -> None:
    code, table, err = domainwise("predict", model, photos)
    assert code == 0
    assert "60 images: " in err
    assert "right," not in err  # some lie deeper than in a folder of their class
    rows = json.loads(domainwise("predict", model, photos, "--format", "json", "--probabilities")[1])
    same = list(csv.DictReader(domainwise("predict", model, photos, "--format", "csv", "-q")[1].splitlines()))
    assert [one["file"] for one in rows] == [one["file"] for one in same]
    assert [one["probability"] for one in rows] == pytest.approx([float(one["probability"]) for one in same])
    seen = [line.split() for line in table.splitlines()[1:]]
    assert [line[:2] for line in seen] == [[one["file"], one["class"]] for one in rows]
    assert [float(line[2]) / 100 for line in seen] == pytest.approx([one["probability"] for one in rows], abs=6e-4)
    for one in rows:
        assert one["probabilities"][one["class"]] == one["probability"]
        assert sum(one["probabilities"].values()) == pytest.approx(1)


def test_an_image_that_cannot_be_read_costs_its_own_row_only(
    domainwise: Command, photos: Path, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "broken.png").write_bytes(b"no image")
    (tmp_path / "lost.png").symlink_to("nowhere")
    good = images_in([photos])[0]
    code, out, err = domainwise("predict", model, tmp_path, good, "--format", "json", "-q")
    assert code == 1
    broken, lost, fine = json.loads(out)
    assert (broken["class"], broken["problem"]) == (None, "it is not an image of a known kind")
    assert (lost["class"], lost["problem"]) == (None, "it is not a regular file, or a link to none")
    assert fine["class"] in ("cat", "dog")
    assert err.startswith("domainwise: 2 of 3 files cannot be read as images, the first of them")
    assert "broken.png" in err
    table = domainwise("predict", model, tmp_path / "broken.png", "-o", "p.csv")
    assert table[0] == 1
    assert "it is not an image of a known kind" in (tmp_path / "p.csv").read_text()


def test_averaged_weights_are_taken_where_they_were_asked_for_and_others_can_be_chosen(
    domainwise: Command, photos: Path, tmp_path: Path
) -> None:
    data = open_data(str(photos), size=16)
    loaded = dw.fit(data, "erm", average="ema(decay=0.9)", output=tmp_path / "model", **SHORT)
    expected = [one.probability for one in loaded.predict_files(photos)]
    for which in ((), ("--which", "best-average"), ("--which", "ema")):
        found = json.loads(domainwise("predict", "model", photos, *which, "--format", "json")[1])
        assert [one["probability"] for one in found] == pytest.approx(expected, rel=1e-5)
    for plain in (("model/best", photos), ("model", photos, "--which", "best")):
        found = json.loads(domainwise("predict", *plain, "--format", "json")[1])
        assert [one["probability"] for one in found] != pytest.approx(expected, rel=1e-5)


def test_what_cannot_be_done_is_a_sentence(domainwise: Command, model: Path, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other" / "best").mkdir(parents=True)
    (tmp_path / "other" / "best" / "config.json").write_text('{"architectures": ["Bert"]}')
    (tmp_path / "mine.csv").write_text("path,domain,label\n")
    (tmp_path / "longer.csv").write_text("file,class,probability,problem,what I think\n")
    for words, sentence in {
        (model, "empty"): 'there are no images in "empty"',
        (model, "nowhere"): 'there is no file or folder "nowhere"',
        ("empty", photos): "empty has no saved model",
        ("other", photos): "no model that this version of domainwise can read",
        (model, photos, "-o", "empty"): "empty is a folder",
        (model, photos, "-o", "p.txt"): 'let "p.txt" end in .csv or .json',
        (model, photos, "-o", "p.csv", "--format", "json"): '"p.csv" would be CSV and not --format json',
        (model, photos, "-o", "p.csv", "--format", "table"): '"p.csv" would be CSV and not --format table',
        (model, photos, "-o", "mine.csv"): '"mine.csv" holds something that was not made here',
        (model, photos, "-o", "longer.csv"): '"longer.csv" holds something that was not made here',
        (model, photos, "-o", "mine.csv/p.csv"): "cannot write",
        (model, photos, "--which", "best-average"): "kept its best-average one",
        (model / "best", photos, "--which", "best-average"): "has no averaged weights",
        (model, photos, "--which", "swad"): 'model has no model of "swad": ask for one of "best"',
        (model, photos, "--device", "mps"): 'does not run on "mps"',
    }.items():
        code, out, err = domainwise("predict", *words)
        assert (code, out) == (2, ""), words
        assert sentence in err
    assert (tmp_path / "mine.csv").read_text() == "path,domain,label\n"


def test_predictions_may_be_replaced_by_predictions(domainwise: Command, model: Path, photos: Path) -> None:
    for name in ("p.csv", "p.json"):
        assert domainwise("predict", model, photos, "-o", name)[0] == 0
        before = Path(name).read_text()
        assert domainwise("predict", model, photos / "art", "-o", name, "-q") == (0, "", "")
        assert 0 < len(Path(name).read_text()) < len(before)


def test_weights_that_are_damaged_are_a_sentence(model: Path, tmp_path: Path) -> None:
    config = json.loads((model / "best" / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(dw.InputError, match="is missing"):
        dw.load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"short")
    with pytest.raises(dw.InputError, match=r"has changed since it was written: it has 5 bytes and had \d+"):
        dw.load(tmp_path)
    of_an_earlier_version = {name: config[name] for name in config.keys() - {"files", "checksum"}}
    (tmp_path / "config.json").write_text(json.dumps(of_an_earlier_version))
    (tmp_path / "model.safetensors").write_bytes(b"short")
    with pytest.raises(dw.InputError, match="cannot be read"):
        dw.load(tmp_path)
    save_file({"another": torch.zeros(3)}, tmp_path / "model.safetensors")
    with pytest.raises(dw.InputError, match="do not fit the network"):
        dw.load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"trial": dw.load(model).config["trial"]}))
    with pytest.raises(dw.InputError, match="no model that this version of domainwise can read"):
        dw.load(tmp_path)


NET = """
from torch import nn


def build(channels, classes):
    return nn.Sequential(nn.Conv2d(channels, 4, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
"""


def test_what_fit_says_of_a_network_of_ones_own_is_how_its_model_is_used(domainwise: Command, photos: Path) -> None:
    Path("my_net.py").write_text(NET)
    given = ("--network", "my_net.py:build", "--steps", "4", "--size", "16", "-o", "m", "-q")
    code, out, _ = domainwise("fit", "--data", photos, *given)
    assert code == 0
    assert "domainwise.load('m', trust_code=True).predict(images)" in out
    assert "domainwise predict m --trust-code IMAGES... -o predictions.csv" in out
    assert domainwise("predict", "m", photos, "-q", "--trust-code")[2] == ""
    assert domainwise("predict", "m", photos, "-q")[0] == 2


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_json_is_json_in_every_encoding(encoding: str, domainwise: Command, model: Path, tmp_path: Path) -> None:
    (tmp_path / "dög 😀").mkdir()
    (tmp_path / "dög 😀" / "a.png").write_bytes(_png())
    out = io.TextIOWrapper(io.BytesIO(), encoding)
    with contextlib.redirect_stdout(out):
        assert domainwise("predict", model, tmp_path / "dög 😀", "--format", "json", "-q")[0] == 0
    out.flush()
    assert json.loads(out.buffer.getvalue())[0]["file"] == str(tmp_path / "dög 😀" / "a.png")


def test_a_link_that_leads_nowhere_costs_its_row_alone(domainwise: Command, model: Path) -> None:
    Path("a.png").write_bytes(_png())
    Path("b.png").symlink_to("nowhere.png")
    code, out, err = domainwise("predict", model, "a.png", "b.png", "--format", "csv")
    assert (code, len(out.splitlines())) == (1, 3)
    assert '1 of 2 files cannot be read as images, the first of them "b.png"' in err


def _png() -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (20, 20), (200, 30, 30)).save(content, "PNG")
    return content.getvalue()


def test_the_class_of_a_prediction_goes_by_its_old_name_too_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="kind is called class_name now"):
        assert Prediction("a.png", "cat").kind == "cat"
