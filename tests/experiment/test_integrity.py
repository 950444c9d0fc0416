from __future__ import annotations

import json
import os
import shutil
import warnings
from pathlib import Path

import pytest
import torch
from made_data import stripes
from made_seals import reseal
from PIL import Image
from safetensors.torch import load_file, save_file

import domainwise as dw
from domainwise.api import Results
from domainwise.errors import Note
from domainwise.experiment.integrity import Damaged, Unreadable, read, sealed
from domainwise.experiment.results import listing, outcomes

DATA = stripes()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two trials, with a model each."""
    folder = tmp_path_factory.mktemp("made") / "out"
    dw.compare(DATA, "erm", targets="c", seeds=2, steps=6, evaluate_every=3, output=folder)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "out")
    return tmp_path / "out"


def one(folder: Path) -> Path:
    return outcomes(folder)[0].folder


def flip_a_digit(path: Path) -> None:
    """Another number, as long as before, in a file that seems as old as before."""
    text, stamp = path.read_text(), path.stat()
    at = next(i for i in range(len(text) // 3, len(text)) if text[i].isdigit() and text[i - 1] == ".")
    path.write_text(text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :])

    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert path.stat().st_size == stamp.st_size


@pytest.mark.parametrize("name", ["result.json", "records.jsonl", "counts.json"])
def test_a_changed_digit_takes_its_trial_out_and_no_other(folder: Path, name: str) -> None:
    before = {outcome.folder: outcome.result for outcome in outcomes(folder)}
    home = one(folder)
    if name == "counts.json":
        (home / name).write_text((home / name).read_text().replace("1", "2", 1))
    else:
        flip_a_digit(home / name)
    with pytest.warns(Note, match=rf"1 of 2 trials is damaged.*{name} has changed since it was written"):
        found = Results.open(folder).outcomes
    assert {outcome.folder: outcome.result["status"] for outcome in found} == {
        path: "damaged" if path == home else "finished" for path in before
    }
    assert [outcome.result for outcome in found if outcome.folder != home] == [
        result for path, result in before.items() if path != home
    ]
    assert [outcome.records() for outcome in found if outcome.folder == home] == [[]]


def test_retrying_mends_what_is_damaged_with_the_same_numbers(folder: Path) -> None:
    before = dw.compare(DATA, "erm", targets="c", seeds=2, steps=6, evaluate_every=3, output=folder).table()
    (one(folder) / "records.jsonl").write_text("")
    again = {"targets": "c", "seeds": 2, "steps": 6, "evaluate_every": 3, "output": folder}
    with pytest.warns(Note, match="erm: 1 damaged, the first on c with seed 0"):
        left_out = dw.compare(DATA, "erm", **again)
    assert [outcome.result["status"] for outcome in left_out.outcomes] == ["damaged", "finished"]
    assert "1 of 2 damaged" in left_out.table()
    assert dw.compare(DATA, "erm", **again, retry_failed=True).table() == before


def test_lost_settings_come_back_from_the_saved_model(folder: Path) -> None:
    home = one(folder)
    settings, stamp = (home / "trial.json").read_text(), (home / "result.json").stat().st_mtime_ns
    (home / "trial.json").write_text("[]")
    assert list(listing(folder).unknown) == [home.name]
    dw.compare(DATA, "erm", targets="c", seeds=2, steps=6, evaluate_every=3, output=folder, retry_failed=True)
    assert (home / "trial.json").read_text() == settings
    assert (home / "result.json").stat().st_mtime_ns == stamp  # it was not run again


def test_a_folder_without_its_mark_is_still_ours(folder: Path) -> None:
    mark = json.loads((folder / "domainwise.json").read_text())
    (folder / "domainwise.json").unlink()
    other = {"targets": "c", "seeds": 1, "steps": 6, "output": folder}
    with (
        pytest.warns(Note, match=r"domainwise\.json is missing"),
        pytest.raises(dw.InputError, match="the images or labels have changed"),
    ):
        dw.compare(stripes(size=40), "erm", **other)
    with pytest.warns(Note, match="what the trials say of their data counts instead"):
        dw.compare(DATA, "erm", **other)
    assert json.loads((folder / "domainwise.json").read_text()) == mark


@pytest.mark.parametrize("damage", ["bit", "cut", "gone", "another", "config"])
def test_a_model_is_used_only_as_it_was_saved(folder: Path, damage: str) -> None:
    home = one(folder) / "best"
    weights, config = home / "model.safetensors", home / "config.json"
    content = weights.read_bytes()
    if damage == "bit":
        weights.write_bytes(content[:-9] + bytes([content[-9] ^ 64]) + content[-8:])
    elif damage == "cut":
        weights.write_bytes(content[:-3])
    elif damage == "gone":
        weights.unlink()
    elif damage == "another":
        save_file({name: 1.5 * tensor for name, tensor in load_file(weights).items()}, weights)
    else:
        config.write_text(config.read_text().replace("low", "lol"))
    with pytest.raises(Damaged, match="has changed since it was written" if damage != "gone" else "is missing"):
        dw.load(home.parent)


def of_an_earlier_version(path: Path) -> None:
    content = json.loads(path.read_text())
    path.write_text(json.dumps({name: content[name] for name in content.keys() - {"files", "checksum"}}))


def test_weights_that_are_no_numbers_name_no_class(folder: Path) -> None:
    home = one(folder) / "best"
    of_an_earlier_version(home / "config.json")
    assert dw.load(home).predict(DATA["a"].images[:1])
    weights = {name: tensor * torch.nan for name, tensor in load_file(home / "model.safetensors").items()}
    save_file(weights, home / "model.safetensors")
    with pytest.raises(dw.InputError, match="not finite numbers"):
        dw.load(home)


def test_results_of_an_earlier_version_are_read_and_said_to_have_no_hashes(folder: Path) -> None:
    table = Results.open(folder).table()
    for path in folder.glob("trials/*/*.json"):
        of_an_earlier_version(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert Results.open(folder).table() == table
    (said,) = caught
    assert "2 of 2 trials are of an earlier version, which kept no hashes" in str(said.message)


def test_a_command_says_once_that_models_have_no_hashes(folder: Path, domainwise) -> None:
    for path in folder.glob("trials/*/best/config.json"):
        of_an_earlier_version(path)
    models = [path.parent for path in folder.glob("trials/*/best/config.json")]
    Image.fromarray(DATA["a"].images[0][..., 0]).save("one.png")
    for model in models:
        code, out, err = domainwise("predict", model, "one.png", "--quiet")
        assert (code, "one.png" in out) == (0, True)
        assert err.count("which kept no hashes") == 1


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"status": "done"}, "status"),
        ({"selected": None}, "numbers"),
        ({"selected": {"step": 3, "target": "0.9", "targets": {}}}, "selected"),
        ({"last": []}, "last"),
        ({"averages": {"ma": 1}}, "averages"),
        ({"seconds": None}, "numbers"),
    ],
)
def test_a_result_that_makes_no_sense_is_damaged(folder: Path, change: dict, wrong: str) -> None:
    reseal(one(folder), **change)
    assert f"its {wrong} makes no sense" in outcomes(folder)[0].result["message"]


@pytest.mark.parametrize("text", ["", "[]", "null", "3", '"text"', "{", '{"a": 1', "[" * 100_000, "\udcff{}"])
def test_what_is_no_object_is_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "any.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(Damaged, match=r"any\.json is damaged: "):
        read(path)


def test_a_file_that_cannot_be_read_just_now_is_not_called_damaged(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "any.json"
    path.write_text(json.dumps(sealed({"a": [1, (2, 0.1)], "b": float("nan")})))
    assert read(path) == {"a": [1, [2, 0.1]], "b": None}

    def denied(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(Unreadable, match="cannot be read: Permission denied"):
        read(path)


@pytest.mark.parametrize(
    ("file", "path", "value"),
    [
        ("result.json", ("selected", "target"), 7.5),
        ("result.json", ("selected", "measures", "macro_f1"), []),
        ("trial.json", ("origins", "batch"), True),
        ("counts.json", ("model", "c", "main", "calibration", "correct"), 2.5),
        ("counts.json", ("model", "c", "main", "confusion"), [[1]]),
        ("records.jsonl", ("domains", "a", "holdout", "accuracy"), 10**400),
        ("records.jsonl", ("domains", "a", "holdout", "accuracy"), 1e9),
        ("records.jsonl", ("domains", "a"), {}),
    ],
)
def test_numbers_of_an_earlier_version_that_cannot_be_cost_one_trial(
    folder: Path, file: str, path: tuple[str, ...], value: object, domainwise
) -> None:
    for other in folder.glob("trials/*/*.json"):
        of_an_earlier_version(other)
    text = (one(folder) / file).read_text()
    content = [json.loads(line) for line in (text.splitlines() if file == "records.jsonl" else [text])]
    inner = content[0]
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    (one(folder) / file).write_text("".join(json.dumps(each) + "\n" for each in content))
    code, _, err = domainwise("report", folder)
    assert (code, f"{file} is damaged" in err) == (0, True)
    assert len(dw.check(folder).damaged) == 1


def test_a_check_says_what_has_no_hashes(folder: Path, domainwise) -> None:
    for path in folder.glob("trials/*/*.json"):
        of_an_earlier_version(path)
    code, _, err = domainwise("check", folder)
    assert (code, err.count("2 of 2 trials are of an earlier version, which kept no hashes")) == (0, 1)
