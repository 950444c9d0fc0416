"""The published results are what the records say."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from statistics import fmean

import pytest

from domainwise.errors import InputError

ROOT = Path(__file__).parents[1]
MADE = runpy.run_path(str(ROOT / "docs" / "make_results.py"))
HOW = "run python docs/make_results.py"
TARGETS = ("art_painting", "cartoon", "photo", "sketch")


def recorded(algorithm: str, part: str) -> dict[str, float]:
    """A number of every trial's result at its selected step, as a mean for every target, read without our code."""
    found: dict[str, list[float]] = {target: [] for target in TARGETS}
    for path in (ROOT / "results" / "study" / "P" / "trials").glob("*/trial.json"):
        trial = json.loads(path.read_text())
        if trial["algorithm"] == algorithm:
            (target,) = trial["targets"]
            found[target].append(100 * json.loads((path.parent / "result.json").read_text())["selected"][part])
    return {target: fmean(values) for target, values in found.items()}


def cells(page: str, row: str) -> list[str]:
    """The numbers of the last row that starts so."""
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {row} |")][-1:]
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_the_page_and_the_readme_say_what_the_records_say() -> None:
    assert (ROOT / "docs" / "results.md").read_text(encoding="utf-8") == MADE["page"](), HOW
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert MADE["replaced"](readme, MADE["block"]()) == readme, HOW


@pytest.mark.parametrize(("algorithm", "name"), [("erm", "ERM"), ("arith", "Arith")])
def test_accuracies_at_the_selected_step_are_means_over_the_trials(algorithm: str, name: str) -> None:
    target, source = recorded(algorithm, "target"), recorded(algorithm, "validation")
    shown = [f"{mean:.1f}" for mean in (*target.values(), fmean(target.values()))]
    assert cells(MADE["selected"](), name) == shown
    shown = [f"{mean:.1f}" for mean in (*source.values(), fmean(source.values()))]
    assert cells(MADE["source"](), f"{name}, here: 1001 updates, 8 seeds") == shown


def test_no_difference_has_more_decimals_in_the_readme_than_on_the_page_of_the_study() -> None:
    said = MADE["study"].primary().replace("-", MADE["MINUS"])
    assert MADE["points"](MADE["study"].primary_estimate().mean) in said
    assert MADE["interval"](MADE["study"].primary_estimate()) in said


@pytest.mark.parametrize(
    ("apart", "said"), [(-1.0, "less accurate than ERM"), (0.0, "do not tell"), (1.0, "more accurate than ERM")]
)
def test_the_verdict_is_that_of_the_interval(apart: float, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    study = MADE["study"]
    found = {target: {seed: apart + 0.01 * (seed % 2 - 0.5) for seed in range(8)} for target in TARGETS}
    monkeypatch.setattr(study, "primary_estimate", lambda: study.estimated(found, independent=False))
    assert said in MADE["verdict"]()


def test_the_readme_gets_the_results_between_its_marks() -> None:
    readme = f"before\n{MADE['BEGIN']}\nold\n{MADE['END']}\nafter\n"
    once = MADE["replaced"](readme, "new\n")
    assert once == f"before\n{MADE['BEGIN']}\nnew\n{MADE['END']}\nafter\n"
    assert MADE["replaced"](once, "new\n") == once
    with pytest.raises(InputError, match=r"README\.md has no place for the results"):
        MADE["replaced"]("nothing", "new\n")
