"""What is compiled for a GPU is kept where the next run finds it, and where nobody else writes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from domainwise.acceleration import compile_cache as compiled
from domainwise.acceleration.cuda_graph import Fast
from domainwise.cli import app


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(compiled.VARIABLE, "")  # so that it is put back afterwards
    monkeypatch.delenv(compiled.VARIABLE)
    monkeypatch.setattr("domainwise.acceleration.cuda_graph.has_triton", lambda: True)
    return tmp_path / "domainwise" / "compiled"


def test_the_folder_is_the_users_own_whatever_the_cache_of_images(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOMAINWISE_CACHE", "/shared/by/many")
    Fast().compiler("cuda")
    assert os.environ[compiled.VARIABLE] == str(home)
    if os.name != "nt":
        assert home.stat().st_mode & 0o077 == 0


def test_a_choice_of_the_user_stands_and_nothing_is_chosen_where_nothing_is_compiled(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Fast().compiler("cpu")
    Fast(compile=False).compiler("cuda")
    assert compiled.VARIABLE not in os.environ
    monkeypatch.setenv(compiled.VARIABLE, "elsewhere")
    Fast().compiler("cuda")
    assert os.environ[compiled.VARIABLE] == "elsewhere"


def test_a_folder_that_cannot_be_made_leaves_the_compiler_its_own(home: Path) -> None:
    home.parent.write_text("a file in its place")
    compiled.keep_compiled()
    assert compiled.VARIABLE not in os.environ


def test_a_full_disk_leaves_the_compiler_its_own(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    compiled.keep_compiled()
    assert compiled.VARIABLE not in os.environ


def test_without_a_home_there_is_nothing_to_keep_or_to_list(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    Fast().compiler("cuda")
    assert compiled.VARIABLE not in os.environ
    assert (compiled.size(), compiled.clear()) == (0, 0)


def test_it_is_listed_and_cleared_apart_from_images(home: Path) -> None:
    runner = CliRunner()
    assert "compiled" not in runner.invoke(app, ["cache", "list"]).output
    (home / "triton").mkdir(parents=True)
    (home / "triton" / "kernel").write_bytes(bytes(2_000_000))
    assert f"compiled kernels, 2.0 MB, in {home}" in runner.invoke(app, ["cache", "list"]).output
    assert runner.invoke(app, ["cache", "clear", "--all"]).exit_code == 0
    assert home.exists()
    assert runner.invoke(app, ["cache", "clear", "--compiled", "--all"]).exit_code != 0
    assert "removed compiled kernels, 2.0 MB" in runner.invoke(app, ["cache", "clear", "--compiled"]).output
    assert not home.exists()


def test_a_second_process_finds_what_the_first_has_compiled(home: Path) -> None:
    """Whatever the device: the same compiler, here of a product on a CPU, which takes no C++."""
    script = (
        "import torch; from domainwise.acceleration.compile_cache import keep_compiled; keep_compiled()\n"
        "from torch._dynamo.utils import counters\n"
        "torch.compile(lambda x: x @ x)(torch.ones(64, 64))\n"
        "print(counters['inductor']['fxgraph_cache_hit'], counters['inductor']['fxgraph_cache_miss'])"
    )

    def found() -> str:
        done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.strip()

    assert found() == "0 1"
    assert any(path.is_file() for path in home.rglob("*"))
    assert found() == "1 0"
