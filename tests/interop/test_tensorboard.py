from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_data import stripes
from made_domainbed import write_sweep
from made_many import finished
from made_seals import reseal

from domainwise import InputError, compare
from domainwise.__main__ import main
from domainwise.algorithms import parse
from domainwise.errors import Note
from domainwise.experiment.results import outcomes
from domainwise.experiment.settings import resolve
from domainwise.experiment.trial import Trial
from domainwise.interop.tensorboard import run_name, write
from domainwise.training.plan import plan

DATA = stripes()


@pytest.fixture
def trials() -> list[Trial]:
    return plan(DATA, parse("erm,arith"), [("c",)], [0, 1], resolve())


@pytest.fixture
def folder(tmp_path: Path, trials: list[Trial]) -> Path:
    pytest.importorskip("tensorboard")
    return finished(tmp_path / "out", DATA, trials)


def events(run: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(run), size_guidance={"scalars": 0}).Reload()


def points(run: Path) -> dict[str, list[tuple[int, float]]]:
    found = events(run)
    return {tag: [(one.step, one.value) for one in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def test_every_number_of_a_real_run_is_read_back_and_its_average_too(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    ask = {"targets": "c", "seeds": 1, "steps": 10, "evaluate_every": 3, "average": "ema(decay=0.9)"}
    results = compare(DATA, "erm", **ask, output=tmp_path / "out")
    write(tmp_path / "out", tmp_path / "logs")
    found = points(tmp_path / "logs" / run_name(results.outcomes[0].trial))

    def told(tag: str, name: str, number: str, averaged: bool) -> None:
        part = "main" if name == "c" else "holdout"
        among = [(one["step"], one["domains"][name][part][number]) for one in results.outcomes[averaged].records()]
        assert found.pop(f"averaged {tag}" if averaged else tag) == [(step, pytest.approx(x)) for step, x in among]

    assert [step for step, _ in found.pop("training loss")] == [0, 3, 6, 9]
    for averaged, prefix in enumerate(("", "averaged ")):
        mean = [(a[0], pytest.approx((a[1] + b[1]) / 2)) for a, b in
                zip(*(found[f"{prefix}validation accuracy/{name}"] for name in "ab"), strict=True)]  # fmt: skip
        assert found.pop(f"{prefix}validation accuracy") == mean
        assert found.pop(f"{prefix}target accuracy") == found[f"{prefix}target accuracy/c"]
        told("target accuracy/c", "c", "accuracy", bool(averaged))
        for name in "ab":
            told(f"validation accuracy/{name}", name, "accuracy", bool(averaged))
            told(f"validation loss/{name}", name, "loss", bool(averaged))
    for name, outcome in zip(("reported", "reported ema(decay=0.9)"), results.outcomes, strict=True):
        chosen = outcome.result["selected"]
        assert found.pop(f"{name}/selected step") == [(9, chosen["step"])]
        for kind in ("validation", "target"):
            assert found.pop(f"{name}/{kind} accuracy") == [(9, pytest.approx(chosen[kind]))]
    assert not found


def test_every_trial_is_a_run_with_a_name_to_read_and_its_hyperparameters(folder: Path, trials: list[Trial]) -> None:
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    write(folder, folder / "logs")
    runs = {path.name for path in (folder / "logs").iterdir() if path.is_dir()}
    assert runs == {f"{trial.label}-c-seed{trial.seed}-{trial.id[:8]}" for trial in trials}
    arith = next(trial for trial in trials if trial.label == "arith" and trial.seed == 1)
    told = events(folder / "logs" / run_name(arith)).SummaryMetadata("_hparams_/session_start_info")
    given = HParamsPluginData.FromString(told.plugin_data.content).session_start_info.hparams
    assert given["algorithm"].string_value == "arith"
    assert given["lr"].number_value == arith.hyperparameters["lr"]
    assert given["seed"].number_value == 1


def test_called_again_it_adds_what_is_new_and_nothing_else(folder: Path, trials: list[Trial]) -> None:
    file = folder / "trials" / trials[0].id / "records.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:4]))
    reseal(file.parent)
    counts = [write(folder, folder / "logs").points]
    file.write_text("".join(lines))
    reseal(file.parent)
    counts += [write(folder, folder / "logs").points for _ in range(2)]
    tags = 8  # of a record; and three numbers are reported once
    assert counts == [(3 * 10 + 4) * tags + 4 * 3, 6 * tags, 0]
    for trial in trials:
        found = points(folder / "logs" / run_name(trial))
        # files written within one second are read in the order of their names, which need not be that of time
        assert sorted(step for step, _ in found["training loss"]) == list(range(0, 300, 30))
        assert all(len(steps) == len(dict(steps)) for steps in found.values())


def test_a_point_that_a_kill_has_cut_is_written_again_and_no_other(folder: Path, trials: list[Trial]) -> None:
    (folder / "trials" / trials[0].id / "result.json").unlink()
    write(folder, folder / "logs")
    run = folder / "logs" / run_name(trials[0])
    whole = points(run)
    (file,) = run.iterdir()
    file.write_bytes(file.read_bytes()[:-5])
    assert write(folder, folder / "logs").points == 1
    assert points(run) == whole


def test_a_loss_that_is_not_finite_is_a_point_that_is_not_a_number(folder: Path, trials: list[Trial]) -> None:
    file = folder / "trials" / trials[0].id / "records.jsonl"
    record = {**json.loads(file.read_text().splitlines()[0]), "loss": None}
    file.write_text(json.dumps(record) + "\n")
    reseal(file.parent)
    write(folder, folder / "logs")
    ((_, value),) = points(folder / "logs" / run_name(trials[0]))["training loss"]
    assert math.isnan(value)


@pytest.mark.parametrize("file", ["result.json", "records.jsonl", "trial.json"])
def test_a_damaged_trial_is_named_and_left_out_and_the_others_are_written(
    folder: Path, trials: list[Trial], file: str
) -> None:
    (folder / "trials" / trials[0].id / file).write_text("")
    with pytest.warns(Note, match=f"{trials[0].id}.*{re.escape(file)}.*this trial is left out"):
        told = write(folder, folder / "logs")
    assert told.trials == len(trials) - 1
    assert {path.name for path in (folder / "logs").iterdir() if path.is_dir()} == {run_name(one) for one in trials[1:]}


def test_a_sweep_of_domainbed_can_be_followed_too(
    tmp_path: Path, domainwise: Callable[..., tuple[int, str, str]]
) -> None:
    pytest.importorskip("tensorboard")
    write_sweep(tmp_path / "sweep", pairs=False)
    assert domainwise("import-domainbed", "sweep", "-o", "out")[0] == 0
    code, _, said = domainwise("tensorboard", "out")
    assert code == 0, said


@pytest.mark.skipif(os.name == "nt", reason="nothing is held there")
def test_two_at_once_do_not_write_into_each_other(folder: Path) -> None:
    import fcntl

    (folder / "logs").mkdir()
    with (folder / "logs" / ".lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another process is writing to"):
            write(folder, folder / "logs")
    assert write(folder, folder / "logs").points


def test_the_command_says_where_to_look(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["domainwise", "tensorboard", str(folder), "--follow"])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    said = capsys.readouterr().err
    assert f"new points, 4 trials: tensorboard --logdir {folder / 'tensorboard'}" in said
    assert len(points(folder / "tensorboard" / run_name(outcomes(folder)[0].trial))["target accuracy/c"]) == 10


def test_names_of_runs_are_names_of_folders(trials: list[Trial]) -> None:
    odd = replace(trials[0], label="ideas/my.py:Mine(x='a b')" + "y" * 200, targets=("a/b", "c:d"), draw=3)
    name = run_name(odd)
    assert not set(name) & set("/\\:'* ")
    assert name.startswith("ideas_my.py_Mine(x=_a_b_)yyy")
    assert name.endswith(f"-seed0-draw3-{odd.id[:8]}")
    assert len(name) < 120


def test_without_the_package_it_is_a_sentence(tmp_path: Path, trials: list[Trial], monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    made = finished(tmp_path / "out", DATA, trials)
    with pytest.raises(InputError, match=r"pip install 'domainwise\[tensorboard\]'"):
        write(made, made / "logs")
    assert not (made / "logs").exists()


def test_a_folder_whose_name_is_no_text_is_a_sentence(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="whose name is no text"):
        write(folder, tmp_path / "\udc80")
