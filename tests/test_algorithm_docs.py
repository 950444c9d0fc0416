"""The table of algorithms is what the code says, and every snippet about writing one runs."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

from domainwise.algorithms import names

DOCS = Path(__file__).parent.parent / "docs"


def test_the_table_of_algorithms_is_the_one_the_code_makes() -> None:
    made = runpy.run_path(str(DOCS / "make_algorithms.py"))["page"]()
    assert (DOCS / "algorithms.md").read_text() == made, "run python docs/make_algorithms.py"
    assert all(f"\n| `{name}` |" in made for name in names())


def test_every_snippet_about_adding_an_algorithm_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snippets = re.findall(r"```python\n(.*?)```", (DOCS / "add-an-algorithm.md").read_text(), re.DOTALL)
    assert len(snippets) >= 7
    monkeypatch.syspath_prepend(tmp_path)
    namespace: dict[str, object] = {}
    for snippet in snippets:
        file = re.match(r"# (\w+\.py)\n", snippet)
        if file:
            (tmp_path / file[1]).write_text(snippet)
        else:
            exec(compile(snippet, "add-an-algorithm.md", "exec"), namespace)
    for module in tmp_path.glob("*.py"):
        del sys.modules[module.stem]  # every file was imported, and the next test must not find it
