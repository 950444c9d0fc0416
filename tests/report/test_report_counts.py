"""Sections that come from counts: classes, confusion, calibration and the measures beside accuracy."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from made_counts import count
from made_outcomes import Study

from domainwise.experiment import records
from domainwise.experiment.results import variants
from domainwise.report.frames import frame
from domainwise.report.grid import Grid, arrange
from domainwise.report.page import classes, measures
from domainwise.report.page.classes import Tallies, class_names, tallies
from domainwise.report.page.figures import CURVES, legible
from domainwise.report.page.page import render
from domainwise.report.tables import accuracy_table

SCRIPT = "<script>alert(1)</script>"


def arranged(study: Study) -> tuple[Grid, Tallies]:
    grid = arrange(list(variants(study.outcomes)))
    return grid, tallies(grid)


NAMES = {"75": ["cat", "dog"]}


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Two seeds of one algorithm: 5 of 10 and 9 of 10 cats recognised, all dogs."""
    made = Study(tmp_path).add(seed=0).add(seed=1)
    count(made, [[5, 5], [0, 10]], [[9, 1], [0, 20]])
    return made


def test_a_class_is_as_well_recognised_as_the_mean_over_seeds_says(study: Study) -> None:
    _, found = arranged(study)
    assert classes.recognised(found, NAMES)["75"] == classes.Heat(["cat", "dog"], {"erm": [0.7, 1.0]})


def test_a_class_without_images_has_no_share(tmp_path: Path) -> None:
    study = Study(tmp_path).add()
    count(study, [[0, 0], [5, 5]])
    _, found = arranged(study)
    assert classes.recognised(found, NAMES)["75"].rows["erm"] == [None, 0.5]


def test_a_matrix_is_over_all_seeds_and_says_which_images_it_counts(study: Study) -> None:
    _, found = arranged(study)
    (matrix,) = classes.matrices(found, NAMES)["75"]
    rows = {name: [(cell.percent, cell.right) for cell in cells] for name, cells in matrix.rows}
    assert rows == {"cat": [("70", True), ("30", False)], "dog": [("0", False), ("100", True)]}
    assert matrix.rows[0][1][1].told == "6 of 20 images of cat taken for dog (30.0 %)"
    assert 'title="6 of 20 images of 0 taken for 1 (30.0 %)"' in render(study.outcomes)  # nobody named the classes


def test_of_many_classes_the_hardest_and_the_pairs_most_confused_are_shown(tmp_path: Path) -> None:
    many = classes.MOST + 5
    confusion = 10 * np.eye(many, dtype=int)
    confusion[3, 3], confusion[3, 7] = 4, 6
    study = Study(tmp_path).add()
    count(study, confusion.tolist())
    grid, found = arranged(study)
    names = {"75": class_names(grid, found, "75")}
    heat = classes.recognised(found, names)["75"]
    assert (heat.columns[0], heat.rows["erm"][0], len(heat.columns), heat.left_out) == ("3", 0.4, classes.MOST, 5)
    pairs = classes.confused(found, names)["75"]
    assert (pairs.columns[0], pairs.rows["erm"][0]) == ("3 → 7", 0.6)
    assert not classes.matrices(found, names)
    assert "3 → 7" in render(study.outcomes)


def test_calibration_errors_are_means_over_seeds_of_each_trials_own(study: Study) -> None:
    _, found = arranged(study)
    error = (abs(0.9 - 15 / 20) + abs(0.9 - 29 / 30)) / 2
    assert measures.calibration(found)["erm"] == pytest.approx([error, error])


def test_a_reliability_diagram_has_its_dot_where_confidence_and_accuracy_meet(study: Study) -> None:
    _, found = arranged(study)
    (panel,) = measures.diagrams(found)
    paths = [one.get("d", "") for one in ElementTree.fromstring(panel.svg).iter()]
    (even,) = [path for path in paths if path.count("L") == 1]
    (x0, y0), (x1, y1) = [map(float, place.split()) for place in even[1:].split("L")]
    (dot,) = [path for path in paths if path.endswith("h0")]
    x, y = map(float, dot[1:-2].split())
    assert (x - x0) / (x1 - x0) == pytest.approx(0.9, abs=0.01)
    assert (y - y0) / (y1 - y0) == pytest.approx(44 / 50, abs=0.01)


def test_measures_are_means_over_seeds_then_targets_and_the_worst_domain_is_a_target(study: Study) -> None:
    grid, _ = arranged(study)
    (row,) = measures.measured(grid)
    assert row.values[1] == pytest.approx((0.75 + 0.95) / 2)  # balanced accuracy
    assert (row.worst, row.values[4], row.often) == ("75", pytest.approx(row.values[0]), "")


def test_the_worst_target_is_the_lowest_column_of_the_table(tmp_path: Path) -> None:
    study = Study(tmp_path)
    for seed, (first, second) in enumerate([(0.3, 0.5), (0.4, 0.35), (0.2, 0.6)]):
        study.add("erm", first, ("15",), seed, validation=0.1).add("erm", second, ("75",), seed, validation=0.1)
    study.add("arith", 0.9, ("15",), 0)
    count(study, *[[[5, 5], [0, 10]]] * 7)
    rows = {row.algorithm: row for row in measures.measured(arranged(study)[0])}
    assert rows["erm"].values[4] == pytest.approx(0.3)
    assert (rows["erm"].worst, rows["erm"].often) == ("15", "in 2 of 3 seeds")
    assert (rows["arith"].values[0], rows["arith"].worst) == (None, "15")  # nothing is known of the other target
    frames = frame(study.outcomes)
    assert set(frames["worst_domain"]) == {"15", "75"}
    assert frames["worst_accuracy"].tolist() == frames["target_accuracy"].tolist()


def test_an_averaged_model_has_its_own_counts(tmp_path: Path) -> None:
    study = Study(tmp_path).add(label="erm", average="swad")
    count(study, [[5, 5], [0, 10]], averager="swad")
    _, found = arranged(study)
    assert classes.recognised(found, NAMES)["75"].rows == {"erm": [0.5, 1.0], "erm + swad": [1.0, 1.0]}


def test_an_averaged_model_is_not_counted_as_a_trial_of_its_own(tmp_path: Path) -> None:
    study = Study(tmp_path).add(label="erm", average="swad")
    count(study, [[5, 5], [0, 10]], averager="swad")
    page = render(variants(study.outcomes))
    assert "1 trial, 2 models" in page
    assert "each with its weights averaged beside it" in page


def test_trials_without_counts_leave_the_sections_out(tmp_path: Path) -> None:
    page = render(Study(tmp_path).add().outcomes)
    assert not any(f'id="{section}"' in page for section in ("measures", "classes", "confusion", "calibration"))


def test_some_trials_with_counts_are_enough_for_the_sections(study: Study) -> None:
    page = render(study.add("arith").outcomes)
    assert all(f'id="{section}"' in page for section in ("measures", "classes", "confusion", "calibration"))


def test_names_of_classes_and_domains_are_never_elements(study: Study) -> None:
    for outcome in study.outcomes:
        (outcome.folder / "best").mkdir()
        records.publish(outcome.folder / "best" / "config.json", {"classes": [SCRIPT, "dog"]})
    page = render(study.outcomes)
    assert SCRIPT not in page
    assert "&lt;script&gt;alert(1)" in page


def test_the_same_counts_in_another_order_give_the_same_page(study: Study) -> None:
    assert render(study.outcomes) == render(list(reversed(study.outcomes)))


def test_of_many_algorithms_the_baseline_and_the_best_have_learning_curves(tmp_path: Path) -> None:
    study = Study(tmp_path).add("erm", 0.3)
    for number in range(CURVES + 4):
        study.add(f"a{number}", 0.4 + number / 100)
    drawn = legible(arrange(study.outcomes), accuracy_table(study.outcomes))
    assert list(drawn) == ["erm", *(f"a{number}" for number in range(5, CURVES + 4))]
    assert f"Drawn are {CURVES} of {CURVES + 5}" in render(study.outcomes)
