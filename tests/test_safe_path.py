"""What lies in the working directory runs in no process that is started here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from made_data import stripes

import domainwise
from domainwise import InputError
from domainwise.algorithms import parse
from domainwise.experiment.settings import resolve
from domainwise.machine import child_environment
from domainwise.sweeps.ray_engine import RayEngine
from domainwise.sweeps.worker import Place
from domainwise.sweeps.worker_pool import Processes
from domainwise.training.plan import plan
from domainwise.training.run_options import RunOptions

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
SOURCE = str(Path(domainwise.__file__).parents[1])
EVIL = "from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\nraise SystemError('not here')\n"
NAMES = ("queue", "json", "random", "torch", "numpy", "sitecustomize", "usercustomize", "domainwise", "signal")


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory full of what is called like a module that everybody imports."""
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(EVIL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ran(trap: Path) -> list[str]:
    return [path.name for path in trap.glob("*.ran")]


def result_of_a_worker(trap: Path) -> str:
    (trial,) = plan(stripes(), parse("erm"), [("c",)], [0], resolve(given={"steps": 2}))
    found = []

    def watch(trial, event) -> None:
        found.extend([event["result"]["status"]] if "result" in event else [])

    Processes([Place(RunOptions(), 1)], stripes(), trap / "out", watch).run([trial])
    return found[0]


def test_a_module_in_the_working_directory_runs_in_no_worker(trap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(trap))  # as python -m domainwise, and a script that lies there, would have it
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setenv("PYTHONPATH", f"{os.pathsep}{SOURCE}{os.pathsep}")  # an empty entry is the working directory too
    assert result_of_a_worker(trap) == "finished"
    assert ran(trap) == []


@pytest.mark.parametrize("named", ["absolute", ".", "link"])
def test_a_pythonpath_that_names_the_working_directory_is_obeyed(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (tmp_path / "link").symlink_to(here)
    monkeypatch.chdir(here)
    entry = {"absolute": str(here), "link": str(tmp_path / "link")}.get(named, ".")
    monkeypatch.setattr(sys, "path", [*sys.path, entry])
    assert entry not in child_environment()["PYTHONPATH"].split(os.pathsep)
    monkeypatch.setenv("PYTHONPATH", entry)
    assert entry in child_environment()["PYTHONPATH"].split(os.pathsep)
    assert child_environment()["PYTHONSAFEPATH"] == "1"


def test_a_worker_finds_the_package_where_it_was_found_by_standing_in_its_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(SOURCE)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert child_environment()["PYTHONPATH"].split(os.pathsep)[-1] == SOURCE


def test_python_m_domainwise_takes_nothing_from_the_working_directory_either(trap: Path) -> None:
    (trap / "domainwise.py").unlink()  # which -m would run before anything of ours
    (trap / "sitecustomize.py").unlink()
    (trap / "usercustomize.py").unlink()
    command = [sys.executable, "-m", "domainwise", "algorithms"]
    named = {**os.environ, "PYTHONPATH": SOURCE}
    done = subprocess.run(command, capture_output=True, text=True, env=named, check=False)
    assert done.returncode == 0, done.stderr
    assert ran(trap) == []


def test_a_cluster_that_asks_nobody_for_a_token_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("domainwise.sweeps.ray_engine.find_spec", lambda name: True)
    monkeypatch.setattr("domainwise.sweeps.ray_engine._reachable", lambda address: None)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(InputError, match="RAY_AUTH_MODE=disabled asks nobody for a token"):
        RayEngine()
    with pytest.warns(UserWarning, match="whoever reaches the cluster can run code on it as whoever started it"):
        RayEngine(address="127.0.0.2:6379")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    RayEngine()


@needs_ray
@pytest.mark.slow
def test_a_module_in_the_working_directory_runs_in_no_process_of_ray(trap: Path, tmp_path: Path) -> None:
    """In a process of its own: Ray looks at its environment once."""
    program = tmp_path.parent / "program.py"
    asked = "--data digits --algorithms erm --targets 75 --seeds 1 --draws 1 --steps 2 --engine ray --device cpu -o out"
    words = ["domainwise", "sweep", *asked.split()]
    program.write_text(f"import sys\nfrom domainwise.__main__ import main\nsys.argv = {words}\nmain()\n")
    environment = {**os.environ, "PYTHONPATH": SOURCE, "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert len(list((trap / "out").glob("trials/*/result.json"))) == 1
    assert ran(trap) == []


@needs_ray
@pytest.mark.slow
def test_another_token_is_a_sentence_that_speaks_of_tokens(tmp_path: Path) -> None:
    from made_cluster import Cluster, kill

    cluster = Cluster(tmp_path)
    try:
        for other, said in (
            ({"RAY_AUTH_TOKEN": "0" * 64}, "it wants the token it was started with, in RAY_AUTH_TOKEN"),
            ({"RAY_AUTH_MODE": "disabled"}, "it wants a token, and RAY_AUTH_MODE=disabled sends none"),
        ):
            cluster.environment |= other
            driver = cluster.sweep("driver.log", "--seeds", "1", "--targets", "75", "--steps", "2")
            assert driver.wait(60) == 2
            assert said in (tmp_path / "driver.log").read_text().splitlines()[-1]
    finally:
        for node in cluster.nodes:
            kill(node)


def test_processes_are_started_in_one_place_and_safely() -> None:
    starting = re.compile(
        r"^\s*(import|from) (subprocess|multiprocessing|concurrent\.futures\.process)\b", re.MULTILINE
    )
    files = [file for file in Path(domainwise.__file__).parent.rglob("*.py") if starting.search(file.read_text())]
    assert {file.name for file in files} == {"worker.py", "worker_pool.py"}  # the latter for an exception
    (worker,) = (file.read_text() for file in files if file.name == "worker.py")
    assert (
        worker.count("Popen(") == worker.count('[sys.executable, "-P", ') == worker.count("**child_environment()") == 1
    )
