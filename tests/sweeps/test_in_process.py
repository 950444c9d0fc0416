from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from made_data import stripes

from domainwise import InputError
from domainwise.algorithms import parse
from domainwise.experiment import records
from domainwise.experiment.settings import resolve
from domainwise.sweeps.in_process import run_packed
from domainwise.training.plan import plan
from domainwise.training.run_options import RunOptions
from domainwise.training.run_trial import execute

DATA = stripes()
HERE = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")],
    ),
]


def trials(text: str = "erm,arith,fish,coral", **given: object) -> list:
    settings = resolve(given={"steps": 30, "evaluate_every": 10, **given})
    return plan(DATA, parse(text), [("c",)], [0], settings)


@pytest.mark.parametrize("device", HERE)
def test_a_packed_trial_equals_the_same_trial_alone(tmp_path: Path, device: str) -> None:
    found = {}
    run_packed(
        trials(),
        DATA,
        tmp_path / "packed",
        options=RunOptions(device),
        watch=lambda trial, event: found.update({trial.id: event["result"]} if "result" in event else {}),
    )
    for trial in trials():
        alone = execute(trial, DATA, tmp_path / "alone" / trial.id, RunOptions(device))
        assert found[trial.id]["selected"]["validation"] == pytest.approx(alone["selected"]["validation"], abs=1e-6)
        assert found[trial.id]["selected"]["targets"] == pytest.approx(alone["selected"]["targets"], abs=1e-6)
        assert (tmp_path / "packed" / "trials" / trial.id / "best" / "config.json").exists()


DRAWING = """
import torch
from domainwise.algorithms import Algorithm, algorithm, hyper

@algorithm
class Drawing(Algorithm):
    \"\"\"Draws something of its own after the network.\"\"\"
    which: int = hyper(0)

    def setup(self, net, *, seed=None):
        self.noise = torch.randn(1000)
        return super().setup(net, seed=seed)

    def loss(self, batches):
        return super().loss(batches) + self.noise.sum()
"""


def test_what_an_algorithm_draws_as_it_is_set_up_is_the_same_packed(tmp_path: Path) -> None:
    file = tmp_path / "drawing.py"
    file.write_text(DRAWING)
    many = trials(",".join(f"{file}:Drawing(which={i})" for i in range(4)), steps=1)
    run_packed(many, DATA, tmp_path / "packed", options=RunOptions())
    losses = {
        trial.id: next(records.read(tmp_path / "packed" / "trials" / trial.id / "records.jsonl"))["loss"]
        for trial in many
    }
    for trial in many:
        execute(trial, DATA, tmp_path / "alone" / trial.id)
        alone = next(records.read(tmp_path / "alone" / trial.id / "records.jsonl"))
        assert losses[trial.id] == alone["loss"]


@pytest.mark.parametrize("device", HERE)
def test_what_goes_wrong_in_one_ends_only_that_one(tmp_path: Path, device: str) -> None:
    packed = [
        *trials("erm"),
        *trials("arith(lr=1e30, inner_lr=1e30)"),
        replace(trials("fish")[0], network="nothing"),
    ]
    found = {}
    run_packed(
        packed,
        DATA,
        tmp_path,
        options=RunOptions(device),
        watch=lambda trial, event: found.update(
            {trial.algorithm: event["result"]["status"]} if "result" in event else {}
        ),
    )
    assert found == {"erm": "finished", "arith": "diverged", "fish": "failed"}


def test_trials_that_would_disturb_each_other_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="dropout"):
        run_packed(trials(dropout=0.1), DATA, tmp_path, options=RunOptions())
    with pytest.raises(InputError, match="precision"):
        run_packed([*trials("erm"), *trials("erm", precision="bf16")], DATA, tmp_path, options=RunOptions())
