"""Processes that run several trials at once, as for a GPU: what is lost with one of them, and what is not."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from made_data import stripes

from domainwise import InputError, compare
from domainwise.algorithms import parse
from domainwise.data.domains import Domains
from domainwise.experiment.settings import resolve
from domainwise.experiment.trial import Trial
from domainwise.sweeps import worker, worker_pool as processes
from domainwise.sweeps.engine import Engine
from domainwise.sweeps.in_process import Many, fitting
from domainwise.sweeps.worker import Place
from domainwise.sweeps.worker_pool import Processes
from domainwise.training.plan import plan
from domainwise.training.run_options import RunOptions
from domainwise.training.run_trial import execute

DATA = stripes()

# Ends as it would where a GPU gives up, at its third update and at the first attempt, or at every one.
LOST = """
from pathlib import Path
import time
import torch
from domainwise.algorithms import Algorithm, algorithm

@algorithm
class {name}(Algorithm):
    def update(self, batches):
        mark = Path(__file__).with_suffix(".begun")
        self.updates = getattr(self, "updates", 0) + 1
        if self.updates == 1:
            self.first = not mark.exists()
            mark.touch()
        if self.updates == 3 and ({always} or self.first):
            raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
        return super().update(batches)
"""
HANGING = LOST.replace(
    'raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")',
    'Path(__file__).with_suffix(".hangs").open("a").write("."); time.sleep(600)',
)


def trials(text: str = "erm,fish", **given: object) -> list[Trial]:
    return plan(DATA, parse(text), [("c",)], [0], resolve(given={"steps": 12, "evaluate_every": 4, **given}))


def run(packed: list[Trial], folder: Path, room: Many = 3) -> dict[str, dict[str, Any]]:
    found = {}

    def watch(trial: Trial, event: dict[str, Any]) -> None:
        if "result" in event:
            assert trial.label not in found
            found[trial.label] = event["result"]

    Processes([Place(RunOptions(), room)], DATA, folder, watch).run(packed)
    return found


def as_alone(packed: list[Trial], found: dict[str, dict[str, Any]], folder: Path) -> bool:
    alone = {trial.label: execute(trial, DATA, folder / trial.id) for trial in packed}
    return all(found[label]["selected"] == result["selected"] for label, result in alone.items())


def written(folder: Path, text: str, name: str) -> str:
    file = folder / f"{name.lower()}.py"
    file.write_text(text.replace("{always}", str(name == "Always")).replace("{name}", name))
    return f"{file}:{name}"


def test_trials_that_share_a_process_come_out_as_alone(tmp_path: Path) -> None:
    """Those with dropout would disturb others, and wait until they have a process to themselves."""
    packed = [*trials(), *(replace(trial, dropout=0.5) for trial in trials("coral,vrex"))]
    assert as_alone(packed, run(packed, tmp_path / "packed"), tmp_path / "alone")


@pytest.mark.parametrize("room", ["auto", pytest.param(4, marks=pytest.mark.slow)])
def test_a_lost_device_costs_the_others_of_its_process_nothing(tmp_path: Path, room: Many) -> None:
    """It is lost once by one trial, and at every attempt by another."""
    others = trials()
    losing = [trial for name in ("Once", "Always") for trial in trials(written(tmp_path, LOST, name))]
    found = run([*others, *losing], tmp_path / "out", room)
    assert found["Once"]["status"] == "finished"
    assert found["Always"]["status"] == "failed"
    assert "CUDA error: an illegal memory access was encountered" in found["Always"]["message"]
    assert as_alone(others, found, tmp_path / "alone")


def test_a_trial_that_hangs_is_ended_and_the_others_of_its_process_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver's clock leaps over the timeout whenever the trial hangs, however slow this machine is."""
    algorithms, hangs = f"{written(tmp_path, HANGING, 'Always')},erm", tmp_path / "always.hangs"
    hangs.touch()
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + 1000 * hangs.stat().st_size)
    monkeypatch.setattr(worker, "time", clock)
    monkeypatch.setattr(Engine, "places", [Place(RunOptions(), 3)])
    results = compare(DATA, algorithms, targets="c", seeds=1, steps=12, output=tmp_path / "out", timeout=600)
    (hanging,) = results.troubled
    assert hanging.trial.label == "Always"
    assert hanging.result["message"] == "it took longer than 600 s and was ended"
    assert [one.result["status"] for one in results.outcomes if one is not hanging] == ["finished"]


def test_a_lost_device_in_this_process_is_a_failed_trial(tmp_path: Path) -> None:
    found = {}
    (trial,) = trials(written(tmp_path, LOST, "Always"))
    Engine().run([trial], DATA, tmp_path, lambda trial, event: found.update(event))
    assert found["result"]["status"] == "failed"
    assert found["result"]["message"].startswith("the device can no longer be used: CUDA error")


FULL = """
from domainwise.algorithms import Algorithm, algorithm

@algorithm
class Full(Algorithm):
    def update(self, batches):
        raise {error}
"""


@pytest.mark.parametrize("error", ["MemoryError", 'RuntimeError("DefaultCPUAllocator: cannot allocate memory")'])
def test_too_little_memory_is_not_written_down_against_a_trial(tmp_path: Path, error: str) -> None:
    (tmp_path / "full.py").write_text(FULL.format(error=error))
    (trial,) = trials(f"{tmp_path / 'full.py'}:Full")
    with pytest.raises(InputError, match=r"too little for the trial.*Cannot allocate memory"):
        Engine().run([trial], DATA, tmp_path, lambda trial, event: None)
    if error == "MemoryError":
        with pytest.raises(InputError, match=r"too little for the trial.*Cannot allocate memory"):
            run([trial], tmp_path)
    assert not (tmp_path / "trials" / trial.id / "result.json").exists()


def test_a_process_that_cannot_start_is_not_written_down_against_a_trial(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(processes, "STARTS", 1)
    monkeypatch.setattr(Domains, "save", lambda self, folder: None)
    with pytest.raises(InputError, match=r"no process can be started.*exit code 1.*about\.json is missing"):
        run(trials(), tmp_path)
    assert not (tmp_path / "trials").exists()


def test_there_is_a_process_for_each_gpu_unless_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    every, one = Engine(RunOptions("cuda"), per_gpu=3), Engine(RunOptions("cuda:1"), per_gpu="auto")
    assert [(place.options.device, place.room) for place in every.places] == [("cuda:0", 3), ("cuda:1", 3)]
    assert [(place.options.device, place.room) for place in one.places] == [("cuda:1", "auto")]
    assert (every.at_once, one.at_once, Engine(processes=5).at_once) == (6, 4, 5)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)  # as where a cluster is started from
    assert Engine(RunOptions("cuda")).at_once == 1


@pytest.mark.parametrize(("free", "room"), [(90, 4), (25, 3), (14, 2), (10, 1), (0, 1)])
def test_as_many_share_a_gpu_as_its_memory_has_room_for(free: int, room: int) -> None:
    """The first one takes ten; a fifth of what is free then is spared."""
    assert fitting(free + 10, free, most=4) == room
