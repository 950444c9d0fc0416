"""On a GPU, too, a trial that was stopped goes on as if it had not been: captured, and several in one process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from made_data import stripes

from domainwise.acceleration.cuda_graph import Fast
from domainwise.algorithms import parse
from domainwise.experiment import records
from domainwise.experiment.settings import resolve
from domainwise.experiment.trial import Trial
from domainwise.sweeps.in_process import run_packed
from domainwise.training.plan import plan
from domainwise.training.run_options import RunOptions

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")]

DATA = stripes()
EXACT = RunOptions("cuda", Fast(deterministic=True), snapshots=1)


def trials(text: str = "erm,arith", **given: object) -> list[Trial]:
    backbone = {"network": "resnet18", "weights": "none", "freeze_batch_norm": True, "input_size": 32}
    settings = resolve(given={"steps": 40, "evaluate_every": 8, "batch": 8, **backbone, **given})
    return plan(DATA, parse(text), [("c",)], [0], settings, "swad")


class Killed(BaseException):
    pass


def run(packed: list[Trial], folder: Path, options: RunOptions, kill: str = "") -> None:
    """All of them; the process of the algorithm ``kill`` seems to die in the middle of it."""

    def watch(trial: Trial, event: dict[str, Any]) -> None:
        assert event.get("result", {"status": "finished"})["status"] == "finished", event
        if trial.algorithm == kill and event.get("step", 0) > 20:
            raise Killed

    run_packed(packed, DATA, folder, at_once=len(packed), options=options, watch=watch)


def remains(folder: Path, packed: list[Trial]) -> dict[str, object]:
    found: dict[str, object] = {}
    for trial in packed:
        home = folder / "trials" / trial.id
        found |= {f"{trial.id}/{file.name}": file.read_bytes() for file in home.rglob("*.safetensors")}
        found[trial.id] = [{**line, "seconds": 0} for line in records.read(home / "records.jsonl")]
    return found


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("text", ["arith", "erm,arith"])
def test_deterministic_trials_go_on_bit_for_bit(tmp_path: Path, text: str, precision: str) -> None:
    packed = trials(text, precision=precision)
    run(packed, tmp_path / "whole", EXACT)
    with pytest.raises(Killed):
        run(packed, tmp_path / "killed", EXACT, kill="arith")
    run(packed, tmp_path / "killed", EXACT)
    whole, killed = remains(tmp_path / "whole", packed), remains(tmp_path / "killed", packed)
    assert list(whole) == list(killed)
    assert [name for name in whole if whole[name] != killed[name]] == []


def test_others_go_on_within_what_kernels_vary(tmp_path: Path) -> None:
    (one,) = trials("arith", precision="fp32")
    options = RunOptions("cuda")
    run([one], tmp_path / "whole", options)
    with pytest.raises(Killed):
        run([one], tmp_path / "killed", options, kill="arith")
    run([one], tmp_path / "killed", options)
    losses = {
        name: [line["loss"] for line in records.read(tmp_path / name / "trials" / one.id / "records.jsonl")]
        for name in ("whole", "killed")
    }
    assert losses["killed"] == pytest.approx(losses["whole"], rel=1e-2)
    results = [json.loads((tmp_path / name / "trials" / one.id / "result.json").read_text()) for name in losses]
    assert results[0]["selected"]["step"] == results[1]["selected"]["step"]
