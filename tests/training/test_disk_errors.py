"""A disk that fails for a moment costs nothing that was saved; what was read and is damaged is noticed."""

from __future__ import annotations

import builtins
import errno
import io
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from made_trials import DATA, Killed, die, remains, run, trial

from domainwise import InputError, compare, files, files as locks, fit
from domainwise.algorithms import parse
from domainwise.experiment import integrity
from domainwise.experiment.settings import resolve
from domainwise.sweeps import claims
from domainwise.training.checkpoint_files import saved
from domainwise.training.plan import plan
from domainwise.training.run_options import RunOptions
from domainwise.training.run_trial import execute

MOMENTARY = (errno.EIO, errno.EACCES, errno.ESTALE, errno.EMFILE, errno.ENOMEM)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What an undisturbed trial leaves."""
    folder = tmp_path_factory.mktemp("whole")
    run(trial(), folder)
    return remains(folder)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trial that was killed after 13 updates, with checkpoints after 5 and 10."""
    folder = tmp_path_factory.mktemp("killed") / "trial"
    with pytest.raises(Killed):
        run(trial(), folder, at=13, then=die)
    return folder


@pytest.fixture
def begun(killed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(killed, tmp_path / "trial"))


def contents(folder: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    found.pop(".lock", None)
    return found


class Failing:
    """Every opening, listing and looking up below a folder, counted. One of them fails: at once, or when it is read."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path, number: int, late: bool) -> None:
        self.folder, self.number, self.late, self.calls = str(folder), number, late, list[str]()
        self.error = MOMENTARY[number % len(MOMENTARY)]
        for module, name in [(builtins, "open"), (io, "open"), (os, "open"), (os, "listdir"), (os, "scandir")]:
            patch.setattr(module, name, self.counted(name, getattr(module, name)))
        patch.setattr(os, "stat", self.counted("stat", os.stat))

    def counted(self, name: str, usual: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any = ".", *given: Any, **named: Any) -> Any:
            if isinstance(path, str | Path) and str(path).startswith(self.folder):
                self.calls.append(f"{name} {path}")
                if len(self.calls) == self.number:
                    if self.late and name == "open" and given[:1] == ("rb",):
                        return io.BufferedReader(Unreadable(path))
                    raise OSError(self.error, os.strerror(self.error))
            return usual(path, *given, **named)

        return call


class Unreadable(io.FileIO):
    def readinto(self, buffer: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def readall(self) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("late", [False, True])
def test_each_read_of_a_resume_may_fail_and_nothing_is_lost(
    begun: Path, whole: dict[str, object], monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """One after the other, until what fails is past the reading; then the error goes away."""
    before, number, failed = contents(begun), 0, 0
    while True:
        number += 1
        with monkeypatch.context() as patch:
            failing = Failing(patch, begun, number, late)
            said: list[str] = []
            with pytest.raises((InputError, Killed)) as error:
                execute(trial(), DATA, begun, RunOptions(snapshots=1, checkpoint_every=5), watch=stopping(said))
            if len(failing.calls) < number:
                break
        if error.type is InputError:
            assert "What was saved there stays" in str(error.value), failing.calls[number - 1]
            failed += 1
        assert contents(begun) == before, failing.calls[number - 1]
        assert not any("not used" in one or "beginning" in one for one in said), failing.calls[number - 1]
    assert failed >= 10
    assert run(trial(), begun) == ["resumes at step 10"]
    assert remains(begun) == whole


def stopping(said: list[str]) -> Callable[..., None]:
    """Hears what is said, and ends the trial with its first update."""

    def watch(_: object, event: dict[str, Any]) -> None:
        said.extend([event["note"]] if "note" in event else [])
        if "note" not in event:
            raise Killed

    return watch


def changed(path: Path, old: bytes, new: bytes, place: int = 0) -> None:
    content = path.read_bytes()
    at = -1
    for _ in range(place + 1):
        at = content.index(old, at + 1)
    path.write_bytes(content[:at] + new + content[at + len(old) :])


@pytest.mark.parametrize("name", ["evaluations.jsonl", "records.jsonl"])
def test_a_digit_changed_since_the_checkpoint_is_noticed(begun: Path, whole: dict[str, object], name: str) -> None:
    changed(begun / name, b'"accuracy": 0.', b'"accuracy": 9.')
    said = run(trial(), begun)
    assert [f"{name} has changed since the checkpoint" in one for one in said] == [True, True, False]
    assert said[-1] == "starts from the beginning: there is no other checkpoint"
    assert remains(begun) == whole


def test_one_changed_after_the_checkpoint_before_costs_only_the_newest(begun: Path, whole: dict[str, object]) -> None:
    second = (begun / "evaluations.jsonl").read_bytes().index(b"\n") + 20
    content = bytearray((begun / "evaluations.jsonl").read_bytes())
    content[second] ^= 1
    (begun / "evaluations.jsonl").write_bytes(content)
    said = run(trial(), begun)
    assert ["has changed since the checkpoint checkpoint-00000010 was written: it is not used" in said[0], said[1]] == [
        True,
        "resumes at step 5",
    ]
    assert remains(begun) == whole


def of_an_earlier_version(folder: Path) -> None:
    """Rewrite the checkpoints as they were before hashes of the journals were kept."""
    for path in saved(folder):
        content = json.loads((path / "state.json").read_text())
        del content["checksum"], content["about"]["hashes"]
        content = {"checksum": integrity.checksum(content), **content}
        (path / "state.json").write_text(json.dumps(content))


def test_a_checkpoint_without_hashes_goes_on_and_its_journals_must_agree(begun: Path, whole: dict[str, object]) -> None:
    again = Path(shutil.copytree(begun, begun.with_name("again")))
    for folder in (begun, again):
        of_an_earlier_version(folder)
    changed(begun / "evaluations.jsonl", b'"accuracy": 0.', b'"accuracy": 9.')
    assert "do not agree" in run(trial(), begun)[0]
    assert run(trial(), again) == ["resumes at step 10"]
    assert remains(begun) == remains(again) == whole


@pytest.mark.parametrize("earlier", [False, True])
def test_a_flipped_byte_in_the_evaluations_costs_time_and_not_the_trial(
    begun: Path, whole: dict[str, object], earlier: bool
) -> None:
    if earlier:
        of_an_earlier_version(begun)
    changed(begun / "evaluations.jsonl", b"{", b"\xff")
    run(trial(), begun)
    assert remains(begun) == whole


def test_a_result_that_cannot_be_read_just_now_is_not_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"targets": "c", "seeds": 1, "steps": 4, "output": tmp_path}
    (first,) = compare(DATA, "erm", **asked).outcomes
    before = (first.folder / "result.json").stat()
    stat, error = os.stat, OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    def stale(path: Any, *given: Any, **named: Any) -> os.stat_result:
        if str(path).endswith("result.json"):
            raise error
        return stat(path, *given, **named)

    with monkeypatch.context() as patch, suppress(InputError):
        patch.setattr(os, "stat", stale)
        compare(DATA, "erm", **asked)
    assert (first.folder / "result.json").stat() == before
    assert compare(DATA, "erm", **asked).outcomes == (first,)


def test_a_stopped_fit_is_not_begun_anew_where_it_cannot_be_read_just_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checkpoint says with how many snapshots it began; others are refused, also when it cannot be read."""
    (one,) = plan(DATA, parse("erm"), [()], [0], resolve(benchmark=DATA.name, device="cpu", given={"steps": 20}))
    with pytest.raises(Killed):
        run(one, tmp_path, at=10, then=die, snapshots=3)
    before = contents(tmp_path)
    with monkeypatch.context() as patch:
        read = Path.read_bytes

        def failing(path: Path) -> bytes:
            if path.name == "state.json":
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return read(path)

        patch.setattr(Path, "read_bytes", failing)
        with pytest.raises(InputError, match="cannot be read just now"):
            fit(DATA, "erm", steps=20, output=tmp_path, snapshots=2)
    assert contents(tmp_path) == before
    with pytest.raises(InputError, match="has not ended and can go on, with 3 snapshots"):
        fit(DATA, "erm", steps=20, output=tmp_path, snapshots=2)


def test_a_claim_that_cannot_be_read_for_a_moment_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "BEAT", 0.02)
    claim = claims.Claim(tmp_path, trial())
    assert claim.take()
    beats = threading.Semaphore(0)

    def failing(path: Path) -> bytes:
        beats.release()
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    with claim:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "read_bytes", failing)
            assert all(beats.acquire(timeout=10) for _ in range(3))
        assert not claim.lost
    assert not (tmp_path / "claims" / trial().id).exists()


def test_a_lock_that_cannot_be_looked_at_is_not_held_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(locks, "_is_at", lambda *_: die())
        with pytest.raises(Killed), locks.lock_trial(tmp_path, pytest.fail):
            pass
    with locks.lock_trial(tmp_path, pytest.fail):
        pass


@pytest.mark.parametrize("alive", [False, True])
def test_what_a_kill_right_after_the_result_leaves_is_gone_with_the_next_call(
    killed: Path, tmp_path: Path, alive: bool
) -> None:
    """Unless its holder is alive, who is about to do that."""
    asked = {"targets": "c", "seeds": 1, "steps": 4, "output": tmp_path}
    (first,) = compare(DATA, "erm", **asked).outcomes
    claim = claims.Claim(tmp_path, first.trial)
    before = contents(tmp_path)
    for path in saved(killed):
        shutil.copytree(path, first.folder / path.name)
    shutil.copy(killed / "evaluations.jsonl", first.folder)
    (first.folder / ".lock").touch()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    holder = os.getpid() if alive else ended.pid
    claim.path.write_text(claim._content().replace(f'"process": {os.getpid()}', f'"process": {holder}'))
    compare(DATA, "erm", **asked)
    assert (contents(tmp_path) == before) is not alive
    assert claim.path.exists() is (first.folder / ".lock").exists() is alive


def test_a_new_folder_would_survive_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is brought to the disk in every folder that is made, as are those of models on the way."""
    synced: list[Path] = []
    usual = files.sync
    monkeypatch.setattr(files, "sync", lambda path: synced.append(path) or usual(path))
    run(trial(steps=2, evaluate_every=2), tmp_path / "out" / "trials" / "one")
    assert synced[:3] == [tmp_path / "out" / "trials", tmp_path / "out", tmp_path]
    assert tmp_path / "out" / "trials" / "one" in synced
    assert tmp_path / "out" / "trials" / "one" / "snapshots" in synced


def test_a_disk_that_fails_while_trials_are_handed_out_is_a_sentence(tmp_path: Path) -> None:
    def failing(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.raises(InputError, match=r"cannot read or write in the output folder .* any more: Input/output error"):
        compare(DATA, "erm", targets="c", seeds=1, steps=4, output=tmp_path, watch=failing)
