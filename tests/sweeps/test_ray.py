from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from made_cluster import PATIENCE, SOURCE, Cluster, kill
from made_data import stripes

from domainwise import InputError, compare
from domainwise.api import Comparison, Results, prepare
from domainwise.experiment.output_folder import opened
from domainwise.experiment.settings import resolve
from domainwise.sweeps import in_process, ray_engine as on_ray
from domainwise.sweeps.engine import Engine
from domainwise.sweeps.ray_engine import RayEngine, attend, park
from domainwise.training.run_options import RunOptions
from domainwise.training.run_trial import DeviceLost

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")


def one_trial(folder: Path) -> Comparison:
    return prepare(stripes(), "erm", targets="c", seeds=1, settings=resolve(given={"steps": 8}), output=folder)


def run(comparison: Comparison, engine: RayEngine) -> Results:
    return comparison.run(engine, lambda trial, event: None)


@needs_ray
@pytest.mark.parametrize("address", ["127.0.0.2:1", "ray://127.0.0.2:1", "nowhere.invalid:6379"])
def test_a_cluster_that_is_not_there_is_a_sentence_at_once(tmp_path: Path, address: str) -> None:
    with pytest.raises(InputError, match=rf"no Ray cluster to be reached at {address} "):
        run(one_trial(tmp_path), RayEngine(address=address))


@needs_ray
@pytest.mark.parametrize("address", ["auto", "somewhere"])
def test_an_address_that_leads_nowhere_is_a_sentence(tmp_path: Path, address: str) -> None:
    """In a process of its own, without a token: Ray looks for it once, when it is imported."""
    command = ["sweep", "--data", "digits", "--algorithms", "erm", "--steps", "2", "-o", "out", "--engine", "ray"]
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": SOURCE}
    end = subprocess.run([sys.executable, "-m", "domainwise", *command, "--address", address],
                         cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)  # fmt: skip
    assert end.returncode == 2
    last = end.stderr.splitlines()[-1]
    assert last.startswith(f"domainwise: cannot connect to Ray at {address}: ")
    assert "Traceback" not in end.stderr


def test_ray_that_is_not_installed_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'domainwise\[ray\]'"):
        run(one_trial(tmp_path), RayEngine())


@needs_ray
def test_trials_ask_ray_for_their_share_of_a_gpu() -> None:
    assert RayEngine(Engine(threads=2, per_gpu=4)).needs == {"num_cpus": 2}
    assert RayEngine(Engine(RunOptions("cuda"), threads=2, per_gpu=4)).needs == {"num_cpus": 2, "num_gpus": 0.25}
    assert RayEngine(Engine(RunOptions("cuda"), per_gpu="auto")).needs == {"num_cpus": 1, "num_gpus": 1}
    assert RayEngine(Engine(RunOptions("cuda:1"))).options.device == "cuda"


@pytest.fixture
def node(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """What a node makes of a trial, with whatever it sees otherwise than the driver."""
    (trial,) = one_trial(tmp_path).trials
    with opened(tmp_path, stripes()):
        seen = {"parked": str(park(stripes(), tmp_path)), "folder": str(tmp_path)}
    return lambda **other: attend(
        trial.to_json(), **seen | other, options=RunOptions().to_json(), threads=1, timeout=None
    )


@pytest.mark.parametrize(("place", "name"), [("folder", "output folder"), ("parked", "data")])
def test_what_a_node_does_not_see_is_a_sentence_that_names_the_node(
    node: Callable[..., dict[str, Any]], tmp_path: Path, place: str, name: str
) -> None:
    told = node(**{place: "/not/here"})["wrong"]
    assert told.startswith(f"the {name} ")
    assert f"the node {socket.gethostname()}" in told
    assert not (tmp_path / "trials").exists()


def test_a_node_that_cannot_write_says_so_and_no_trial_has_failed(node, tmp_path: Path, monkeypatch) -> None:
    def full(*given: object) -> None:
        raise InputError("cannot write to out: No space left on device")

    monkeypatch.setattr(in_process, "work", full)
    assert node() == {"wrong": f"on the node {socket.gethostname()}: cannot write to out: No space left on device"}
    assert not list(tmp_path.glob("trials/*/result.json"))


def test_a_process_whose_device_is_lost_ends_and_no_trial_has_failed(node, tmp_path: Path, monkeypatch) -> None:
    def lost(*given: object) -> None:
        raise DeviceLost("the device can no longer be used")

    monkeypatch.setattr(in_process, "work", lost)
    monkeypatch.setattr(on_ray.os, "_exit", sys.exit)
    with pytest.raises(SystemExit):
        node()
    assert not list(tmp_path.glob("trials/*/result.json"))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    for node in made.nodes:
        kill(node)


@needs_ray
@pytest.mark.parametrize(
    ("count", "asked"),
    [
        (12, ["--seeds", "2", "--steps", "100"]),
        pytest.param(
            50, ["--seeds", "10", "--targets", "15,30,45,60,75", "--steps", "200"],
            marks=[pytest.mark.slow, pytest.mark.timeout(1800)],
        ),
    ],
)  # fmt: skip
def test_a_node_and_the_driver_die_and_nothing_is_lost_or_done_twice(
    cluster: Cluster, count: int, asked: list[str]
) -> None:
    cluster.join()
    first = cluster.sweep("first.log", *asked)
    cluster.wait_for(count // 4, first)
    cluster.wait_for_work_on(cluster.nodes[1])
    kill(cluster.nodes[1])
    cluster.wait_for(count // 2, first)
    cluster.wait_for_work_on(cluster.nodes[0])
    first.kill()
    first.wait()
    before = cluster.results()
    second = cluster.sweep("second.log", *asked)
    cluster.wait_for(count, second)
    assert second.wait(PATIENCE) == 0, cluster.said()
    results = Results.open(cluster.folder / "out")
    assert len(results.outcomes) == count
    assert not results.troubled
    assert {path: stamp for path, stamp in cluster.results().items() if path in before} == before
    told = re.findall(r"^\[\d+/\d+\] (.*seed \d):", cluster.said(), re.MULTILINE)
    assert len(told) == len(set(told))
    for outcome in results.outcomes:
        steps = [record["step"] for record in outcome.records()]
        assert steps == sorted(set(steps))
        assert steps[-1] == outcome.trial.steps - 1


@needs_ray
def test_a_cluster_started_for_you_gives_the_same_numbers(tmp_path: Path) -> None:
    settings = resolve(given={"steps": 8})
    ask = {"targets": "c", "seeds": 2}
    comparison = prepare(stripes(), "erm", **ask, settings=settings, output=tmp_path / "ray")
    apart = run(comparison, RayEngine(Engine(RunOptions(snapshots=1), processes=2)))
    here = compare(stripes(), "erm", **ask, steps=8, output=tmp_path / "here")
    assert [one.result["selected"] for one in apart.outcomes] == [one.result["selected"] for one in here.outcomes]
    assert all((outcome.folder / "snapshots").is_dir() for outcome in apart.outcomes)


@needs_ray
def test_data_that_the_nodes_do_not_see_end_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_ray, "park", lambda data, folder: tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"the data of .*elsewhere cannot be read on the node .* \(--cache\)"):
        run(one_trial(tmp_path / "out"), RayEngine())


def without(folder: Path) -> tuple[str, ...]:
    """What to put before a command that shall see an empty folder there."""
    return ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(folder))


def can_hide_folders() -> bool:
    folder = Path(__file__).parent
    return (
        bool(shutil.which("unshare")) and not subprocess.run([*without(folder), "true"], capture_output=True).returncode
    )


@needs_ray
@pytest.mark.slow
@pytest.mark.skipif(not can_hide_folders(), reason="folders cannot be hidden from a process here")
@pytest.mark.parametrize(("hidden", "sentence"), [("out", "the output folder .*"), ("out/data", "the data of .*")])
def test_a_node_that_does_not_see_a_folder_ends_the_sweep_with_a_sentence(
    cluster: Cluster, hidden: str, sentence: str
) -> None:
    assert cluster.sweep("first.log", "--seeds", "1", "--targets", "75", "--steps", "2").wait() == 0, cluster.said()
    cluster.join(*without(cluster.folder / hidden))
    assert cluster.sweep("second.log", "--seeds", "4", "--steps", "200").wait() == 2
    said = (cluster.folder / "second.log").read_text()
    assert re.fullmatch(f"domainwise: {sentence}the node {socket.gethostname()}.*", said.splitlines()[-1])
    assert "Traceback" not in said
