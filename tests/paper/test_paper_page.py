"""docs/paper.md leaves out nothing of the paper, and what it points to is there."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MADE = runpy.run_path(str(ROOT / "docs" / "make_paper.py"))
LINES = MADE["lines"]()
NAMES = [line["what"].partition(":")[0] for line in LINES]


def test_the_page_is_what_its_lines_and_the_records_say() -> None:
    assert (ROOT / "docs" / "paper.md").read_text(encoding="utf-8") == MADE["page"](), "run python docs/make_paper.py"


@pytest.mark.parametrize("line", LINES, ids=NAMES)
def test_a_line_has_a_verdict_with_what_it_needs_and_points_to_what_is_there(line) -> None:
    for place in (*line["code"], *line["tests"]):
        path, _, name = place.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^ *(?:def |class )?{name}\b(?:[(:\[]| =)", text, re.MULTILINE) or not name, place
    assert all(path.startswith(("src/", "examples/", "benchmarks/")) for path in line["code"])
    assert all((ROOT / path).exists() for path in line.get("records", []))
    assert line["verdict"] in MADE["VERDICTS"]
    assert line["tests"]
    said = line.get("said", "")
    assert said or line["verdict"] == "holds"
    assert ("records" in line) == (line["verdict"] == "measured")
    assert re.search(r"\b[Nn]eeds\b", said) or line["verdict"] != "not measured"


def test_no_numbered_part_of_the_paper_is_left_out() -> None:
    whole = " ".join(NAMES)
    found = {int(one) for one in re.findall(r"Eq\. (\d+)", whole)}
    for first, last in re.findall(r"Eq\. (\d+) to (\d+)", whole):
        found |= set(range(int(first), int(last) + 1))
    assert found == set(range(1, 15))
    assert {int(one) for one in re.findall(r"Table (\d)", whole)} == {1, 2, 3, 4, 5}
    assert {int(one) for one in re.findall(r"Figure (\d)", whole)} == {1, 2, 3, 4, 5}
    steps = {int(one) for text in re.findall(r"Lines? ([\d and]+)", whole) for one in re.findall(r"\d", text)}
    assert steps == set(range(1, 8))
