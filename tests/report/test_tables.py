"""The table of accuracies and the frame of trials say what the results say, and no more."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from made_outcomes import Study

from domainwise.errors import InputError
from domainwise.report.formats import Cell, Table
from domainwise.report.frames import frame
from domainwise.report.page.page import render
from domainwise.report.tables import accuracy_table


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path)


def cell(table: Table, algorithm: str, column: str) -> Cell:
    row = next(row for row in table.rows if row.algorithm == algorithm)
    return row.cells[table.columns.index(column)]


def add_seeds(study: Study, algorithm: str, accuracies: list[float], target: str = "75") -> None:
    for seed, accuracy in enumerate(accuracies):
        study.add(algorithm, accuracy, (target,), seed)


def test_the_baseline_comes_first_and_numbers_in_names_count_as_numbers(study: Study) -> None:
    study.domains = ("105", "15", "9", "x")
    for algorithm in ("fish", "erm", "arith"):
        for target in study.domains[:3]:
            study.add(algorithm, targets=(target,))
    table = accuracy_table(study.outcomes)
    assert [row.algorithm for row in table.rows] == ["erm", "arith", "fish"]
    assert table.columns == ("9", "15", "105", "Avg", "validation")


def test_a_cell_is_the_mean_over_seeds_and_the_sample_standard_error(study: Study) -> None:
    accuracies = [0.70, 0.72, 0.77]
    add_seeds(study, "erm", accuracies)
    table = accuracy_table(study.outcomes)
    found = cell(table, "erm", "75")
    assert found.mean == pytest.approx(np.mean(accuracies))
    assert found.error == pytest.approx(np.std(accuracies, ddof=1) / np.sqrt(3))
    assert found.text == "73.0 ± 2.1"
    assert "± is the standard error over 3 seeds (of a sample, n - 1)" in table.caption
    assert "a 95 % interval reaches 4.3 times as far" in table.caption


def test_one_seed_has_no_error_and_the_caption_says_why(study: Study) -> None:
    table = accuracy_table(study.add("erm", 0.712).outcomes)
    assert cell(table, "erm", "75").text == "71.2"
    assert "±" not in table.render("table")
    assert "One seed each" in table.caption


def test_the_average_takes_unrounded_means_and_the_seeds_every_target_has(study: Study) -> None:
    add_seeds(study, "erm", [0.6004, 0.7004, 0.9], target="0")
    add_seeds(study, "erm", [0.5004, 0.8004], target="75")
    average = cell(accuracy_table(study.outcomes), "erm", "Avg")
    assert average.mean == pytest.approx((np.mean([0.6004, 0.7004, 0.9]) + 0.6504) / 2)
    assert average.values == pytest.approx({0: 0.5504, 1: 0.7504})
    assert average.error == pytest.approx(np.std([0.5504, 0.7504], ddof=1) / np.sqrt(2))


def test_a_cell_with_fewer_seeds_than_others_says_so(study: Study) -> None:
    add_seeds(study, "erm", [0.6, 0.7, 0.8])
    add_seeds(study, "arith", [0.7, 0.7])
    assert cell(accuracy_table(study.outcomes), "arith", "75").text == "70.0 ± <0.1 (2 seeds)"


def test_diverged_failed_and_missing_cells_are_named_and_leave_no_average(study: Study) -> None:
    add_seeds(study, "erm", [0.7, 0.7], target="0")
    study.add("arith", targets=("75",), status="diverged", ended=120)
    study.add("fish", targets=("75",), status="failed")
    study.add("fish", targets=("0",))
    table = accuracy_table(study.outcomes)
    assert cell(table, "arith", "75").text == "diverged at 120"
    assert cell(table, "fish", "75").text == "failed"
    assert cell(table, "erm", "75").text == "\N{EN DASH}"
    assert {cell(table, name, "Avg").text for name in ("erm", "arith", "fish")} == {"\N{EN DASH}"}


def test_seeds_that_diverged_are_left_out_of_the_mean_and_counted(study: Study) -> None:
    study.add(accuracy=0.6, seed=0).add(accuracy=0.8, seed=1).add(seed=2, status="diverged", ended=120)
    table = accuracy_table(study.outcomes)
    assert cell(table, "erm", "75").text == "70.0 ± 10.0 (1 of 3 diverged at 120)"
    assert cell(table, "erm", "Avg").text == "70.0 ± 10.0 (without 1 of 3 trials)"


def test_an_accuracy_reached_before_diverging_does_not_count(study: Study) -> None:
    (outcome,) = study.add(status="diverged", ended=120).outcomes
    outcome.result["selected"] = outcome.result["last"]
    assert cell(accuracy_table([outcome]), "erm", "75").mean is None


def test_seeds_lost_for_different_reasons_are_all_named(study: Study) -> None:
    study.add(seed=0, status="diverged", ended=90).add(seed=1, status="diverged", ended=60).add(seed=2, status="failed")
    assert cell(accuracy_table(study.outcomes), "erm", "75").text == "2 of 3 diverged at 60, 90, 1 of 3 failed"


def test_best_and_second_best_are_marked_and_what_prints_the_same_ranks_the_same(study: Study) -> None:
    study.add("erm", 0.6).add("arith", 0.71204).add("fish", 0.71201).add("coral", 0.65)
    table = accuracy_table(study.outcomes)
    ranks = {row.algorithm: row.cells[0].rank for row in table.rows}
    assert ranks == {"erm": 0, "arith": 1, "fish": 1, "coral": 0}
    without = accuracy_table([outcome for outcome in study.outcomes if outcome.trial.algorithm != "fish"])
    assert "65.0 °" in without.render("table")
    assert "71.2 *" in without.render("table")
    assert "| **71.2** |" in without.render("markdown")
    assert "| _65.0_ |" in without.render("markdown")


def test_the_best_of_the_seeds_that_survived_is_not_marked(study: Study) -> None:
    study.add("arith", 0.99).add("arith", seed=1, status="diverged").add("erm", 0.6).add("fish", 0.7)
    table = accuracy_table(study.outcomes)
    assert {row.algorithm: row.cells[0].rank for row in table.rows} == {"erm": 2, "arith": 0, "fish": 1}
    assert "never marked" in table.caption


def test_one_algorithm_alone_is_not_called_best(study: Study) -> None:
    table = accuracy_table(study.add().outcomes)
    assert not table.marked
    assert "best" not in table.render("table")


def test_several_targets_of_one_trial_share_a_column(study: Study) -> None:
    table = accuracy_table(study.add("erm", 0.7, ("0", "75")).outcomes)
    assert table.columns == ("0+75", "0 of 0+75", "75 of 0+75", "Avg", "validation")
    assert cell(table, "erm", "0+75").mean == pytest.approx(0.7)


def test_targets_of_different_data_do_not_fall_into_one_column(study: Study) -> None:
    table = accuracy_table(study.add(data="one").add(data="two").outcomes)
    assert table.columns[:2] == ("one: 75", "two: 75")


def test_of_several_trials_of_a_seed_the_best_by_validation_counts(study: Study) -> None:
    study.add(accuracy=0.9, validation=0.8, hyperparameters={"lr": 0.1})
    study.add(accuracy=0.6, validation=0.9, hyperparameters={"lr": 0.2})
    study.add(accuracy=0.7, validation=0.99, hyperparameters={"lr": 0.3}, status="diverged")
    for outcomes in (study.outcomes, study.outcomes[::-1]):
        table = accuracy_table(outcomes)
        assert cell(table, "erm", "75").text == "60.0"
        assert "best validation accuracy counts" in table.caption


def test_validation_is_the_mean_over_everything_finished(study: Study) -> None:
    study.add(validation=0.9).add(seed=1, validation=0.8).add(seed=2, validation=0.1, status="failed")
    assert cell(accuracy_table(study.outcomes), "erm", "validation").mean == pytest.approx(0.85)


def test_json_and_csv_carry_every_digit(study: Study) -> None:
    add_seeds(study, "erm", [1 / 3, 2 / 7])
    table = accuracy_table(study.outcomes)
    first = json.loads(table.render("json"))["rows"][0]["cells"][0]
    assert first["mean"] == cell(table, "erm", "75").mean
    assert first["values"] == pytest.approx({"0": 1 / 3, "1": 2 / 7})
    line = next(csv.DictReader(io.StringIO(table.render("csv"))))
    assert (float(line["mean"]), float(line["error"]), line["n"]) == (first["mean"], first["error"], "2")
    assert float(line["seed 1"]) == first["values"]["1"]


def test_decimal_points_stand_below_each_other(study: Study) -> None:
    add_seeds(study, "erm", [1.0, 1.0])
    add_seeds(study, "arith", [0.05, 0.07])
    lines = accuracy_table(study.outcomes).render("table").splitlines()
    assert lines[2].index(".") == lines[3].index(".")


def test_an_unknown_format_is_answered_with_the_closest(study: Study) -> None:
    with pytest.raises(InputError, match=r'no table format "markdwn": did you mean markdown\?'):
        accuracy_table(study.add().outcomes).render("markdwn")


def test_markdown_survives_any_name(study: Study) -> None:
    study.domains = ("a|b", "<i>", "c")
    table = accuracy_table(study.add("erm", targets=("a|b",), label="_x_ *y*\nz(inner_steps=3)").outcomes)
    header, _, row, *_ = table.render("markdown").splitlines()
    assert header.startswith(r"| algorithm | a\|b |")
    assert row.startswith(r"| \_x\_ \*y\* z(inner_steps=3) |")


def test_a_name_in_brackets_is_no_markup_for_the_terminal(study: Study) -> None:
    from rich.console import Console

    console = Console(file=io.StringIO(), width=120)
    console.print(accuracy_table(study.add(label="[bold]mine").outcomes).rich())
    assert "[bold]mine" in console.file.getvalue()  # type: ignore[attr-defined]


def test_no_outcome_is_a_table_without_rows_in_every_format() -> None:
    table = accuracy_table([])
    assert table.render("table") == table.render("markdown") == "No trial has come to an end yet.\n"
    assert len(table.render("csv").splitlines()) == 1
    assert json.loads(table.render("json"))["rows"] == []


def test_the_frame_has_one_row_per_trial_with_its_hyperparameters(study: Study) -> None:
    study.add("erm", 0.7, seed=1).add("arith", 0.8, ("0", "75"), hyperparameters={"inner_lr": 0.01})
    study.add("arith", seed=1, status="diverged", ended=120)
    trials = frame(study.outcomes)
    assert len(trials) == 3
    multiple = trials[trials["targets"] == "0+75"].iloc[0]
    assert (multiple["algorithm"], multiple["step"], multiple["hyper.inner_lr"]) == ("arith", 250, 0.01)
    assert multiple["target_accuracy"] == pytest.approx(0.8)
    assert multiple["last_target_accuracy"] == pytest.approx(0.98 * 0.8)
    diverged = trials[trials["status"] == "diverged"].iloc[0]
    assert np.isnan(diverged["target_accuracy"])
    assert "not finite at step 120" in diverged["message"]


def test_the_frame_of_nothing_still_has_its_columns() -> None:
    assert {"id", "algorithm", "targets", "seed", "status", "target_accuracy"} <= set(frame([]).columns)


def test_a_table_says_what_domains_held_out_together_are(tmp_path: Path) -> None:
    together = accuracy_table(Study(tmp_path / "together").add("erm", 0.7, ("0", "15")).outcomes).render()
    assert '"0+15" is domains held out together: the mean' in " ".join(together.split())
    assert "together" not in accuracy_table(Study(tmp_path / "alone").add("erm").outcomes).render()


def test_domains_held_out_together_have_a_column_each_that_no_mean_counts(tmp_path: Path) -> None:
    study = Study(tmp_path)
    for seed, accuracy in enumerate((0.5, 0.7)):
        study.add(accuracy=accuracy, targets=("0", "15"), seed=seed).add(accuracy=0.9, targets=("75",), seed=seed)
    table = accuracy_table(study.outcomes)
    assert table.columns == ("0+15", "0 of 0+15", "15 of 0+15", "75", "Avg", "validation")
    together, first, second, alone, mean, _ = table.rows[0].cells
    for cell, name in ((first, "0"), (second, "15")):
        found = {one.trial.seed: one.selected["targets"][name] for one in study.outcomes if name in one.trial.targets}
        assert cell.values == found
    assert together.mean == pytest.approx((first.mean + second.mean) / 2)  # type: ignore[operator]
    assert mean.mean == pytest.approx((together.mean + alone.mean) / 2)  # type: ignore[operator]
    page = render(study.outcomes)
    assert "15 of 0+15" in page
