"""A checkpoint is written while training goes on, and nothing that happens to it is the end of a trial."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path

import pytest
import torch

from domainwise.training import checkpoint_files as files, checkpoints as checkpoints_module
from domainwise.training.checkpoint_files import saved
from domainwise.training.checkpoints import Checkpoints, Resumed
from domainwise.training.signals import Stopped


class Weights:
    def __init__(self) -> None:
        self.tensor = torch.zeros(3)

    def state_dict(self) -> dict[str, object]:
        return {"tensor": self.tensor}

    def load_state_dict(self, state: dict[str, object]) -> None:
        self.tensor = state["tensor"]


class Slow:
    """Instead of writing to the disk: waits until it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go, usual = threading.Event(), files.write
        monkeypatch.setattr(checkpoints_module, "write", lambda *given: self.go.wait(30) and usual(*given))


def test_training_goes_on_while_a_checkpoint_is_written_which_is_of_when_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, weights = Slow(monkeypatch), Weights()
    checkpoints = Checkpoints(tmp_path, journals=("log",))
    (tmp_path / "log").write_text("before\n")
    checkpoints.save(7, {"weights": weights}, seconds=1.0)
    weights.tensor.add_(1)
    with (tmp_path / "log").open("a") as log:
        log.write("after\n")
    checkpoints.last -= 1000
    assert not checkpoints.due(8, evaluated=True)  # one at a time
    assert not saved(tmp_path)
    slow.go.set()
    checkpoints.settle()
    assert checkpoints.due(8, evaluated=True)
    again = Weights()
    start = Checkpoints(tmp_path, journals=("log",)).find()
    assert isinstance(start, Resumed)
    start.restore({"weights": again})
    start.cut_journals(tmp_path)
    assert start.step == 7
    assert torch.equal(again.tensor, torch.zeros(3))
    assert (tmp_path / "log").read_text() == "before\n"


def test_who_asks_to_stop_is_answered_when_the_state_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, checkpoints = Slow(monkeypatch), Checkpoints(tmp_path)
    monkeypatch.setattr(checkpoints_module, "stop_requested", lambda: 15)
    threading.Timer(0.3, slow.go.set).start()
    with pytest.raises(Stopped, match="stopped after 0 updates: start the same command again to go on from there"):
        checkpoints.save(0, {}, seconds=1.0)
    assert [path.name for path in saved(tmp_path)] == ["checkpoint-00000000"]


def test_the_time_of_writing_counts_as_the_cost_and_what_fails_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    slow, checkpoints = Slow(monkeypatch), Checkpoints(tmp_path, say=said.append)
    checkpoints.save(0, {}, seconds=1.0)
    threading.Event().wait(0.2)
    slow.go.set()
    checkpoints.settle()
    assert checkpoints.cost >= 0.2

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints_module, "write", full)
    checkpoints.save(5, {}, seconds=1.0)
    checkpoints.settle()
    checkpoints.settle()
    assert said == ["no checkpoint could be saved after 5 updates, training goes on: No space left on device"]


def test_whatever_goes_wrong_with_it_the_trial_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    checkpoints = Checkpoints(tmp_path, say=said.append)

    def broken(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(checkpoints_module, "write", broken)
    checkpoints.save(0, {}, seconds=1.0)
    checkpoints.settle()
    assert said == ["no checkpoint could be saved after 0 updates, training goes on: MemoryError"]
    assert checkpoints.cost > 0
    assert checkpoints.writing is None


def test_who_does_not_wait_has_not_let_go_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second Ctrl-C: the folder is still being written to, and whoever cleans up has to wait for that."""
    slow, checkpoints = Slow(monkeypatch), Checkpoints(tmp_path)
    checkpoints.save(0, {}, seconds=1.0)

    def interrupted(self: object, timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Future, "result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            checkpoints.settle()
    slow.go.set()
    checkpoints.settle()
    assert len(saved(tmp_path)) == 1


def test_where_there_can_be_no_more_threads_it_is_written_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(0, {}, seconds=1.0)
    assert len(saved(tmp_path)) == 1
    checkpoints.settle()
