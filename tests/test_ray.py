"""A cluster of two nodes on this machine, each in processes of its own."""

from __future__ import annotations

import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from made_data import stripes

from domainwise import InputError, compare
from domainwise.api import Results, prepare
from domainwise.settings import resolve
from domainwise.sweep.ray import RayEngine

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
HEAD, OTHER = "127.0.0.2", "127.0.0.3"


@needs_ray
def test_a_cluster_that_is_not_there_is_a_sentence_at_once(tmp_path: Path) -> None:
    comparison = prepare(stripes(), "erm", targets="c", seeds=1, output=tmp_path)
    with pytest.raises(InputError, match=r"no Ray cluster to be reached at 127.0.0.2:1 "):
        comparison.run(RayEngine("127.0.0.2:1"), lambda trial, event: None)


def test_ray_that_is_not_installed_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    comparison = prepare(stripes(), "erm", targets="c", seeds=1, output=tmp_path)
    with pytest.raises(InputError, match="pip install 'domainwise"):
        comparison.run(RayEngine(), lambda trial, event: None)


def descendants(process: int) -> list[int]:
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
    found, new = [], [process]
    while new:
        found += new
        new = [child for child, parent in parents.items() if parent in new]
    return found


def kill(node: subprocess.Popen[bytes]) -> None:
    for process in descendants(node.pid):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
    node.wait()


class Cluster:
    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind((HEAD, 0))
            self.address = f"{HEAD}:{free.getsockname()[1]}"
        self.folder = folder
        self.environment = {
            **os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_health_check_period_ms": "500", "RAY_health_check_failure_threshold": "3",
            "RAY_enable_open_telemetry": "0", "RAY_USAGE_STATS_ENABLED": "0",
        }  # fmt: skip
        port = self.address.partition(":")[2]
        self.nodes = [self._node(HEAD, "--head", f"--port={port}", "--include-dashboard=false")]
        self._await_head()
        self.nodes.append(self._node(OTHER, f"--address={self.address}"))

    def _node(self, ip: str, *options: str) -> subprocess.Popen[bytes]:
        command = ["-m", "ray.scripts.scripts", "start", "--block", f"--node-ip-address={ip}", "--num-cpus=1", *options]
        with (self.folder / f"node-{ip}.log").open("wb") as log:
            return subprocess.Popen([sys.executable, *command], env=self.environment, stdout=log, stderr=log)

    def _await_head(self) -> None:
        host, _, port = self.address.partition(":")
        for _ in range(600):
            with socket.socket() as trying:
                if trying.connect_ex((host, int(port))) == 0:
                    return
            time.sleep(0.1)
        raise AssertionError((self.folder / f"node-{HEAD}.log").read_text())

    def sweep(self, name: str) -> subprocess.Popen[bytes]:
        command = ["sweep", "--data", "digits", "--algorithms", "erm", "--draws", "1", "--seeds", "2", "--steps", "200"]
        where = ["--engine", "ray", "--address", self.address, "--device", "cpu", "-o", "out"]
        with (self.folder / name).open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "domainwise", *command, *where],
                env=self.environment, cwd=self.folder, stdout=log, stderr=log,
            )  # fmt: skip

    def done(self) -> int:
        return len(list((self.folder / "out" / "trials").glob("*/result.json")))

    def wait_for(self, count: int, driver: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + 120
        while self.done() < count:
            well = driver.poll() is None and time.monotonic() < end
            assert well, "\n".join(path.read_text() for path in self.folder.glob("*.log"))
            time.sleep(0.05)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    for node in made.nodes:
        kill(node)


@needs_ray
@pytest.mark.slow
def test_a_node_and_the_driver_die_and_nothing_is_lost_or_done_twice(cluster: Cluster) -> None:
    first = cluster.sweep("first.log")
    cluster.wait_for(3, first)
    kill(cluster.nodes[1])
    cluster.wait_for(6, first)
    first.kill()
    first.wait()
    before = {path: path.stat().st_mtime_ns for path in cluster.folder.glob("out/trials/*/result.json")}
    assert cluster.sweep("second.log").wait() == 0, (cluster.folder / "second.log").read_text()
    results = Results.open(cluster.folder / "out")
    assert len(results.outcomes) == 12
    assert not results.troubled
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in before.items())
    said = [line for name in ("first.log", "second.log") for line in (cluster.folder / name).read_text().splitlines()]
    told = [found[1] for line in said if (found := re.match(r"\[\d+/\d+\] (.*seed \d):", line))]
    assert len(told) == len(set(told))


@needs_ray
@pytest.mark.slow
def test_a_cluster_started_for_you_gives_the_same_numbers(tmp_path: Path) -> None:
    settings = resolve(given={"steps": 8})
    ask = {"targets": "c", "seeds": 2}
    comparison = prepare(stripes(), "erm", **ask, settings=settings, output=tmp_path / "ray")
    apart = comparison.run(RayEngine(processes=2), lambda trial, event: None)
    here = compare(stripes(), "erm", **ask, steps=8, output=tmp_path / "here")
    assert [one.result["selected"] for one in apart.outcomes] == [one.result["selected"] for one in here.outcomes]
