"""A trial can be stopped at any moment, and what comes of it is the same as if it had not been."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_kills
import pytest
import torch
from made_trials import DATA, Killed, die, remains, run, trial

import domainwise as dw
from domainwise import InputError
from domainwise.algorithms import Algorithm, names
from domainwise.experiment import records
from domainwise.experiment.trial import Trial
from domainwise.saved_models.keep import spread
from domainwise.sweeps import progress as disk
from domainwise.sweeps.progress import disk_needed
from domainwise.training import checkpoints
from domainwise.training.checkpoint_files import saved
from domainwise.training.run_trial import execute
from domainwise.training.signals import Stopped, listening, stop_requested
from domainwise.user_files import module_of


def kills(folder: Path, seed: int, each: int, *trials: str) -> list[dict[str, Any]]:
    driver = [sys.executable, made_kills.__file__, str(folder), str(seed), str(each), *trials]
    answers = subprocess.run(driver, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in answers.splitlines()]


def test_ten_kills_leave_every_trial_as_if_there_had_been_none(tmp_path: Path) -> None:
    answers = kills(tmp_path, 0, 2, *made_kills.TRIALS)
    for name in made_kills.TRIALS:
        assert remains(tmp_path / name / "killed") == remains(tmp_path / name / "whole"), name
    assert {kind for answer in answers for kind in answer["hit"]} == set(made_kills.KINDS)
    assert sum(len(answer["hit"]) for answer in answers) == 10
    assert sum(max(answer["resumed"], default=0) >= 5 for answer in answers) >= 3  # not from their beginning


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", made_kills.TRIALS)
def test_a_hundred_kills(tmp_path: Path, name: str) -> None:
    for seed in range(4):
        kills(tmp_path / str(seed), seed, 5, name)
        assert remains(tmp_path / str(seed) / name / "killed") == remains(tmp_path / str(seed) / name / "whole")


@pytest.mark.parametrize("name", names())
def test_every_algorithm_goes_on_exactly(tmp_path: Path, name: str) -> None:
    one = trial(name, steps=12, **({"anneal": 4} if name in ("irm", "vrex", "fishr") else {}))
    run(one, tmp_path / "whole")
    with pytest.raises(Killed):
        run(one, tmp_path / "killed", at=10, then=die)
    assert run(one, tmp_path / "killed") == ["resumes at step 5"]
    assert remains(tmp_path / "killed") == remains(tmp_path / "whole")


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A folder with a trial that was killed after 10 updates, and its checkpoints after 5 and 10."""
    with pytest.raises(Killed):
        run(trial(), tmp_path / "trial", at=13, then=die)
    assert [path.name for path in saved(tmp_path / "trial")] == ["checkpoint-00000010", "checkpoint-00000005"]
    return tmp_path / "trial"


@pytest.fixture
def _heeded() -> Iterator[None]:
    """A shell may have its background jobs, and so these tests, ignore Ctrl-C."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
    before = [signal.signal(number, signal.default_int_handler) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("_heeded")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_saves_stops_and_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    run(trial(), tmp_path / "whole")
    with pytest.raises(Stopped) as stopped:
        run(trial(), tmp_path / "other", at=7, then=lambda: os.kill(os.getpid(), number), checkpoint_every=None)
    assert stopped.value.code == 128 + number
    assert "stopped after 7 updates: start the same command again to go on from there" in capsys.readouterr().err
    assert signal.getsignal(number) is signal.default_int_handler
    assert not (tmp_path / "other" / "result.json").exists()
    assert run(trial(), tmp_path / "other") == ["resumes at step 7"]
    assert remains(tmp_path / "other") == remains(tmp_path / "whole")


@pytest.mark.usefixtures("_heeded")
def test_a_second_signal_does_what_it_always_did() -> None:
    def asked_twice() -> None:
        with listening():
            signal.raise_signal(signal.SIGINT)
            assert stop_requested() == signal.SIGINT
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        asked_twice()
    assert stop_requested() == 0


def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        run(trial(), tmp_path, at=7, then=lambda: signal.raise_signal(signal.SIGUSR1))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (tmp_path / "result.json").exists()


@pytest.mark.usefixtures("_heeded")
def test_a_signal_too_late_for_a_checkpoint_stops_after_the_trial(tmp_path: Path) -> None:
    with pytest.raises(Stopped, match="stopped between two trials"):
        run(trial(), tmp_path, at=20, then=lambda: signal.raise_signal(signal.SIGTERM))
    assert json.loads((tmp_path / "result.json").read_text())["status"] == "finished"


def test_what_has_ended_is_not_repeated(tmp_path: Path) -> None:
    first = execute(trial(), DATA, tmp_path)
    assert run(trial(), tmp_path, at=1, then=die) == []
    assert execute(trial(), DATA, tmp_path) == first
    averaged = execute(trial(average="ema(decay=0.9)"), DATA, tmp_path)
    assert list(averaged["averages"]) == ["ema(decay=0.9)"]


def test_a_result_of_another_process_stands(tmp_path: Path) -> None:
    def publish() -> None:
        (tmp_path / "result.json").write_text('{"status": "failed", "from": "another process"}')

    result = execute(trial(), DATA, tmp_path, watch=lambda *_: publish())
    other = {"status": "failed", "from": "another process"}
    assert json.loads((tmp_path / "result.json").read_text()) == other
    assert result == {**other, "averages": {}}  # which a reader may count on
    assert not list(tmp_path.glob(".result*"))


def test_a_trial_runs_once_however_many_ask_for_it_at_a_time(tmp_path: Path) -> None:
    said: list[str] = []
    evaluations: list[int] = []

    def watch(_: Trial, event: dict[str, Any]) -> None:
        said.extend([event["note"]] if "note" in event else [])
        evaluations.extend([event["step"]] if "validation" in event else [])

    with ThreadPoolExecutor(3) as threads:
        results = list(threads.map(lambda _: execute(trial(), DATA, tmp_path, watch=watch), range(3)))
    assert results[0] == results[1] == results[2]
    assert evaluations == [1, 7, 13, 19, 20]
    assert set(said) <= {f"another process works on the trial in {tmp_path}: waiting for it"}
    assert not (tmp_path / ".lock").exists()


def test_a_trial_that_failed_goes_on_when_it_is_tried_again(tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError("the device is gone")

    run(trial(), tmp_path / "whole")
    run(trial(), tmp_path / "other", at=10, then=fail)
    assert "the device is gone" in json.loads((tmp_path / "other" / "result.json").read_text())["message"]
    assert run(trial(), tmp_path / "other") == ["resumes at step 5"]
    assert remains(tmp_path / "other") == remains(tmp_path / "whole")


def test_a_checkpoint_of_another_trial_or_of_other_data_is_refused_with_the_difference(begun: Path) -> None:
    for other, named in [
        (trial(seed=1), "seed was 0 and is 1"),
        (replace(trial(), fingerprint="x"), f"fingerprint was {DATA.fingerprint} and is x"),
        (replace(trial(), source="edited"), "source was  and is edited"),
    ]:
        result = execute(other, DATA, begun)
        assert result["status"] == "failed"
        assert named in result["message"]
    assert len(saved(begun)) == 2
    assert run(trial(), begun) == ["resumes at step 10"]


def test_other_choices_begin_again_and_say_so(begun: Path, tmp_path: Path) -> None:
    said = run(trial(), begun, keep="none")
    assert "starting over: the interrupted run here used other options (keep was best and is none)" in said[0]
    run(trial(), tmp_path / "whole", keep="none")
    assert remains(begun) == remains(tmp_path / "whole")


def test_another_number_of_threads_is_named(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    said = run(trial(), begun)
    assert any("threads was 1 and is 2" in sentence for sentence in said)
    assert said[-1] == "resumes at step 10"


def test_a_full_disk_costs_a_checkpoint_and_not_the_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(trial(), tmp_path / "whole")
    monkeypatch.setattr(checkpoints, "write", _full)
    said = run(trial(), tmp_path / "full", checkpoint_every=10)
    assert said == ["no checkpoint could be saved after 10 updates, training goes on: No space left on device"]
    assert remains(tmp_path / "full") == remains(tmp_path / "whole")


def test_a_disk_too_full_for_records_is_a_sentence_and_the_trial_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(trial(), tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(records, "append", _from_step(12))
        with pytest.raises(
            InputError, match=r"cannot write to .*: No space left on device. What was saved there stays"
        ):
            run(trial(), tmp_path / "full")
    assert run(trial(), tmp_path / "full") == ["resumes at step 10"]
    assert remains(tmp_path / "full") == remains(tmp_path / "whole")


def test_what_ends_in_the_middle_leaves_the_process_as_it_was_though_its_error_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise torch's generator would be put back whenever the error is forgotten, in the middle of another trial."""
    before = torch.get_rng_state()
    monkeypatch.setattr(records, "append", _from_step(12))
    with pytest.raises(InputError) as kept:
        run(trial(), tmp_path)
    assert torch.equal(torch.get_rng_state(), before)
    assert kept.value.__traceback__ is not None


class CompilerError(RuntimeError):
    """As the compiler wraps whatever happens to it."""

    def __init__(self, inner_exception: Exception) -> None:
        super().__init__(str(inner_exception))
        self.inner_exception = inner_exception


def test_a_full_disk_is_known_through_the_error_a_library_makes_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiling(*_: object, **__: object) -> None:
        raise CompilerError(OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)))

    with monkeypatch.context() as patch:
        patch.setattr(Algorithm, "update", compiling)
        with pytest.raises(InputError, match=r"cannot write to .*: Disk quota exceeded"):
            run(trial(), tmp_path)
    assert not (tmp_path / "result.json").exists()
    assert run(trial(), tmp_path) == []


def _full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _from_step(step: int) -> Callable[[Path, records.Record], None]:
    usual = records.append
    return lambda path, record: _full() if record["step"] >= step else usual(path, record)


def test_a_folder_that_cannot_be_written_to_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot read or write in .*: Not a directory"):
        run(trial(), tmp_path / "file" / "trial")


@pytest.mark.parametrize(
    ("keep", "kept"), [("none", []), ("best", ["best"]), ("all", ["best", "models/0", "models/19"])]
)
def test_as_many_models_are_kept_as_asked(tmp_path: Path, keep: str | bool, kept: list[str]) -> None:
    run(trial(evaluate_every=20), tmp_path, keep=keep, snapshots=0)
    assert sorted(str(path.parent.relative_to(tmp_path)) for path in tmp_path.rglob("*.safetensors")) == kept


def test_snapshots_are_models_spread_over_training(tmp_path: Path) -> None:
    run(trial(), tmp_path, snapshots=2, keep="all")
    assert sorted(path.name for path in (tmp_path / "snapshots").iterdir()) == ["19", "9"]
    assert len(dw.load(tmp_path / "snapshots" / "9").predict(DATA["a"].images)) == 30
    last, final = (dw.load(tmp_path / place).algorithm.net.state_dict() for place in ("models/19", "snapshots/19"))
    assert all(torch.equal(last[key], final[key]) for key in final)
    assert spread(3, 300) == {99, 199, 299}
    assert spread(3, 3) == {0, 1, 2}
    with pytest.raises(InputError, match="from 0 to the 3 updates, got 5"):
        spread(5, 3)


def test_the_room_that_is_asked_for_is_enough_and_not_far_too_much(tmp_path: Path) -> None:
    for i, one in enumerate([trial("fish(inner='adam')"), trial(average="swad(converge=2, tolerance=2)")]):
        with pytest.raises(Killed):
            run(one, tmp_path / str(i), at=19, then=die, keep="all", snapshots=2)
        running = sum(_size(path) for path in saved(tmp_path / str(i)))
        run(one, tmp_path / str(i), keep="all", snapshots=2)
        needed = disk_needed(one, DATA, keep="all", snapshots=2)
        assert running <= needed.running < 2 * running
        assert _size(tmp_path / str(i)) <= needed.afterwards < 2 * _size(tmp_path / str(i))


def test_counting_room_leaves_no_trace_in_the_network_of_somebody_else(tmp_path: Path) -> None:
    file = tmp_path / "kept.py"
    file.write_text(
        "import functools, torch\nfrom torch import nn\n"
        "@functools.cache\ndef kept():\n    return torch.ones(1)\n"
        "def build(channels, classes):\n    kept()\n"
        "    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 4))\n"
    )
    own = replace(trial(), network="kept.py:build", network_file=str(file))
    assert disk_needed(own, DATA).afterwards > 0
    assert module_of(file).kept().device.type == "cpu"


def test_room_is_counted_for_a_network_that_cannot_be_made_without_content(monkeypatch: pytest.MonkeyPatch) -> None:
    made = disk.network_of

    def particular(*given: Any, **settings: Any) -> Any:
        torch.ones(1).item()
        return made(*given, **settings)

    expected = disk_needed(trial(), DATA)
    monkeypatch.setattr(disk, "network_of", particular)
    assert disk_needed(trial(), DATA) == expected


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.safetensors"))


def test_a_wrong_way_to_keep_models_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match='keep must be "best", "none" or "all", got \'some\''):
        run(trial(), tmp_path, keep="some")
    with pytest.raises(InputError, match="snapshots is how many models to keep, from 0 to the 20 updates, got -1"):
        run(trial(), tmp_path, snapshots=-1)
