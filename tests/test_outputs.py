"""What is written goes to the place that was named, and replaces nothing that was not made here."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
import stat
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_data import image_folder
from PIL import Image

import domainwise as dw
from domainwise import InputError
from domainwise.api import prepare
from domainwise.data.sources.arrays import domains
from domainwise.data.sources.digits import digits
from domainwise.errors import defused, legible
from domainwise.experiment.results import outcomes
from domainwise.experiment.settings import resolve
from domainwise.files import PAGE, PICTURE, PNG, check_output, write_output
from domainwise.interop.tensorboard import run_name
from domainwise.saved_models.predict import Prediction, as_csv
from domainwise.sweeps.engine import Engine
from domainwise.training.run_trial import execute

Command = Callable[..., tuple[int, str, str]]
ESCAPE = "\x1b[2J\x1b]0;you\x07\x9b31m\u202e"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results") / "out"
    dw.compare(digits(), "erm", targets="75", seeds=1, steps=2, batch=4, output=folder)
    return folder


@pytest.fixture
def writes(results: Path, tmp_path: Path, domainwise: Command) -> dict[str, Callable[[Path], tuple[int, str, str]]]:
    """Every command that writes one file where it is told to."""
    few = ("--data", "digits", "--steps", 1, "--images", 20)
    (run,) = (results / "trials").iterdir()
    photos = image_folder(tmp_path / "photos", count=1)
    return {
        "report.html": lambda file: domainwise("report", results, "-o", file),
        "surface.svg": lambda file: domainwise("surface", run, *few, "--points", 3, "-o", file),
        "sample.png": lambda file: domainwise("inspect", photos, "--picture", file),
        "predictions.csv": lambda file: domainwise("predict", run, _grey(tmp_path), "-o", file),
        "predictions.json": lambda file: domainwise("predict", run, _grey(tmp_path), "-o", file),
    }


def _grey(folder: Path) -> Path:
    Image.fromarray(np.zeros((9, 9), np.uint8)).save(folder / "grey.png")
    return folder / "grey.png"


KINDS = ("report.html", "surface.svg", "sample.png", "predictions.csv", "predictions.json")


@pytest.mark.parametrize("name", KINDS)
def test_a_file_of_ours_is_replaced_and_no_other(name: str, writes, tmp_path: Path) -> None:
    file = tmp_path / "deep" / "er" / name
    for _ in range(2):
        code, _, err = writes[name](file)
        assert code == 0, err
    file.write_text("my own")
    code, _, err = writes[name](file)
    assert code == 2
    assert "holds something that was not made here: give another name, or remove it first" in err
    assert file.read_text() == "my own"
    file.write_text("")  # nothing is lost
    assert writes[name](file)[0] == 0
    assert [path.name for path in file.parent.iterdir()] == [name]


@pytest.mark.parametrize("name", KINDS)
def test_no_folder_and_no_device_is_replaced(name: str, writes, tmp_path: Path) -> None:
    pipe = tmp_path / f"pipe-{name}"
    os.mkfifo(pipe)
    code, _, err = writes[name](pipe)
    assert code == 2
    assert "is a device or a pipe" in err
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    (tmp_path / f"folder-{name}").mkdir()
    code, _, err = writes[name](tmp_path / f"folder-{name}")
    assert code == 2
    assert "is a folder" in err


def test_a_device_stays_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r'"/dev/null" is a device'):
        check_output(Path("/dev/null"), PAGE)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_place_that_cannot_be_written_to_is_a_sentence(
    number: int, results: Path, domainwise: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rights do not stop root."""
    before, opened = (results / "report.html"), Path.open

    def refusing(self: Path, mode: str = "r", *given, **named):
        if "x" in mode and self.parent == results:
            raise OSError(number, os.strerror(number), str(self))
        return opened(self, mode, *given, **named)

    monkeypatch.setattr(Path, "open", refusing)
    code, out, err = domainwise("report", results)
    assert code == 2
    assert "ERM" in out or "erm" in out  # the table is printed all the same
    assert f'cannot write "{before}": {os.strerror(number)}' in err
    assert domainwise("report", results, "-o", "elsewhere.html")[0] == 0


def test_a_link_that_somebody_laid_for_the_temporary_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / f".a.svg.{os.getpid()}").symlink_to(victim)
    write_output(tmp_path / "a.svg", "<svg>", PICTURE)
    assert victim.read_text() == "mine"
    assert (tmp_path / "a.svg").read_text() == "<svg>"
    assert not re.match(PNG, b"\x89PNG\r\n\x1a\n" + bytes(99), re.DOTALL)


@pytest.mark.parametrize("seed", ["0/../../../x", "..", "/etc/x", "\x00", "a\nb", "猫" * 200])
def test_no_run_of_tensorboard_leaves_its_folder(seed: str, results: Path) -> None:
    (outcome,) = outcomes(results)
    for odd in (
        replace(outcome.trial, seed=seed),  # as a trial.json of somebody's may say
        replace(outcome.trial, draw=seed),
        replace(outcome.trial, label=seed, targets=(seed, seed)),
    ):
        name = run_name(odd)
        assert Path(name).name == name
        assert name not in ("", ".", "..")
        assert "\0" not in name
        assert len(name.encode()) < 256


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results whose names command a terminal."""
    images, labels = np.zeros((20, 4, 4, 1), np.uint8), np.arange(20) % 2
    data = domains({f"{name}{ESCAPE}": (images, labels) for name in "abc"}, name=f"data{ESCAPE}")
    folder = tmp_path_factory.mktemp("hostile") / "out"
    settings = resolve(given={"steps": 2, "batch": 2})
    comparison = prepare(data, "erm", targets=[f"c{ESCAPE}"], seeds=1, settings=settings, output=folder)
    trials = tuple(replace(trial, label=f"erm{ESCAPE}") for trial in comparison.trials)
    replace(comparison, trials=trials).run(Engine(), lambda trial, event: None)
    return folder


@pytest.mark.parametrize("words", [("report",), ("show",), ("status",), ("report", "--format", "json"),
                                   ("report", "--format", "markdown"), ("report", "--format", "latex")])  # fmt: skip
@pytest.mark.parametrize("terminal", [True, False])
def test_no_name_commands_a_terminal(
    words: tuple[str, ...], terminal: bool, hostile: Path, domainwise: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    code, out, err = domainwise(words[0], hostile, *words[1:])
    assert code == 0
    assert "x1b" in out or "001b" in out or words == ("status",)
    for text in (out, err):
        assert not set(text) & set("\x1b\x07\x9b\u202e")
    if "json" in words:
        json.loads(out)


def test_no_error_commands_a_terminal_in_python_either() -> None:
    error = InputError(f'there is no domain "{ESCAPE}":\n\ttry another')
    assert str(error) == 'there is no domain "\\x1b[2J\\x1b]0;you\\x07\\x9b31m\\u202e":\n\ttry another'
    assert legible("plain ünï 猫 👩\u200d🔬") == "plain ünï 猫 👩\u200d🔬"


def test_all_commands_print_through_streams_that_are_looked_at() -> None:
    files = Path(dw.__file__).parent.rglob("*.py")
    assert {file.name for file in files if re.search(r"\bConsole\(", file.read_text())} == {"terminal.py"}


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-x", "@SUM(A1)", "\tx", " =1", "\r=1", "\uff1d1"])
def test_no_cell_of_a_table_is_a_formula(text: str) -> None:
    assert defused(text) == f"'{text}"
    made = [Prediction(text, text, -0.5)]
    _, row = csv.reader(io.StringIO("".join(as_csv(made)), newline=""))
    assert row == [f"./{text}", f"'{text}", "-0.5", ""]


@pytest.mark.parametrize("cell", [-1.5, 3, None, "-1.5", "+3", "-1e-3", "a=b", "photo"])
def test_numbers_and_other_words_stay_as_they_are_in_a_table(cell: object) -> None:
    assert defused(cell) == cell


def test_what_a_trial_says_of_its_failure_goes_through_no_link(results: Path, tmp_path: Path) -> None:
    (outcome,) = outcomes(results)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "trial").mkdir()
    (tmp_path / "trial" / "error.txt").symlink_to(victim)
    broken = replace(outcome.trial, network="no_such_network")
    assert execute(broken, digits(), tmp_path / "trial")["status"] == "failed"
    assert victim.read_text() == "mine"
    assert "no_such_network" in (tmp_path / "trial" / "error.txt").read_text()
