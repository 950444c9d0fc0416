"""A Ray cluster of two nodes on this machine, each in processes of its own."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import domainwise
from domainwise.sweeps.claims import read

HEAD, OTHER = "127.0.0.2", "127.0.0.3"
SOURCE = str(Path(domainwise.__file__).parents[1])
PATIENCE = 120  # seconds in which something must have come to its end


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
            **os.environ, "PYTHONPATH": SOURCE, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_health_check_period_ms": "500", "RAY_health_check_failure_threshold": "3",
            "RAY_enable_open_telemetry": "0", "RAY_USAGE_STATS_ENABLED": "0",
        }  # fmt: skip
        port = self.address.partition(":")[2]
        self.nodes = [self._node(HEAD, "--head", f"--port={port}", "--include-dashboard=false")]
        self._await(self._answers)

    def join(self, *within: str) -> None:
        """A second node, ``within`` a command that changes what it sees."""
        self.nodes.append(self._node(OTHER, f"--address={self.address}", within=within))
        self._await(lambda: "Ray runtime started" in (self.folder / f"node-{OTHER}.log").read_text())

    def _node(self, ip: str, *options: str, within: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
        start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
        command = [*within, *start, f"--node-ip-address={ip}", "--num-cpus=1", *options]
        with (self.folder / f"node-{ip}.log").open("wb") as log:
            return subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)

    def _await(self, happened: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE
        while not happened():
            assert time.monotonic() < end, self.said()
            time.sleep(0.05)

    def _answers(self) -> bool:
        host, _, port = self.address.partition(":")
        with socket.socket() as trying:
            return trying.connect_ex((host, int(port))) == 0

    def sweep(self, name: str, *asked: str) -> subprocess.Popen[bytes]:
        command = ["sweep", "--data", "digits", "--algorithms", "erm", "--draws", "1", *asked]
        where = ["--engine", "ray", "--address", self.address, "--device", "cpu", "-o", "out"]
        with (self.folder / name).open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "domainwise", *command, *where],
                env=self.environment, cwd=self.folder, stdout=log, stderr=log,
            )  # fmt: skip

    def results(self) -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in self.folder.glob("out/trials/*/result.json")}

    def wait_for(self, count: int, driver: subprocess.Popen[bytes]) -> None:
        before, end = 0, time.monotonic() + PATIENCE
        while (done := len(self.results())) < count:
            if done > before:
                before, end = done, time.monotonic() + PATIENCE
            assert driver.poll() is None, self.said()
            assert time.monotonic() < end, self.said()
            time.sleep(0.05)

    def wait_for_work_on(self, node: subprocess.Popen[bytes]) -> None:
        """Until a trial is being run by one of its processes."""

        def at_work() -> set[int]:
            claims = [read(path) for path in self.folder.glob("out/claims/[!.]*")]
            return {claim["process"] for claim in claims if claim} & set(descendants(node.pid))

        self._await(at_work)

    def said(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.log")))
