"""The wheel that people install has all it needs: built, installed into an empty environment and used from there."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def run(*command: object, folder: Path) -> str:
    done = subprocess.run([*map(str, command)], cwd=folder, env=CLEAN, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_built_wheel_runs_the_demo_in_an_empty_environment(tmp_path: Path) -> None:
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", tmp_path / "dist", ROOT, folder=tmp_path)
    (wheel,) = (tmp_path / "dist").glob("domainwise-*.whl")
    venv.create(tmp_path / "empty", with_pip=True)
    there = tmp_path / "empty" / "bin"
    run(there / "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel, folder=tmp_path)
    table = run(there / "domainwise", "demo", "-o", tmp_path / "out", folder=tmp_path)
    assert all(name in table for name in ("erm", "fish", "arith"))
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
    where = run(there / "python", "-c", "import domainwise; print(domainwise.__file__)", folder=tmp_path)
    assert Path(where.strip()).is_relative_to(tmp_path / "empty")
