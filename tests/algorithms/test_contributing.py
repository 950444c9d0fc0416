"""What CONTRIBUTING and the docs tell authors to write is as clean as our own code, and nothing else has to change."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import test_public_api
from test_docs import PAGES, ROOT, blocks

import domainwise.algorithms as package
from domainwise.algorithms import _spec, create, names
from domainwise.testing import check_algorithm

RUFF = [sys.executable, "-m", "ruff"]


def examples(*pages: Path) -> dict[str, str]:
    """Files that the pages show, by name."""
    found = [block for page in pages for block in blocks(page, "python")]
    return {named[1]: block for block in found if (named := re.match(r"# (\w+\.py)\n", block))}


@pytest.fixture
def shrink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """CONTRIBUTING's example in the folder of algorithms, or so it seems to whoever looks there."""
    (name,) = found = examples(ROOT / "CONTRIBUTING.md")
    (tmp_path / name).write_text(found[name], encoding="utf-8")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    yield tmp_path / name
    sys.modules.pop("domainwise.algorithms.shrink", None)
    vars(package).pop("shrink", None)
    _spec.builtin.cache_clear()


def test_the_example_is_found_and_passes_the_checks(shrink: Path) -> None:
    assert shrink.stem in names()
    check_algorithm(type(create(shrink.stem)))


def test_the_example_is_linted_and_formatted(shrink: Path) -> None:
    for command in (["check"], ["format", "--check"]):
        subprocess.run([*RUFF, *command, "--config", str(ROOT / "pyproject.toml"), str(shrink)], check=True)


def test_the_table_of_algorithms_takes_the_example_as_it_is(shrink: Path) -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_algorithms.py"))["page"]()
    (row,) = [line for line in made.splitlines() if line.startswith("| `shrink` |")]
    assert row.count("| not measured ") == 2
    assert "Loss: `CE + penalty sum_e mean z_e^2`" in row


def test_what_is_written_down_of_the_api_need_not_be_changed_for_the_example(shrink: Path) -> None:
    assert shrink.stem in "".join(test_public_api.said())
    assert not test_public_api.changes()


@pytest.mark.slow
def test_the_example_takes_one_file_and_what_is_generated(tmp_path: Path) -> None:
    """All that this repository checks of every algorithm, with the example pasted in."""
    for name in (
        "src",
        "tests",
        "docs",
        "benchmarks",
        "pyproject.toml",
        "README.md",
        "CONTRIBUTING.md",
        "ARCHITECTURE.md",
    ):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    for name, text in examples(ROOT / "CONTRIBUTING.md").items():
        (tmp_path / "src" / "domainwise" / "algorithms" / name).write_text(text, encoding="utf-8")
    for command in (
        ["docs/make_algorithms.py"],
        ["-m", "ruff", "check", "src"],
        ["-m", "pytest", "-q", "-x", "-m", "not slow", "-k", "shrink", "tests/training", "tests/test_losses.py"],
        [
            "-m",
            "pytest",
            "-q",
            "-x",
            "--ignore-glob",
            "*contributing.py",
            "tests/algorithms",
            "tests/test_public_api.py",
        ],
        ["-m", "pytest", "-q", "-x", "tests/test_imports.py", "tests/test_architecture.py"],
    ):
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, env=environment, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-1000:]}"


@pytest.mark.slow
def test_examples_have_types_to_the_strictest(tmp_path: Path) -> None:
    """The one of CONTRIBUTING in the folder of algorithms, those of the docs beside."""
    shutil.copytree(ROOT / "src" / "domainwise", tmp_path / "src" / "domainwise")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name, text in examples(*PAGES).items():
        ours = name in examples(ROOT / "CONTRIBUTING.md")
        folder = tmp_path / "src" / "domainwise" / "algorithms" if ours else tmp_path
        (folder / name).write_text(text, encoding="utf-8")
    own = sorted(map(str, tmp_path.glob("my_*.py")))
    assert len(own) > 5
    command = [sys.executable, "-m", "mypy", "--strict", "src", *own]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
