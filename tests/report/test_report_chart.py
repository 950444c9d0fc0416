from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from made_counts import count
from made_outcomes import Study

from domainwise.report.grid import arrange, most_seeds, sample
from domainwise.report.matplotlib_svg import Panel
from domainwise.report.page import page as document
from domainwise.report.page.figures import learning_curves
from domainwise.report.page.page import render
from domainwise.report.svg_chart import Mark, around, curves, rows

RANGES = [(0, 300), (69.2, 74.9), (-3, 2), (0.05, 123), (1e-7, 4e5), (5, 5), (0, 0), (0.1, 0.1 + 1e-17)]


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("values", RANGES)
def test_a_scale_shows_every_value_and_some_round_ones_with_room_between(values, wide: bool) -> None:
    scale = around(values, 20, 280, 0.05, may_be_wide=wide)
    ticks = scale.ticks(36)
    assert 1 <= len(ticks) <= 8
    assert all(20 < scale(value) < 280 for value in values)
    assert all(scale.low <= tick <= scale.high for tick in ticks)
    assert len({f"{tick:.6g}" for tick in ticks}) == len(ticks)
    assert all(scale(b) - scale(a) > 35.9 for a, b in pairwise(ticks))


@pytest.mark.parametrize(("low", "powers"), [(0.05, True), (50, False), (0, False), (-1, False)])
def test_only_values_wide_apart_and_above_zero_are_shown_in_powers(low: float, powers: bool) -> None:
    assert around([low, 123], 0, 1, 0.05, may_be_wide=True).powers is powers


def words(panel: Panel) -> list[str]:
    return list(ElementTree.fromstring(panel.svg).itertext())


def paths(panel: Panel, colour: str) -> list[str]:
    """Where marks of a colour are drawn."""
    return [one.get("d", "") for one in ElementTree.fromstring(panel.svg).iter() if colour in one.get("style", "")]


def test_a_curve_goes_through_its_points_the_higher_the_better() -> None:
    panel = curves("t", "about t", [Mark("line", [(0, 10.0), (50, 30.0), (100, 20.0)], "red")], "step")
    (path,) = paths(panel, "red")
    (x0, y0), (x1, y1), (x2, y2) = ([float(n) for n in pair.split()] for pair in path[1:].split("L"))
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 - y1 == pytest.approx(2 * (y2 - y1), abs=0.2)
    assert {"0", "20", "step"} <= set(words(panel))


def test_every_row_has_its_name_and_its_dots_or_a_note() -> None:
    panel = rows("t", "about t", [Mark("dot", [(70, 0), (71, 0)], "red")], ["erm", "a<b"], {1: "lost & gone"}, "%")
    assert {"erm", "a<b", "lost & gone"} <= set(words(panel))
    (path,) = paths(panel, "red")
    first, second = re.findall(r"M([\d.]+) ([\d.]+)h0", path)
    assert float(first[0]) < float(second[0])
    assert first[1] == second[1]


def test_a_chart_of_nothing_is_a_chart() -> None:
    assert "step" in words(curves("t", "about t", [], "step"))
    assert "100" in words(rows("t", "about t", [], ["erm"], {0: "failed"}, "%"))


def test_accuracies_begin_at_a_twentieth_of_training_so_that_the_rest_has_room(tmp_path: Path) -> None:
    study = Study(tmp_path).add(ended=2000)  # evaluated at 50, 100, ...
    *accuracies, loss = learning_curves(arrange(study.outcomes))["75"]
    lines = [max(paths(panel, "currentColor"), key=lambda path: path.count("L")) for panel in (*accuracies, loss)]
    assert [1 + line.count("L") for line in lines] == [39, 39, 40]


@pytest.fixture
def seeds(tmp_path: Path) -> Study:
    study = Study(tmp_path)
    for seed in range(5):
        study.add("erm", seed=seed).add("arith", seed=seed)
    count(study, *[[[8, 2], [1, 9]]] * 10)
    return study


@pytest.mark.parametrize(("most", "left"), [(10, 5), (100, 5), (9, 4), (1, 1)])
def test_a_sample_is_of_the_first_seeds_and_has_one_at_least(seeds: Study, most: int, left: int) -> None:
    some = sample(arrange(seeds.outcomes), most)
    assert most_seeds(some) == left
    assert list(some["arith"]["75"]) == list(range(left))


def test_a_page_says_where_it_looks_into_some_of_the_seeds_only(seeds: Study, monkeypatch) -> None:
    said = "Of 5 seeds, the first 2 are looked into for this."
    assert said not in render(seeds.outcomes)
    monkeypatch.setattr(document, "READ", 4)
    page = render(seeds.outcomes)
    parts = {part.split('"')[0]: part for part in page.split('<section id="')[1:]}
    assert [name for name, part in parts.items() if said in part] == ["curves", "classes", "confusion", "calibration"]
    assert "standard error over 5 seeds" in parts["table"]
    assert all(outcome.folder.name in parts["trials"] for outcome in seeds.outcomes)


def test_a_report_needs_neither_torch_nor_a_drawing_library(seeds: Study) -> None:
    program = (
        "import sys; from domainwise.__main__ import main; sys.argv = ['domainwise', 'report', sys.argv[1]]\n"
        "try: main()\n"
        "finally: assert not {'torch', 'matplotlib', 'pandas'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(seeds.folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (seeds.folder / "report.html").is_file()
