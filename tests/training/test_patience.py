"""Training ends where validation has settled: exactly, said and seen, and only where it was asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from made_data import stripes
from made_trials import Killed, die, remains, run, trial

import domainwise as dw
from domainwise import InputError
from domainwise.experiment.presets import PRESETS
from domainwise.experiment.records import read
from domainwise.experiment.trial import Trial

SETTLED = {"steps": 400, "evaluate_every": 2, "select_every": 2, "lr": 1e-2, "patience": 3}


def validations(folder: Path) -> list[float]:
    return [
        sum(parts["holdout"]["accuracy"] for name, parts in record["domains"].items() if name != "c")
        for record in read(folder / "records.jsonl")
    ]


def test_training_ends_when_validation_has_not_risen_for_so_many_evaluations(tmp_path: Path) -> None:
    one = trial(**SETTLED)
    run(one, tmp_path)
    result, found = json.loads((tmp_path / "result.json").read_text()), validations(tmp_path)
    best = max(range(len(found)), key=found.__getitem__)  # the first of equals
    assert len(found) == best + 1 + 3
    assert result["selected"]["step"] == 2 * best
    assert result["step"] == 2 * (best + 3)
    assert result["message"] == (
        f"ended after {result['step'] + 1} of 400 updates, since the accuracy on the sources' hold-outs had not "
        "risen for 3 evaluations"
    )


def test_up_to_its_end_it_is_the_same_training(tmp_path: Path) -> None:
    run(trial(**SETTLED), tmp_path / "early")
    run(trial(**{**SETTLED, "steps": 30, "patience": 0}), tmp_path / "whole")
    early, whole = (read(tmp_path / name / "records.jsonl") for name in ("early", "whole"))
    shared = [one["domains"] for one in early if one["step"] < 29]
    assert shared == [one["domains"] for one in whole][: len(shared)]


def test_a_trial_that_ends_early_goes_on_exactly_after_a_kill(tmp_path: Path) -> None:
    one = trial(**SETTLED)
    run(one, tmp_path / "whole")
    *_, record = read(tmp_path / "whole" / "records.jsonl")
    last = record["step"]
    with pytest.raises(Killed):
        run(one, tmp_path / "killed", at=last - 1, then=die)
    assert run(one, tmp_path / "killed") == [f"resumes at step {5 * ((last - 2) // 5)}"]
    assert remains(tmp_path / "killed") == remains(tmp_path / "whole")


def test_an_average_is_evaluated_where_training_ends(tmp_path: Path) -> None:
    one = replace(trial(**SETTLED), average="swad")
    run(one, tmp_path)
    *_, last = read(tmp_path / "records.jsonl")
    assert "swad" in last["averages"]


def test_published_presets_never_end_early_and_ids_are_as_they_were() -> None:
    assert {PRESETS[name]["patience"] for name in ("domainbed", "swad")} == {0}
    one = trial()
    assert "patience" not in one.identity
    assert replace(one, patience=2).id != one.id
    before = {name: value for name, value in one.to_json().items() if name != "patience"}
    assert Trial.from_json(before).id == one.id


def test_it_is_shown(tmp_path: Path, domainwise) -> None:
    results = dw.compare(stripes("abc"), "erm", targets="c", seeds=1, batch=4, output="out", **SETTLED)
    assert results.outcomes[0].result["status"] == "finished"
    shown = " ".join(domainwise("show", "out")[1].split())
    assert "400 steps at most, fewer where 3 evaluations bring nothing better" in shown
    assert "Training ended after" in shown


def test_it_needs_a_selection_that_looks_at_validation() -> None:
    with pytest.raises(InputError, match="patience=2 ends training where validation no longer rises"):
        dw.compare(stripes("abc"), "erm", patience=2, selection="last")
