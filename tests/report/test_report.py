"""The report: honest sentences, pictures that are safe for any name, one page that needs nothing else."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from made_data import stripes
from made_outcomes import Study

import domainwise as dw
from domainwise.cli import app
from domainwise.errors import InputError, Note
from domainwise.machine import human_duration
from domainwise.report.grid import arrange
from domainwise.report.matplotlib_svg import panel
from domainwise.report.page import page as document
from domainwise.report.page.figures import accuracies, learning_curves, styles
from domainwise.report.page.page import render, write
from domainwise.report.power import power_of
from domainwise.report.results import Results
from domainwise.report.tables import accuracy_table

SCRIPT = "<script>alert(1)</script>"
HOSTILE = (SCRIPT, "$x_1$", 'a"b&c', "中文")


def test_a_page_that_cannot_be_made_takes_nothing_from_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*given: object, **named: object) -> str:
        raise RuntimeError("no ink")

    monkeypatch.setattr(document, "render", fails)
    with pytest.warns(Note, match=r"results are whole, and their page could not be made \(no ink\): domainwise report"):
        results = dw.compare(stripes(), "erm", seeds=1, steps=2, output=tmp_path, report=True)
    assert len(results.outcomes) == 3
    assert not results.page.exists()


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path)


@pytest.fixture
def hostile(tmp_path: Path) -> Study:
    """Every name a user can choose is chosen badly, and some trials were lost."""
    study = Study(tmp_path, HOSTILE)
    for target in HOSTILE[:2]:
        study.add("erm", targets=(target,)).add("mine", targets=(target,), label=f"$x_1$ {SCRIPT}")
    return study.add("erm", targets=HOSTILE[2:]).add("irm", targets=HOSTILE[:1], status="diverged", ended=120)


def add_seeds(study: Study, **accuracies: list[float]) -> Study:
    for algorithm, seeds in accuracies.items():
        for seed, accuracy in enumerate(seeds):
            study.add(algorithm, accuracy, seed=seed)
    return study


class Elements(HTMLParser):
    """The elements of a page, as a browser would see them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += attributes


def test_the_page_and_python_give_the_same_answer(study: Study) -> None:
    add_seeds(study, erm=[0.69, 0.70, 0.71], arith=[0.79, 0.81, 0.80])
    results = Results(tuple(study.outcomes), study.folder)
    said = results.answer()
    assert "Take arith: accuracy 80.0 % on the one held-out site." in said
    assert "Better than erm: arith." in said
    page = html.unescape(results.report(study.folder / "report.html").read_text(encoding="utf-8"))
    first, rest = said.split(" % on the one held-out site. ")
    assert first in page
    assert all(part in page for part in rest.split("\n\n"))


def test_a_single_seed_is_said_to_prove_nothing(study: Study) -> None:
    add_seeds(study, erm=[0.6], arith=[0.8])
    said = Results(tuple(study.outcomes), study.folder).answer()
    assert "nothing tells how much of that is chance" in said
    assert said.endswith("One seed cannot tell a difference from chance: run at least three.")


def test_the_difference_that_matters_is_the_users(study: Study) -> None:
    add_seeds(study, erm=[0.6, 0.65, 0.63], arith=[0.62, 0.64, 0.66])
    results = Results(tuple(study.outcomes), study.folder)
    found = dw.power(results, 2.5, window=(100, 200))
    page = results.report(study.folder / "report.html", power=found)
    for said in (results.answer(found), page.read_text(encoding="utf-8")):
        assert "by the mean over the evaluations at updates 100 to 200" in said
        assert "; 2.5 points takes about" in said
    out = study.folder / "other.html"
    app(
        ["report", str(study.folder), "--difference", "2.5", "--window", "100-200", "-o", str(out)],
        standalone_mode=False,
    )
    assert out.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")


def test_a_window_that_is_none_is_refused_in_a_sentence(study: Study) -> None:
    add_seeds(study, erm=[0.6], arith=[0.8])
    for window in ("400", "a-b"):
        with pytest.raises(InputError, match=f'such as 400-1000: got "{window}"'):
            app(["report", str(study.folder), "--window", window], standalone_mode=False)


def test_the_page_has_every_difference_with_its_interval_and_one_algorithm_has_none(study: Study) -> None:
    add_seeds(study, erm=[0.69, 0.70, 0.72])
    assert 'id="differences"' not in render(study.outcomes)
    add_seeds(study, arith=[0.79, 0.81, 0.80])
    found = power_of(study.outcomes)
    page = render(study.outcomes)
    assert 'id="differences"' in page
    for row in found.table()[1]:
        assert all(f"<td>{text.replace('<', '&lt;')}</td>" in page for text in row[1:])
    assert found.method in page.replace("&#39;", "'")


def test_nothing_finished_recommends_nothing(study: Study) -> None:
    assert Results((), study.folder).answer() == "No trial has come to an end yet."
    study.add(status="failed").add("arith", status="diverged")
    said = Results(tuple(study.outcomes), study.folder).answer()
    assert said.startswith("No algorithm finished every trial on every target, so none can be recommended.")


def pictures(study: Study) -> Iterator[str]:
    yield from (panel.svg for panel in accuracies(accuracy_table(study.outcomes)))
    yield from (panel.svg for panels in learning_curves(arrange(study.outcomes)).values() for panel in panels)


def test_names_come_out_literally_in_pictures(hostile: Study) -> None:
    found = [ElementTree.fromstring(svg) for svg in pictures(hostile)]
    words = {text for svg in found for text in svg.itertext()}
    assert any(text.startswith("$x_1$ <script>") for text in words)
    assert not any(element.tag.endswith("script") for svg in found for element in svg.iter())
    assert any("$x_1$" in svg.attrib["aria-label"] for svg in found)


def test_pictures_take_ink_and_background_from_the_page(study: Study) -> None:
    for svg in pictures(study.add().add("arith")):
        assert "currentColor" in svg
        colours = re.findall(r"(?:fill|stroke): ([^;\"]*)", svg)
        assert all(colour in ("none", "currentColor") or colour.startswith("var(--series-1") for colour in colours)


def test_no_two_pictures_of_a_page_share_an_id() -> None:
    drawn = [panel("a", f"described as {name}", 2, lambda axes: axes.plot([0, 1], "o")) for name in ("a", "b")]
    ids = [found for one in drawn for found in set(re.findall(r'id="([^"]*)"', one.svg))]
    assert ids
    assert len(ids) == len(set(ids))


def test_losses_that_differ_by_powers_of_ten_keep_plain_numbers_on_the_axis(study: Study) -> None:
    study.add("erm", loss=2.3).add("vrex", loss=230)
    (*_, loss) = learning_curves(arrange(study.outcomes))["75"]
    words = [word.strip() for word in ElementTree.fromstring(loss.svg).itertext()]
    assert {"0.1", "1", "10", "100"} <= set(words)


def test_a_loss_that_was_not_finite_leaves_a_gap(study: Study) -> None:
    (outcome,) = study.add(status="diverged", ended=120).outcomes
    records = outcome.folder / "records.jsonl"
    records.write_text(re.sub(r'"loss": [0-9.]+, "domains"', '"loss": null, "domains"', records.read_text()))
    assert outcome.records()[0]["loss"] is None
    assert len(learning_curves(arrange([outcome]))["75"]) == 3


def test_twenty_algorithms_are_drawn_in_twenty_ways() -> None:
    looks = styles(["erm", *(f"a{number}" for number in range(20))])
    assert len(set(looks.values())) == 21
    assert looks["erm"].css == "currentColor"


def test_the_page_holds_what_was_asked_and_what_came_of_it(study: Study) -> None:
    add_seeds(study, erm=[0.7, 0.72], arith=[0.8, 0.82]).add("irm", status="diverged", ended=120)
    page = render(study.outcomes, title="Rotated digits")
    for expected in ("Rotated digits", "Take arith", "81.0", "diverged at 120", "is not finite at step 120"):
        assert expected in page
    for expected in ("weight_decay", "2.13.0", "80% main part", *(outcome.trial.id for outcome in study.outcomes)):
        assert expected in page


def test_no_name_becomes_an_element_of_the_page(hostile: Study) -> None:
    page = render(hostile.outcomes, title=SCRIPT)
    assert Elements(page).tags["script"] == 1
    assert "alert(1)" in page


def test_the_page_asks_for_nothing_from_outside(hostile: Study) -> None:
    page = Elements(render(hostile.outcomes))
    links = [value for name, value in page.attributes if name in ("src", "href", "xlink:href", "srcset", "action")]
    assert links
    assert all(value is not None and value.startswith(("#", "data:")) for value in links)
    policy = [value for name, value in page.attributes if name == "content" and value and "default-src" in value]
    assert policy[0].startswith("default-src 'none'")


def test_the_same_outcomes_give_the_same_page(study: Study) -> None:
    study.add().add("arith")
    assert render(study.outcomes) == render(list(reversed(study.outcomes)))


def test_a_page_without_outcomes_says_so() -> None:
    assert "No trial has come to an end yet." in render([])


def test_a_page_where_everything_was_lost_still_lists_it(study: Study) -> None:
    study.add(status="diverged", ended=40).add("arith", status="failed", ended=0)
    page = render(study.outcomes)
    assert "so none can be recommended" in page
    assert "RuntimeError: out of memory" in page


def test_writing_makes_the_folders_and_gives_the_path(study: Study, tmp_path: Path) -> None:
    path = write(study.add().outcomes, tmp_path / "deep" / "er" / "report.html")
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert list(path.parent.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_page_and_no_rubbish(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "site" / "report.html"
    write([], path)
    before = path.read_text()

    def broken(self: Path, target: Path) -> Path:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", broken)
    with pytest.raises(OSError, match="no space left"):
        document.write(study.add().outcomes, path)
    assert path.read_text() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_in_place_of_a_file_is_answered_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is a folder: try .*report\.html"):
        write([], tmp_path)


def test_values_that_differ_between_trials_are_all_told(study: Study) -> None:
    for seed, rate in enumerate((0.1, 0.2)):
        study.add(seed=seed, hyperparameters={"lr": rate})
    assert document.hyperparameters(study.outcomes)["erm"] == [document.Fact("lr", "0.1, 0.2")]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "0 s"), (3.21, "3.2 s"), (59.9, "60 s"), (840, "14 min"), (9000, "2.5 h")]
)
def test_a_duration_is_told_in_the_unit_that_fits(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def test_importing_the_report_loads_nothing_heavy() -> None:
    program = "import sys, domainwise.report.page.page; print([m for m in %r if m in sys.modules])"
    heavy = ["torch", "matplotlib", "pandas", "jinja2", "rich"]
    done = subprocess.run([sys.executable, "-c", program % heavy], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.strip() == "[]"
