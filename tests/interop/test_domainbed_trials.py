"""Trials between DomainBed's files and ours, in both directions."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
import typer
from made_domainbed import DRAWS, TRIALS, table, text_of, write_sweep
from made_outcomes import Study
from typer.testing import CliRunner, Result

from domainwise.api import Results
from domainwise.cli.commands.interop import export_domainbed, import_domainbed
from domainwise.errors import InputError
from domainwise.experiment.records import append
from domainwise.experiment.trial import Trial
from domainwise.interop.domainbed import read
from domainwise.interop.domainbed_tables import tables
from domainwise.interop.domainbed_trials import algorithm_of, convert, export
from domainwise.report.tables import accuracy_table, table_by


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    return write_sweep(tmp_path / "sweep")


def test_converted_trials_show_the_same_table_in_our_report(sweep: Path, tmp_path: Path) -> None:
    found = read(sweep)
    folders = convert(found, tmp_path / "ours")
    assert len(folders) == 4 * len(TRIALS) * len(DRAWS)
    results = Results.open(tmp_path / "ours")
    ours = accuracy_table(results.outcomes)
    theirs = table(tables(found), "validation").rows["ERM"]
    assert ours.columns[:5] == ("C", "L", "S", "V", "Avg")
    assert [row.algorithm for row in ours.rows] == ["ERM"]
    assert [cell.mean for cell in ours.rows[0].cells[:5]] == pytest.approx([cell.mean for cell in theirs])
    sample = [cell.error * (cell.n / (cell.n - 1)) ** 0.5 for cell in theirs[:4]]  # DomainBed's is the population's
    assert [cell.error for cell in ours.rows[0].cells[:4]] == pytest.approx(sample)
    assert results.report(tmp_path / "report.html").exists()


def test_a_converted_trial_says_what_the_run_was(sweep: Path, tmp_path: Path) -> None:
    found = read(sweep)
    (own,) = [one for one in found.runs if one.folder.name == "VLCS-ERM-001"]
    outcome = next(
        one for one in Results.open(_ours(found, tmp_path)).outcomes
        if one.trial.targets == ("C",) and one.trial.seed == 0 and one.trial.hyperparameters["hparams_seed"] == 1
    )  # fmt: skip
    assert outcome.trial.fingerprint == "domainbed:VLCS"
    assert outcome.trial.hyperparameters == {**own.hparams, "hparams_seed": 1}
    assert (outcome.trial.steps, outcome.trial.evaluate_every, outcome.trial.holdout) == (601, 300, 0.2)
    raw = json.loads((own.folder / "results.jsonl").read_text().splitlines()[1])
    record = outcome.records()[1]
    assert record["domains"]["L"] == {
        "main": {"accuracy": raw["env1_in_acc"]},
        "holdout": {"accuracy": raw["env1_out_acc"]},
    }
    assert record["seconds"] == 0.5 * 301
    assert outcome.records()[0]["loss"] is None


def _ours(found: Any, tmp_path: Path) -> Path:
    convert(found, tmp_path / "ours")
    return tmp_path / "ours"


def test_converting_twice_changes_nothing_and_other_peoples_folders_are_left_alone(sweep: Path, tmp_path: Path) -> None:
    found = read(sweep)
    before = Results.open(_ours(found, tmp_path)).table("json")
    assert Results.open(_ours(found, tmp_path)).table("json") == before
    with pytest.raises(InputError, match="not from domainwise"):
        convert(found, sweep)


class Ours(Study):
    """Trials whose targets have a hold-out as well, as the training loop leaves them."""

    def _record(self, trial: Trial, *given: Any) -> dict[str, Any]:
        record = super()._record(trial, *given)
        for name in trial.targets:
            parts = record["domains"][name]
            parts["holdout"] = {**parts["main"], "accuracy": 0.9 * parts["main"]["accuracy"]}
        return record


@pytest.fixture
def ours(tmp_path: Path) -> Study:
    study = Ours(tmp_path / "ours", ("art_painting", "cartoon", "photo", "sketch"))
    for name in study.domains:
        for seed in range(3):
            for algorithm, lr in (("erm", 1e-3), ("erm", 2e-3), ("arith", 1e-3)):
                accuracy = 0.5 + 0.03 * seed + 0.01 * len(name) + 20 * lr
                settings = {"hyperparameters": {"lr": lr}, "validation": 0.8 + 10 * lr, "data": "pacs"}
                study.add(algorithm, accuracy, (name,), seed, **settings)
    return study


def test_our_results_come_back_from_domainbeds_files_as_the_same_table(ours: Study, tmp_path: Path) -> None:
    folders = export(ours.outcomes, tmp_path / "theirs")
    assert all((folder / "done").exists() for folder in folders)
    theirs = table(tables(read(tmp_path / "theirs")), "validation", "PACS")
    expected = accuracy_table(ours.outcomes)
    assert theirs.columns == ("art_painting", "cartoon", "photo", "sketch", "Avg")
    assert list(theirs.rows) == ["ERM", "arith"]
    for row, cells in zip(expected.rows, theirs.rows.values(), strict=True):
        assert [cell.mean for cell in cells] == pytest.approx([cell.mean for cell in row.cells[:5]])
        assert [cell.error * 1.5**0.5 for cell in cells[:4]] == pytest.approx([cell.error for cell in row.cells[:4]])


def test_an_exported_line_has_domainbeds_words_and_leaves_out_what_was_not_evaluated(
    ours: Study, tmp_path: Path
) -> None:
    outcome = next(one for one in ours.outcomes if one.trial.targets == ("photo",) and one.trial.seed == 1)
    (folder,) = export([outcome], tmp_path / "theirs")
    lines = [json.loads(text) for text in (folder / "results.jsonl").read_text().splitlines()]
    args = lines[0]["args"]
    assert (args["dataset"], args["test_envs"], args["trial_seed"], args["hparams_seed"]) == ("PACS", [2], 1, 0)
    assert lines[0]["hparams"] == {"batch_size": 32, "resnet_dropout": 0.0, **outcome.trial.hyperparameters}
    accuracies = {key: value for key, value in lines[0].items() if key.endswith("_acc")}
    assert set(accuracies) == {"env0_out_acc", "env1_out_acc", "env2_in_acc", "env2_out_acc", "env3_out_acc"}
    domains = outcome.records()[0]["domains"]
    assert accuracies["env2_in_acc"] == domains["photo"]["main"]["accuracy"]
    assert accuracies["env3_out_acc"] == domains["sketch"]["holdout"]["accuracy"]
    assert [one["step"] for one in lines] == [50, 100, 150, 200, 250, 300]
    assert [one["step_time"] for one in lines[1:]] == pytest.approx([0.01] * 5)


def test_draws_get_numbers_that_are_the_same_for_every_target(ours: Study, tmp_path: Path) -> None:
    export(ours.outcomes, tmp_path / "theirs")
    runs = [one for one in read(tmp_path / "theirs").runs if one.run.algorithm == "ERM"]
    numbers = {(one.run.draw, one.hparams["lr"]) for one in runs}
    assert len(runs) == 24
    assert numbers == {(0, 1e-3), (1, 2e-3)}


def test_what_diverged_is_not_exported_and_nothing_is_overwritten(ours: Study, tmp_path: Path) -> None:
    ours.add("arith", targets=("photo",), seed=7, status="diverged", data="pacs")
    assert len(export(ours.outcomes, tmp_path / "theirs")) == len(ours.outcomes) - 1
    with pytest.raises(InputError, match="not empty"):
        export(ours.outcomes, tmp_path / "theirs")
    with pytest.raises(InputError, match="nothing to export"):
        export([one for one in ours.outcomes if one.result["status"] == "diverged"], tmp_path / "none")


def test_domainbeds_tools_give_our_numbers_where_a_trial_may_not_stop_at_every_evaluation(tmp_path: Path) -> None:
    """PACS, evaluated every 100 updates and selected on every 300th."""
    found = Results.open(Path(__file__).parents[2] / "results" / "pacs").outcomes
    folders = export([one for one in found if not one.averaged], tmp_path / "theirs")
    theirs = table(tables(read(tmp_path / "theirs")), "validation", "PACS")
    assert {name: cells[-1].text() for name, cells in theirs.rows.items()} == {
        "ERM": "81.6", "Fish": "81.1", "arith": "80.5",
    }  # fmt: skip
    first = json.loads((folders[0] / "results.jsonl").read_text().splitlines()[1])
    assert (first["step"], first["args"]["checkpoint_freq"]) == (300, 300)


def test_every_rule_averages_over_the_same_targets_as_domainbed_where_pairs_were_held_out_too(tmp_path: Path) -> None:
    study, dice = Ours(tmp_path / "ours", ("art_painting", "cartoon", "photo", "sketch")), random.Random(0)
    singles = [(name,) for name in study.domains]
    for targets, seed in product([*singles, *combinations(study.domains, 2)], range(2)):
        study.add("erm", 0.5 + 0.4 * dice.random(), targets, seed, data="pacs")
    export(study.outcomes, tmp_path / "theirs")
    made = tables(read(tmp_path / "theirs"))
    for rule in ("validation", "oracle", "leave-one-out"):
        ours = table_by(study.outcomes, rule)
        assert ours.columns == (*study.domains, "Avg", "validation")
        expected = [cell.mean for cell in table(made, rule, "PACS").rows["ERM"]]
        assert [cell.mean for cell in ours.rows[0].cells[:5]] == pytest.approx(expected)
    usual = accuracy_table(study.outcomes)
    assert [cell.mean for cell in usual.rows[0].cells] == [
        cell.mean for cell in table_by(study.outcomes, "validation").rows[0].cells
    ]
    assert "hold out several domains at once" in usual.caption
    assert "several trials" not in usual.caption


def test_two_domains_that_are_only_held_out_together_have_a_column_and_one_each(tmp_path: Path) -> None:
    study = Study(tmp_path).add(targets=("0", "75")).add(targets=("15",))
    columns = ("0+75", "0 of 0+75", "75 of 0+75", "15", "Avg", "validation")
    assert accuracy_table(study.outcomes).columns == columns


def test_an_averaged_model_is_exported_as_a_run_of_its_own(ours: Study, tmp_path: Path) -> None:
    outcome = ours.outcomes[0]
    last = outcome.records()[-1]
    (outcome.folder / "records.jsonl").unlink()
    append(outcome.folder / "records.jsonl", {**last, "average": last["domains"]})
    averaged = replace(outcome, trial=replace(outcome.trial, label="erm + swad"), average="swad")
    names = [folder.name for folder in export([outcome, averaged], tmp_path / "theirs")]
    assert names == [outcome.trial.id, f"{outcome.trial.id}-average"]
    assert "erm + swad" in table(tables(read(tmp_path / "theirs")), "oracle", "PACS").rows


def test_an_imported_sweep_exports_to_where_it_came_from(sweep: Path, tmp_path: Path) -> None:
    found = read(sweep)
    export(Results.open(_ours(found, tmp_path)).outcomes, tmp_path / "back")
    again = read(tmp_path / "back")
    for rule in ("validation", "oracle"):
        assert table(tables(again), rule) == table(tables(found), rule)


@pytest.mark.parametrize(
    ("algorithm", "label", "settings", "expected"),
    [
        ("erm", "", {}, "ERM"),
        ("fish", "fish", {}, "Fish"),
        ("vrex", "vrex", {"penalty": 10.0}, "VREx"),
        ("sandmask", "sandmask", {}, "SANDMask"),
        ("causirl", "causirl", {"distance": "coral"}, "CausIRL_CORAL"),
        ("causirl", "causirl(distance='mmd')", {"distance": "mmd"}, "CausIRL_MMD"),
        ("causirl", "causirl(penalty=2.0)", {"distance": "coral"}, "causirl(penalty=2.0)"),
        ("arith", "arith", {}, "arith"),
        ("erm", "erm(lr=0.1)", {"lr": 0.1}, "erm(lr=0.1)"),
    ],
)
def test_algorithms_are_spelled_as_domainbed_does_where_it_has_them(
    algorithm: str, label: str, settings: dict[str, Any], expected: str
) -> None:
    assert algorithm_of(Trial("pacs", "", ("a",), algorithm, settings, label=label)) == expected


@pytest.fixture
def command() -> Callable[..., Result]:
    app = typer.Typer()
    app.command()(import_domainbed)
    app.command()(export_domainbed)
    return lambda *given: CliRunner().invoke(app, [str(word) for word in given], catch_exceptions=False)


def test_the_command_prints_tables_and_remarks_apart(
    command: Callable[..., Result], sweep: Path, tmp_path: Path
) -> None:
    expected = text_of(sweep)
    with (sweep / "VLCS-ERM-004" / "results.jsonl").open("a") as file:
        file.write('{"args"')
    end = command("import-domainbed", sweep, "-o", tmp_path / "ours")
    assert (end.exit_code, end.stdout) == (0, expected)
    assert "1 line left out: VLCS-ERM-004/results.jsonl, line 4: cut off or not JSON" in end.stderr
    assert f"24 trials in {tmp_path / 'ours'}" in end.stderr
    assert "36 runs not among them" in end.stderr
    back = command("export-domainbed", tmp_path / "ours", "-o", tmp_path / "back")
    assert back.stderr == f"24 runs in {tmp_path / 'back'}\n"
    Study(tmp_path / "pooled").add(selection="pooled").add(seed=1)
    assert "1 chose by a rule" in command("export-domainbed", tmp_path / "pooled", "-o", tmp_path / "other").stderr
    quiet = command("import-domainbed", tmp_path / "back", "-q", "--format", "json")
    assert quiet.stderr == ""
    assert len(json.loads(quiet.stdout)["tables"]) == 6
