from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from made_data import stripes
from made_many import finished

from domainwise import InputError
from domainwise.__main__ import main
from domainwise.algorithms import parse
from domainwise.api import Results
from domainwise.experiment.results import outcomes
from domainwise.experiment.settings import resolve
from domainwise.experiment.trial import Trial
from domainwise.sweeps.claims import Claim
from domainwise.sweeps.status import estimate, status, write_plan
from domainwise.training.plan import plan

DATA = stripes()


def many(count: int) -> list[Trial]:
    (one,) = plan(DATA, parse("erm"), [("c",)], [0], resolve())
    names = ("erm", "arith", "fish", "coral")
    return [
        replace(one, seed=i // 400, algorithm=names[i % 4], label=names[i % 4], draw=i % 50, batch=i + 1)
        for i in range(count)
    ]


@pytest.fixture
def halfway(tmp_path: Path) -> Path:
    """Of 8 trials 4 have ended and one is running."""
    trials = many(8)
    folder = finished(tmp_path / "out", DATA, trials[:4])
    write_plan(folder, trials)
    claim = Claim(folder, trials[4])
    claim.step = 150
    with claim:
        assert claim.take()
        yield folder


def test_the_status_counts_what_has_ended_what_runs_and_what_waits(halfway: Path) -> None:
    found = status(halfway)
    assert (found.asked, found.ended, found.waiting) == (8, {"finished": 4}, 3)
    (running,) = found.running
    assert (running.name, running.step, running.steps) == ("erm on c, seed 0, draw 4", 150, 300)
    assert (found.seconds, found.left) == (2.0, 3.5 * 2.0)


def test_the_status_is_said_while_others_work(halfway: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["domainwise", "status", str(halfway)])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    said = capsys.readouterr().out
    assert "ended    4 finished" in said
    assert "erm on c, seed 0, draw 4: step 150 of 300" in said
    assert "left     about 7 s" in said


@pytest.mark.skipif(os.name == "nt", reason="processes elsewhere are not looked up on Windows")
def test_a_dead_process_is_not_running(halfway: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (claim,) = (halfway / "claims").iterdir()
    claim.write_text(json.dumps({**json.loads(claim.read_text()), "process": ended.pid}))
    assert not status(halfway).running
    assert status(halfway).left is None


def test_a_folder_of_others_has_no_status(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a folder that domainwise has worked in"):
        status(tmp_path)


def test_the_time_is_estimated_from_trials_of_the_same_algorithm(tmp_path: Path) -> None:
    trials = many(4)
    found = outcomes(finished(tmp_path / "out", DATA, trials[:2]))
    slow = [replace(one, result={**one.result, "seconds": 10.0}) if one.trial.algorithm == "arith" else one
            for one in found]  # fmt: skip
    assert estimate([trials[0], trials[1]], slow, 2) == pytest.approx((2 + 10) / 2)
    assert estimate([trials[2]], slow, 1) == pytest.approx(6)
    assert estimate(trials, [], 2) is None
    assert estimate([replace(trials[0], network="resnet50")], slow, 1) is None  # nothing like it has finished


def test_a_removed_result_is_not_remembered(tmp_path: Path) -> None:
    folder = finished(tmp_path / "out", DATA, many(5))
    gone = outcomes(folder)[0].folder
    (gone / "result.json").unlink()
    assert gone not in [outcome.folder for outcome in outcomes(folder)]


@pytest.mark.slow
def test_ten_thousand_trials_are_read(tmp_path: Path) -> None:
    folder = finished(tmp_path / "out", DATA, many(10_000))
    for _ in range(2):
        assert status(folder).ended == {"finished": 10_000}
    assert "coral" in Results.open(folder).table()
