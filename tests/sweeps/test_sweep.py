from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from made_data import stripes

from domainwise import InputError, compare
from domainwise.algorithms import parse
from domainwise.api import Results, prepare
from domainwise.experiment.records import publish_once
from domainwise.experiment.settings import resolve
from domainwise.experiment.trial import Trial
from domainwise.sweeps import claims
from domainwise.sweeps.claims import Claim, Claims
from domainwise.sweeps.in_process import work
from domainwise.training.plan import plan
from domainwise.training.run_options import RunOptions

DATA = stripes()
posix = pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL on Windows")


def planned(algorithms: str = "erm", *, seeds: int = 1, draws: int = 1, **given: object) -> list[Trial]:
    return plan(DATA, parse(algorithms), [("c",)], range(seeds), resolve(given={"steps": 4, **given}), draws=draws)


def dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def left_behind(folder: Path, trial: Trial, **about: object) -> Path:
    """The claim of a process that is no more."""
    claim = Claim(folder, trial)
    claim.path.parent.mkdir(parents=True, exist_ok=True)
    claim.path.write_text(json.dumps({**json.loads(claim._content()), **about}))
    return claim.path


def test_the_id_of_a_trial_stays_what_it_was() -> None:
    about = {"data": "digits", "fingerprint": "f00d" * 8, "targets": ("75", "é"), "algorithm": "arith"}
    trial = Trial(**about, hyperparameters={"lr": 1e-3, "inner": "sgd", "inner_lr": None, "shuffle": True}, seed=1)
    assert trial.id == "4c7b217d8fa22d19"  # of 0.1.0: results that are there must be found again
    assert Trial.from_json(json.loads(json.dumps(trial.to_json()))).id == trial.id


def test_the_first_draw_is_the_defaults_and_the_others_are_drawn() -> None:
    first, second = planned(draws=2)
    assert (first.id, first.draw) == (planned()[0].id, 0)
    assert second.draw == 1
    assert second.label == first.label
    assert second.hyperparameters["lr"] != first.hyperparameters["lr"]
    assert (second.batch, second.origins["batch"]) != (first.batch, first.origins["batch"])


def test_what_is_given_or_written_is_not_searched() -> None:
    *_, last = planned("arith(inner_lr=0.5)", draws=3, lr=0.25, batch=7, input_size=64)
    assert (last.draw, last.batch) == (2, 7)
    assert (last.hyperparameters["lr"], last.hyperparameters["inner_lr"]) == (0.25, 0.5)
    assert last.origins["inner_lr"].startswith("written")


def test_an_algorithm_has_settings_of_its_own_below_what_is_given() -> None:
    erm, arm = planned("erm,arm", input_size=64)
    assert (erm.batch, arm.batch, arm.origins["batch"]) == (32, 8, "algorithm arm")
    assert [trial.batch for trial in planned("erm,arm", input_size=64, batch=32)] == [32, 32]
    assert planned("arm", input_size=28)[0].batch == 32  # small images are as for all others
    folders = [prepare(DATA, name, settings=resolve(given={"input_size": 64})).folder for name in ("erm", "arm")]
    assert folders[0] == folders[1]


def test_what_was_added_later_is_in_an_id_only_where_it_is_not_the_default() -> None:
    plain, ended, started = (planned(f"fish{text}")[0] for text in ("", "(buffers='end')", "(buffers='start')"))
    assert "buffers" not in plain.hyperparameters
    assert plain.id == ended.id != started.id
    assert started.hyperparameters["buffers"] == "start"
    plain, weighted, spelled = (planned(f"arith{text}")[0] for text in ("", "(epsilon=3.0)", "(epsilon=None)"))
    assert "epsilon" not in plain.hyperparameters
    assert plain.id == spelled.id != weighted.id
    assert weighted.hyperparameters["epsilon"] == 3.0
    plain, cyclic = (planned(f"mldg{text}")[0] for text in ("", "(pairs='cyclic')"))
    assert plain.id == cyclic.id != planned("mldg(pairs='halves')")[0].id


def test_of_the_draws_of_one_seed_the_best_validated_is_reported(tmp_path: Path) -> None:
    results = compare(DATA, "erm", targets="c", seeds=1, draws=3, steps=2, output=tmp_path)
    assert len(results.outcomes) == 3
    best = max(results.outcomes, key=lambda outcome: outcome.result["selected"]["validation"])
    opened = Results.open(tmp_path)
    (row,) = json.loads(opened.table("json"))["rows"]
    assert row["cells"][0]["mean"] == best.result["selected"]["target"]
    assert {outcome.trial.label for outcome in opened.outcomes} == {"erm"}


def test_draws_must_be_some(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="draws says how many"):
        prepare(DATA, "erm", draws=0, output=tmp_path)


def test_a_result_is_published_once(tmp_path: Path) -> None:
    assert publish_once(tmp_path / "result.json", {"by": 1})
    assert not publish_once(tmp_path / "result.json", {"by": 2})
    assert json.loads((tmp_path / "result.json").read_text()) == {"by": 1}
    assert len(list(tmp_path.iterdir())) == 1


def test_a_claim_keeps_others_away_until_it_is_released(tmp_path: Path) -> None:
    (trial,) = planned()
    claim = Claim(tmp_path, trial)
    with claim:
        assert claim.take()
        assert not Claim(tmp_path, trial).take()
        assert not Claims(tmp_path).free(trial.id)
    assert Claims(tmp_path).free(trial.id)


@posix
def test_the_claim_of_a_dead_process_is_free_at_once(tmp_path: Path) -> None:
    (trial,) = planned()
    left_behind(tmp_path, trial, process=dead_process())
    assert Claims(tmp_path).free(trial.id)


@pytest.mark.parametrize("clock", [-1e6, 0, 1e6])
def test_a_claim_without_a_sign_of_life_is_free_whatever_the_clocks_say(tmp_path: Path, monkeypatch, clock) -> None:
    (trial,) = planned()
    path = left_behind(tmp_path, trial, machine="elsewhere")
    os.utime(path, (time.time() + clock, time.time() + clock))
    monkeypatch.setattr(claims, "STALE", 0.2)
    others = Claims(tmp_path)
    assert not others.free(trial.id)
    time.sleep(0.1)
    os.utime(path)  # a sign of life
    assert not others.free(trial.id)
    time.sleep(0.15)
    assert not others.free(trial.id)
    time.sleep(0.15)
    assert others.free(trial.id)


def test_who_has_lost_a_claim_stops_and_publishes_nothing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(claims, "BEAT", 0.01)
    (trial,) = planned(steps=100_000)

    def take_over(trial: Trial, event: dict) -> None:
        left_behind(tmp_path, trial, token="another")

    event = work(trial, DATA, tmp_path, RunOptions(keep="none"), take_over)
    assert event == {"taken": True}
    assert not (tmp_path / "trials" / trial.id / "result.json").exists()
    assert claims.read(tmp_path / "claims" / trial.id)["token"] == "another"


def test_a_full_disk_ends_a_sweep_with_a_sentence(tmp_path: Path, monkeypatch) -> None:
    def full(claim: Claim) -> bool:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Claim, "take", full)
    with pytest.raises(InputError, match="No space left on device; what has ended is kept"):
        compare(DATA, "erm", targets="c", seeds=1, steps=2, output=tmp_path)


DRIVER = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from made_data import stripes
from domainwise import compare

def say(trial, event):
    if "result" in event and "elsewhere" not in event:
        with Path({log!r}).open("a") as file:
            file.write(trial.id + "\\n")

compare(stripes(), "erm,arith", targets="all", seeds=2, steps=80, output={out!r}, processes=1, timeout=600, watch=say)
"""


def driver(folder: Path) -> subprocess.Popen[bytes]:
    """Start a comparison with one worker: a timeout wants a process of its own."""
    helpers = Path(__file__).parents[1] / "helpers"
    names = {"tests": str(helpers), "log": str(folder / "log"), "out": str(folder / "out")}
    return subprocess.Popen([sys.executable, "-c", DRIVER.format(**names)], start_new_session=True)


def workers(folder: Path) -> list[int]:
    found = (claims.read(path).get("process") for path in (folder / "out" / "claims").glob("[!.]*"))
    return [process for process in found if process]


@posix
def test_two_drivers_with_workers_killed_at_random_lose_nothing_and_do_nothing_twice(tmp_path: Path) -> None:
    dice = random.Random(0)
    drivers = [driver(tmp_path), driver(tmp_path)]
    killed = 0
    while any(one.poll() is None for one in drivers):
        time.sleep(0.1)
        if killed < 3 and (found := workers(tmp_path)):
            os.kill(dice.choice(found), signal.SIGKILL)
            killed += 1
    assert killed == 3
    assert [one.returncode for one in drivers] == [0, 0]
    said = (tmp_path / "log").read_text().splitlines()
    results = Results.open(tmp_path / "out")
    assert len(results.outcomes) == 12
    assert not results.troubled
    assert sorted(said) == sorted(outcome.trial.id for outcome in results.outcomes)
