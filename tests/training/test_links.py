"""A folder that means harm has links in it where a trial writes: what they lead to stays as it is."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from made_trials import Killed, die, remains, run, trial

from domainwise import files
from domainwise.experiment import records
from domainwise.training.checkpoint_files import load, save, saved


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trial that was killed after 13 updates, with checkpoints after 5 and 10."""
    folder = tmp_path_factory.mktemp("killed") / "trial"
    with pytest.raises(Killed):
        run(trial(), folder, at=13, then=die)
    return folder


@pytest.fixture(scope="module")
def whole(killed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("whole") / "trial"
    shutil.copytree(killed, folder)
    run(trial(), folder)
    return remains(folder)


@pytest.fixture
def begun(killed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(killed, tmp_path / "trial"))


def lead_away(path: Path, victim: Path) -> Path:
    """The same content, elsewhere, behind a link."""
    path.rename(victim)
    path.symlink_to(victim)
    return victim


@pytest.mark.parametrize("name", ["records.jsonl", "evaluations.jsonl"])
def test_a_trial_that_goes_on_writes_through_no_link(
    name: str, begun: Path, whole: dict[str, object], tmp_path: Path
) -> None:
    victim = lead_away(begun / name, tmp_path / "victim")
    before = victim.read_bytes()
    assert run(trial(), begun) == [
        f"{begun / name} was a link, which is gone: what it leads to stays as it is",
        "resumes at step 10",
    ]
    assert victim.read_bytes() == before
    assert remains(begun) == whole


@pytest.mark.parametrize("absolute", [False, True])
def test_a_checkpoint_cannot_have_another_file_cut(begun: Path, tmp_path: Path, absolute: bool) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    name = str(victim) if absolute else "../victim"
    for path in saved(begun):
        found = load(path)
        about = {key: {**found.about[key], name: other} for key, other in
                 (("journals", 0), ("hashes", hashlib.sha256().hexdigest()))}  # fmt: skip
        save(begun, found.step, found.state, {**found.about, **about})
    run(trial(), begun)
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("name", ["best", "snapshots", "snapshots/19", "again"])
def test_a_model_is_saved_and_taken_through_no_link(name: str, begun: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    run(trial(seed=1), victim)  # somebody's trial, with a model of its own
    if name in ("best", "snapshots", "snapshots/19"):
        victim = victim / name
    before = {path: path.read_bytes() for path in victim.rglob("*") if path.is_file()}
    shutil.rmtree(begun / name, ignore_errors=True)
    (begun / name).parent.mkdir(exist_ok=True)
    (begun / name).symlink_to(victim)
    run(trial(), begun)
    assert {path: path.read_bytes() for path in victim.rglob("*") if path.is_file()} == before
    assert (begun / "best" / "config.json").is_file()
    assert not (begun / name).is_symlink()


def writes_json(path: Path) -> None:
    records.publish(path, {"a": 1})


def writes_once(path: Path) -> None:
    records.publish_once(path, {"a": 1})


def writes_text(path: Path) -> None:
    with files.replacing_text(path) as file:
        file.write("a")


@pytest.mark.parametrize("write", [writes_json, writes_once, writes_text])
def test_no_temporary_file_is_written_through_a_link(write: Callable[[Path], None], tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    planted = tmp_path / f".a.json.{os.getpid()}.{threading.get_ident()}"
    planted.symlink_to(victim)
    write(tmp_path / "a.json")
    assert victim.read_text() == "mine"
    assert "a" in (tmp_path / "a.json").read_text()
    assert not planted.is_symlink()


def test_nothing_is_appended_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    with files.open_to_append(tmp_path / "link") as file:
        file.write("a")
    assert (tmp_path / "link").read_text() == "a"
    assert not (tmp_path / "victim").exists()
