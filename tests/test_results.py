"""The published results are what the records say."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
from made_paper import ended, settings, tiny

from domainwise.errors import InputError
from domainwise.paper.layout import PaperRequest
from domainwise.paper.tables import TABLE4

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "pacs"
MADE = runpy.run_path(str(ROOT / "docs" / "make_results.py"))
HOW = "run python docs/make_results.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    trials = TABLE4.trials(tiny(), settings("swad"), PaperRequest(("erm", "arith"), seeds=2), tmp_path / "pacs")
    ended(trials, lambda trial: 0.80 + 0.02 * (trial.algorithm == "arith"), swad=0.05)
    (tmp_path / "pacs" / "about.json").write_text(json.dumps({"Date": "2026-01-02", "Device": "a fast one"}))
    return tmp_path / "pacs"


def test_the_page_has_every_view_per_target_and_where_it_is_from(folder: Path) -> None:
    page = MADE["page"](folder)
    assert "| Arith | 82.0 ± <0.1 | 82.0 ± <0.1 | 82.0 ± <0.1 | 82.0 ± <0.1 |" in page.replace("_", "").replace("*", "")
    assert "| Arith | 77.0 ± <0.1 |" in page.replace("_", "").replace("*", "")  # at the last evaluation
    assert "| PACS: Arith above ERM | +1.8 | +2.0 (n = 8, p = 0.0078) |" in page
    assert "| Date | 2026-01-02 |" in page
    assert "| Device | a fast one |" in page
    assert "MLDG" not in page  # was not run


def test_the_readme_gets_the_means_between_its_marks(folder: Path) -> None:
    block = MADE["block"](folder)
    assert "| algorithm | PACS, paper | PACS selected | PACS pooled | PACS last | PACS late |" in block
    readme = f"before\n{MADE['BEGIN']}\nold\n{MADE['END']}\nafter\n"
    once = MADE["replaced"](readme, block)
    assert once.startswith("before\n")
    assert once.endswith("after\n")
    assert "old" not in once
    assert MADE["replaced"](once, block) == once
    with pytest.raises(InputError, match=r"README\.md has no place for the results"):
        MADE["replaced"]("nothing", block)


def test_precisions_are_compared_over_the_steps_that_both_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MADE["precision"].__globals__, "ROOT", tmp_path)

    def record(folder: str, target: str, accuracies: list[float]) -> Path:
        home = tmp_path / folder / "trials" / f"{target}-{len(accuracies)}"
        home.mkdir(parents=True)
        about = {"algorithm": "arith", "targets": [target], "seed": 0}
        (home / "trial.json").write_text(json.dumps(about))
        found = [{"step": 100 * i, "domains": {target: {"main": {"accuracy": a}}}} for i, a in enumerate(accuracies)]
        (home / "records.jsonl").write_text("".join(json.dumps(one) + "\n" for one in found))
        return tmp_path / folder

    for target, gain in (("a", 0.02), ("b", -0.01)):
        record("bf16", target, [0.1, 0.2, 0.5 + gain, 0.7 + gain, 0.9])
        record("fp32", target, [0.1, 0.9, 0.5, 0.7])
    record("bf16", "c", [0.1] * 4)
    made = MADE["precision"](tmp_path / "bf16", tmp_path / "fp32")
    assert "the last two thirds of the updates that both have made, 100 to 300" in " ".join(made.split())
    assert "| arith | a | 48.0 | 70.0 | -22.0 |\n| arith | b | 46.0 | 70.0 | -24.0 |" in made
    assert "| mean | | 47.0 | 70.0 | -23.0 |" in made
    assert "2 pairs, p = 0.5 " in made


def test_runs_of_one_seed_are_compared_at_the_selected_step_and_over_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MADE["repeated"].__globals__, "ROOT", tmp_path)
    for folder, shift in (("first", 0.0), ("second", 0.1)):
        for target, selected in (("a", 0.5 + shift), ("b", 0.5 - shift / 2)):
            home = tmp_path / folder / "trials" / target
            home.mkdir(parents=True)
            (home / "trial.json").write_text(json.dumps({"algorithm": "erm", "targets": [target], "seed": 3}))
            (home / "result.json").write_text(json.dumps({"selected": {"target": selected}}))
            every = [0.0, 0.4 + shift, 0.6 + shift, 0.4, 0.6, 0.5]  # the first is before the last four fifths
            records = [{"step": i, "domains": {target: {"main": {"accuracy": a}}}} for i, a in enumerate(every)]
            (home / "records.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    made = MADE["repeated"](tmp_path / "first", tmp_path / "second")
    assert (
        "| erm | a | 3 | 50.0 | 60.0 | 50.0 ± 10.0 | 54.0 |\n| erm | b | 3 | 50.0 | 45.0 | 50.0 ± 10.0 | 54.0 |" in made
    )
    assert "7.5 points apart on average and 10.0 at most; their means over training 4.0 and 4.0" in made
    assert "better by +2.5 at the selected step, p = 1, and by +4.0 in the mean, p = 0.5" in made


@pytest.mark.skipif(not RESULTS.is_dir(), reason="there are no published results yet")
def test_the_published_results_are_what_the_records_say() -> None:
    page = MADE["page"](RESULTS, MADE["IN_FP32"], MADE["AGAIN"])
    assert (ROOT / "docs" / "results.md").read_text(encoding="utf-8") == page, HOW
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert MADE["replaced"](readme, MADE["block"](RESULTS)) == readme, HOW
