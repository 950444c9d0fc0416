from __future__ import annotations

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from made_data import stripes
from made_many import finished
from test_docs import ROOT, blocks

import domainwise
from domainwise import InputError, compare
from domainwise.algorithms import parse
from domainwise.experiment.results import outcomes
from domainwise.experiment.settings import resolve
from domainwise.experiment.trial import Trial
from domainwise.interop.tensorboard import run_name, scalars
from domainwise.sweeps import status as following
from domainwise.sweeps.status import follow, write_plan
from domainwise.training.plan import plan

DATA = stripes()
STEPS = list(range(0, 300, 30))  # of the records that a finished trial has
Doing = Callable[..., None]


@pytest.fixture
def trials() -> list[Trial]:
    return plan(DATA, parse("erm,arith"), [("c",)], [0, 1], resolve())


@pytest.fixture
def folder(tmp_path: Path, trials: list[Trial]) -> Path:
    """All trials have ended, the first among those asked for last."""
    made = finished(tmp_path / "out", DATA, trials)
    write_plan(made, trials[:1])
    return made


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Doing:
    """What others do while the folder is not looked at, one thing after each look."""

    def plan(*actions: Callable[[], object]) -> None:
        left = iter(actions)
        monkeypatch.setattr(following.time, "sleep", lambda seconds: next(left)())

    return plan


class Writing:
    """The files of a trial that has not ended."""

    def __init__(self, folder: Path, trial: Trial) -> None:
        self.path = folder / "trials" / trial.id
        self.lines = (self.path / "records.jsonl").read_bytes().splitlines(keepends=True)
        self.result = (self.path / "result.json").read_bytes()
        (self.path / "result.json").unlink()
        self.hold(b"")

    def hold(self, text: bytes) -> None:
        (self.path / "records.jsonl").write_bytes(text)

    def end(self) -> None:
        self.hold(b"".join(self.lines))
        (self.path / "result.json").write_bytes(self.result)


def steps_of(trial: Trial, folder: Path, wait: bool) -> list[int]:
    return [record["step"] for one, record in follow(folder, wait=wait) if one == trial]


def test_every_record_comes_with_its_trial(folder: Path, trials: list[Trial]) -> None:
    found = list(follow(str(folder)))
    assert len(found) == len(trials) * len(STEPS)
    assert {trial.id: [record for one, record in found if one == trial] for trial in trials} == {
        outcome.folder.name: outcome.records() for outcome in outcomes(folder)
    }


def test_a_line_that_is_being_written_is_taken_when_it_is_whole(folder: Path, trials: list[Trial], meanwhile) -> None:
    writing = Writing(folder, trials[0])
    first, second = writing.lines[:2]
    writing.hold(first + second[:20])
    assert steps_of(trials[0], folder, wait=False) == STEPS[:1]
    seen: list[int] = []
    meanwhile(
        lambda: seen.append(len(got)),
        lambda: writing.hold(first + second),
        lambda: seen.append(len(got)),
        writing.end,
    )
    got: list[int] = []
    for one, record in follow(folder, wait=True):
        if one == trials[0]:
            got.append(record["step"])
    assert seen == [1, 2]
    assert got == STEPS


@pytest.mark.parametrize("grown", [4, 7], ids=["shorter", "longer"])
def test_a_trial_that_goes_on_from_a_checkpoint_is_not_told_twice(
    folder: Path, trials: list[Trial], meanwhile, grown: int
) -> None:
    writing = Writing(folder, trials[0])
    writing.hold(b"".join(writing.lines[:5]) + b'{"step": 1')
    # Cut to two records and written on by a machine that counts its seconds otherwise, so that no place agrees.
    slower = [line.replace(b'"seconds": 2.0', b'"seconds": 2.0625') for line in writing.lines]
    meanwhile(lambda: writing.hold(b"".join(writing.lines[:2] + slower[2:grown])), writing.end)
    assert steps_of(trials[0], folder, wait=True) == STEPS


def test_a_trial_that_starts_anew_is_not_told_twice(folder: Path, trials: list[Trial], meanwhile) -> None:
    writing = Writing(folder, trials[0])
    writing.hold(b"".join(writing.lines[:5]))
    meanwhile((writing.path / "records.jsonl").unlink, lambda: writing.hold(writing.lines[0]), writing.end)
    assert steps_of(trials[0], folder, wait=True) == STEPS


def test_waiting_ends_with_the_last_trial_that_was_asked_for(folder: Path, trials: list[Trial], meanwhile) -> None:
    asked, other = (Writing(folder, trial) for trial in trials[:2])
    meanwhile(lambda: None, asked.end)
    assert steps_of(trials[0], folder, wait=True) == STEPS
    assert not (other.path / "result.json").exists()


def test_a_trial_whose_settings_are_not_there_yet_is_told_when_they_are(folder: Path, trials, meanwhile) -> None:
    writing = Writing(folder, trials[0])
    settings = writing.path / "trial.json"
    text = settings.read_text()
    settings.unlink()
    writing.hold(writing.lines[0])
    meanwhile(lambda: settings.write_text(text), writing.end)
    assert steps_of(trials[0], folder, wait=True) == STEPS


def test_trials_that_are_being_run_are_followed_to_their_end(tmp_path: Path) -> None:
    ask = {"targets": "c", "seeds": 2, "steps": 40, "evaluate_every": 5, "output": tmp_path}
    with ThreadPoolExecutor(1) as runner:
        running = runner.submit(compare, DATA, "erm", **ask)
        while not (tmp_path / "plan.json").exists():
            assert not running.done(), running.result()
        followed = [(trial.id, json.dumps(record)) for trial, record in follow(tmp_path, wait=True)]
    found = [(one.trial.id, json.dumps(record)) for one in running.result().outcomes for record in one.records()]
    assert sorted(followed) == sorted(found)
    assert len(found) == 2 * 9


def test_a_folder_of_others_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a folder that domainwise has worked in"):
        follow(tmp_path)


@pytest.fixture
def recipes() -> dict[str, Any]:
    """The functions of the page on tracking."""
    defined: dict[str, Any] = {"dw": domainwise}
    for block in blocks(ROOT / "docs" / "tracking.md", "python"):
        if block.startswith("def "):
            exec(block, defined)
    return defined


def sent(folder: Path) -> list[tuple[str, int, dict[str, float]]]:
    return sorted((run_name(trial), record["step"], scalars(trial, record)) for trial, record in follow(folder))


def test_the_recipe_for_weights_and_biases_sends_every_record_once(folder: Path, recipes, monkeypatch) -> None:
    wandb = MagicMock()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    made: list[MagicMock] = []
    wandb.init.side_effect = lambda **given: made.append(MagicMock(given=given)) or made[-1]
    recipes["to_wandb"](folder, "mine")
    got = [(run.given["name"], call.kwargs["step"], call.args[0]) for run in made for call in run.log.call_args_list]
    assert sorted(got) == sent(folder)
    assert all(run.finish.call_count == 1 for run in made)


def test_the_recipe_for_mlflow_sends_every_number_once(folder: Path, trials, recipes, monkeypatch) -> None:
    mlflow = MagicMock()
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    client = mlflow.MlflowClient.return_value
    client.create_run.side_effect = lambda where, run_name: MagicMock(**{"info.run_id": run_name})
    recipes["to_mlflow"](folder, "mine")
    got = {(*call.args[:2], call.kwargs["step"]): call.args[2] for call in client.log_metric.call_args_list}
    assert got == {(run, tag, step): value for run, step, found in sent(folder) for tag, value in found.items()}
    assert client.log_metric.call_count == len(got)
    assert {call.args[0] for call in client.set_terminated.call_args_list} == {run_name(trial) for trial in trials}
