"""A result says which commit made it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from shutil import which

import pytest
from made_data import stripes

from domainwise import machine
from domainwise.algorithms import parse
from domainwise.experiment.settings import resolve
from domainwise.machine import commit
from domainwise.training.plan import plan
from domainwise.training.run_options import RunOptions
from domainwise.training.run_trial import execute

HASH, OTHER = "0123456789" * 4, "f" * 40


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOMAINWISE_COMMIT", raising=False)


def written(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_commit_is_read_from_the_files_of_git(tmp_path: Path) -> None:
    detached = written(tmp_path / "a", **{".git__HEAD": f"{HASH}\n"})
    branch = written(tmp_path / "b", **{".git__HEAD": "ref: refs/heads/x/y\n", ".git__refs__heads__x__y": f"{HASH}\n"})
    packed = written(tmp_path / "c", **{
        ".git__HEAD": "ref: refs/heads/main\n",
        ".git__packed-refs": f"# packed\n{OTHER} refs/heads/not/main\n{HASH} refs/heads/main\n^{OTHER}\n",
    })  # fmt: skip
    beside = written(tmp_path / "d", **{
        ".git": "gitdir: ../main/.git/worktrees/d\n",
        "../main/.git__worktrees__d__HEAD": "ref: refs/heads/d\n",
        "../main/.git__worktrees__d__commondir": "../..\n",
        "../main/.git__refs__heads__d": f"{HASH}\n",
    })  # fmt: skip
    assert [commit(root) for root in (detached, branch, packed, beside)] == [HASH] * 4


@pytest.mark.parametrize(
    "files",
    [
        {},
        {".git": "no such thing\n"},
        {".git__HEAD": "ref: refs/heads/none\n"},
        {".git__HEAD": "ref: refs/heads/main\n", ".git__refs__heads__main": "not a hash\n"},
    ],
)
def test_without_one_that_can_be_read_there_is_none(tmp_path: Path, files: dict[str, str]) -> None:
    tmp_path.mkdir(exist_ok=True)
    assert commit(written(tmp_path, **files)) is None


@pytest.mark.skipif(which("git") is None, reason="git is not there to compare with")
def test_git_says_the_same() -> None:
    root = Path(__file__).parent.parent
    asked = subprocess.run(["git", "-C", root, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    if asked.returncode:
        pytest.skip("this is no checkout")
    assert commit(root) == asked.stdout.strip()


def test_a_variable_tells_it_for_a_copy_without_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOMAINWISE_COMMIT", f" {HASH}\n")
    assert commit(tmp_path) == HASH


def test_a_result_has_it_and_going_on_with_another_says_nothing(tmp_path: Path, monkeypatch) -> None:
    given = {"steps": 12, "evaluate_every": 4, "batch": 8}
    (one,) = plan(stripes(), parse("erm"), [("c",)], [0], resolve(given=given))

    class Killed(BaseException):
        pass

    def watch(_: object, event: dict[str, object]) -> None:
        if event.get("step") == 5:
            raise Killed

    monkeypatch.setattr(machine, "COMMIT", OTHER)
    with pytest.raises(Killed):
        execute(one, stripes(), tmp_path, RunOptions(checkpoint_every=1), watch=watch)
    said: list[object] = []
    monkeypatch.setattr(machine, "COMMIT", HASH)
    execute(one, stripes(), tmp_path, watch=lambda _, event: said.append(event.get("note")))
    assert [note for note in said if note] == ["resumes at step 4"]
    assert json.loads((tmp_path / "result.json").read_text())["versions"]["commit"] == HASH
    monkeypatch.setattr(machine, "COMMIT", None)
    execute(one, stripes(), tmp_path / "other")
    assert "commit" not in json.loads((tmp_path / "other" / "result.json").read_text())["versions"]
