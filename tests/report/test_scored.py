"""A table in another metric has that metric of the same images, and what goes wrong is said with where it did."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from made_data import stripes
from made_outcomes import Study

import domainwise as dw
from domainwise.experiment import outcomes
from domainwise.experiment.metrics import METRICS
from domainwise.report.results import Results

Command = Callable[..., tuple[int, str, str]]  # the command line, in an empty folder


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dw.Results:
    folder = tmp_path_factory.mktemp("results") / "out"
    return dw.compare(stripes(), "erm", targets="a,b+c", seeds=2, steps=2, set={"lr": 1e-4}, output=folder)


def cells(results: dw.Results, metric: str) -> dict[str, list[float]]:
    rows = csv.DictReader(io.StringIO(results.table("csv", metric=metric)))
    return {row["column"]: [float(row[name]) for name in row if name.startswith("seed") and row[name]] for row in rows}


def expected(results: dw.Results, of: Callable[[outcomes.Numbers, outcomes.Numbers], float]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for one in sorted(results.outcomes, key=lambda one: one.trial.seed):
        parts = [outcomes.read(one)[name]["main"] for name in one.trial.targets]
        column = "+".join(one.trial.targets)
        found.setdefault(column, []).append(float(np.mean([of(part.label, part.probabilities()) for part in parts])))
    return found


@pytest.mark.parametrize("name", METRICS)
def test_a_table_has_the_metric_of_what_the_models_made_of_the_targets(results: dw.Results, name: str) -> None:
    found = cells(results, name)
    for column, values in expected(results, METRICS[name].of).items():
        assert found[column] == pytest.approx(values)
    assert results.table(metric=name).count(METRICS[name].title[1:]) >= 1


def test_the_table_of_accuracies_is_the_same_either_way_and_the_worst_target_takes_the_place_of_the_mean(
    results: dw.Results,
) -> None:
    assert results.table("csv", metric="accuracy") == results.table("csv")
    plain, worst = cells(results, "accuracy"), cells(results, "worst_domain")
    assert worst["worst"] == [min(pair) for pair in zip(plain["a"], plain["b+c"], strict=True)]
    assert worst["a"] == plain["a"]


def test_a_metric_of_ones_own_is_called_with_labels_and_probabilities(
    results: dw.Results, tmp_path: Path, domainwise: Command
) -> None:
    (tmp_path / "mine.py").write_text(
        "def score(labels, probabilities):\n"
        "    assert probabilities.shape == (len(labels), 2)\n"
        "    return probabilities[range(len(labels)), labels].mean()\n"
        "def nan(labels, probabilities):\n    return float('nan')\n"
        "def wrong(labels, probabilities):\n    return labels.no_such\n"
    )
    place = f"{tmp_path / 'mine.py'}:score"
    mine = expected(results, lambda labels, shares: float(shares[np.arange(len(labels)), labels].mean()))
    found = cells(results, place)
    assert {name: found[name] for name in mine} == {name: pytest.approx(values) for name, values in mine.items()}
    code, out, _ = domainwise("report", results.folder, "--metric", "mine.py:score")
    assert (code, "mine.py:score, times 100, in percent" in out) == (0, True)
    for name, said in (
        ("mine.py:nan", 'gave nan for 24 labels: let it give a finite number, on the main part of domain "a" in'),
        ("mine.py:wrong", "raised AttributeError: 'numpy.ndarray' object has no attribute 'no_such', on the main part"),
        ("mine.py:scor", 'mine.py has no function "scor": did you mean score?'),
        ("gone.py:f", "there is no gone.py"),
        ("balanced", "did you mean balanced_accuracy?"),
    ):
        code, _, told = domainwise("report", results.folder, "--metric", name)
        assert (code, said in told) == (2, True), told
    code, _, told = domainwise("report", results.folder, "--metric", "auroc", "--select", "last")
    assert (code, "give select or metric, not both" in told) == (2, True)


def test_results_without_outcomes_say_what_is_missing(tmp_path: Path) -> None:
    study = Study(tmp_path).add("erm", 0.6)
    with pytest.raises(dw.InputError, match=r"has no outcomes\.npz: the trial was run by a version that kept no"):
        Results(tuple(study.outcomes), tmp_path).table(metric="auroc")
