"""The table of algorithms is what the code says."""

from __future__ import annotations

import runpy
from pathlib import Path

from domainwise.algorithms import names

DOCS = Path(__file__).parents[2] / "docs"


def test_the_table_of_algorithms_is_the_one_the_code_makes() -> None:
    made = runpy.run_path(str(DOCS / "make_algorithms.py"))["page"]()
    assert (DOCS / "algorithms.md").read_text() == made, "run python docs/make_algorithms.py"
    assert all(f"\n| `{name}` |" in made for name in names())
