from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from made_data import image_folder, stripes

import domainwise as dw
from domainwise.data.sources.open import open_data
from domainwise.files import lock_trial

DATA = stripes()
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "out"
    dw.compare(DATA, "erm", targets="c", seeds=2, steps=4, evaluate_every=2, snapshots=1, output=folder)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "out")
    return tmp_path / "out"


def first(folder: Path) -> Path:
    return sorted((folder / "trials").iterdir())[0]


def test_a_whole_folder_is_said_to_be_whole(folder: Path, domainwise: Command) -> None:
    assert repr(dw.check(folder)) == f"<{folder}: 2 trials, 4 models; nothing is damaged>"
    assert domainwise("check", folder) == (0, f"{folder}: 2 trials, 4 models; nothing is damaged\n", "")
    assert repr(dw.check(first(folder))).endswith("1 trial, 2 models; nothing is damaged>")
    assert repr(dw.check(first(folder) / "best")).endswith("1 model; nothing is damaged>")


def test_each_damage_is_named_and_the_exit_code_tells(folder: Path, domainwise: Command) -> None:
    (first(folder) / "best" / "model.safetensors").write_bytes(b"")
    (folder / "plan.json").write_text("{")
    (folder / "auto.json").write_text("{")
    code, out, err = domainwise("check", folder)
    assert code == 1
    assert "auto.json is damaged" in out
    assert "model.safetensors has changed since it was written: it has 0 bytes and had" in out
    assert "plan.json is damaged" in out
    assert "3 damaged" in out
    assert f"domainwise check {folder} --repair mends" in err
    assert len(dw.check(folder).damaged) == 3


def test_a_repair_says_what_it_did_and_leaves_models_where_they_are(folder: Path, domainwise: Command) -> None:
    home = first(folder)
    weights = (home / "best" / "model.safetensors").read_bytes()
    (home / "records.jsonl").write_text("")
    (home / "trial.json").write_text("")
    (folder / "domainwise.json").unlink()
    code, out, _ = domainwise("check", folder, "--repair")
    assert code == 0
    assert "the command that made it runs it again; its models stay until then (best, 3)" in out
    assert "trial.json is damaged: it is no longer JSON" in out
    assert "written again, as the saved model of the trial has it" in out
    assert "written again, from what the trials say of their data" in out
    assert not (home / "result.json").exists()
    assert (home / "best" / "model.safetensors").read_bytes() == weights
    mark = json.loads((folder / "domainwise.json").read_text())
    assert mark["data"] == {"stripes": DATA.fingerprint}
    assert mark["classes"] == {"stripes": ["low", "high"]}
    again = dw.compare(DATA, "erm", targets="c", seeds=2, steps=4, evaluate_every=2, snapshots=1, output=folder)
    assert [outcome.result["status"] for outcome in again.outcomes] == ["finished", "finished"]
    assert not dw.check(folder).findings


def test_what_a_kill_has_left_is_no_damage_and_goes_away(folder: Path) -> None:
    home = first(folder)
    left = [home / ".lock", home / "evaluations.jsonl", home / "checkpoint-00000004", home / ".result.json.4194305.1"]
    for path in left:
        path.mkdir() if "checkpoint" in path.name else path.touch()
    found = dw.check(folder)
    assert (len(found.findings), found.damaged) == (4, [])
    assert len(dw.check(folder, repair=True).mended) == 4
    assert not any(path.exists() for path in left)


def test_a_trial_that_somebody_is_at_is_left_alone(folder: Path) -> None:
    home = first(folder)
    (home / "result.json").write_text("")
    with lock_trial(home, print):
        assert not dw.check(folder, repair=True).findings
    assert dw.check(folder).damaged


def test_a_model_that_was_taken_away_is_no_damage_and_half_of_one_is(folder: Path) -> None:
    shutil.rmtree(first(folder) / "best")
    assert not dw.check(folder).findings
    (first(folder) / "snapshots" / "3" / "config.json").unlink()
    (finding,) = dw.check(folder).damaged
    assert "config.json is missing" in finding.problem


def test_a_lone_model_cannot_be_made_again(folder: Path, domainwise: Command) -> None:
    lone = folder.parent / "lone"
    shutil.copytree(first(folder) / "best", lone)
    content = (lone / "model.safetensors").read_bytes()
    (lone / "model.safetensors").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    code, out, err = domainwise("check", lone, "--repair")
    assert (code, err) == (1, "")
    assert "model.safetensors has changed since it was written" in out


def test_a_damaged_cache_is_found_and_decoded_again(tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos")
    cache = tmp_path / "cache"
    open_data(str(photos), size=8, cache=cache)
    assert not dw.check(cache).findings
    (entry,) = [path for path in cache.iterdir() if path.name.startswith("photos")]
    (entry / "labels.npy").write_bytes(b"")
    (finding,) = dw.check(cache, repair=True).mended
    assert "the images are decoded again when they are needed" in str(finding)
    assert not entry.exists()


def test_a_folder_of_others_is_a_sentence(tmp_path: Path, domainwise: Command) -> None:
    code, _, err = domainwise("check", tmp_path)
    assert code == 2
    assert "holds nothing that domainwise has made" in err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in folders here")
@pytest.mark.timeout(20)
def test_a_pipe_in_the_place_of_a_file_is_damage_and_is_not_waited_for(folder: Path, domainwise: Command) -> None:
    home = first(folder)
    for path in (folder / "domainwise.json", folder / "plan.json", home / "trial.json", home / "result.json"):
        content = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        assert [str(one) for one in dw.check(folder).damaged] == [
            f"{path} is damaged: there is a pipe or a device in its place"
        ]
        assert domainwise("status", folder)[0] == domainwise("report", folder)[0] == 0
        path.unlink()
        path.write_bytes(content)
    (home / "result.json").unlink()
    (home / "result.json").symlink_to("/dev/zero")
    for name in ("records.jsonl", ".lock"):
        (home / name).unlink(missing_ok=True)
        os.mkfifo(home / name)
    assert not dw.check(folder, repair=True).damaged
    dw.compare(DATA, "erm", targets="c", seeds=2, steps=4, evaluate_every=2, snapshots=1, output=folder)
    assert dw.check(folder).findings == ()
