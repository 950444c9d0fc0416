"""Whoever stops a comparison with several processes, and however: what they were at is saved, and nothing is left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_data import stripes

from domainwise import compare
from domainwise.sweeps import worker_pool
from domainwise.sweeps.status import status
from domainwise.training.checkpoint_files import saved

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no such signals")

# Trials that would take minutes, unless they are let go on, and say with a file that they are at their third update.
ENDLESS = """
import time
from pathlib import Path
from domainwise.algorithms import Algorithm, algorithm

@algorithm
class Endless(Algorithm):
    def update(self, batches):
        self.count = getattr(self, "count", 0) + 1
        here = Path(__file__).parent
        if self.count > 3 and not (here / "go").exists():
            (here / f"{id(self)}.under_way").touch()
            time.sleep(0.5)
        return super().update(batches)
"""
DRIVER = """
import signal
import sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup has ignored, and what is ignored stays so
from made_data import stripes
from domainwise import compare
compare(stripes(), sys.argv[1] + ":Endless", targets="c", seeds=2, steps=200, output=sys.argv[2], processes=2)
"""


class Driver:
    """A comparison in a process of its own, with two workers in the middle of their trials."""

    def __init__(self, folder: Path) -> None:
        (folder / "endless.py").write_text(ENDLESS)
        (folder / "temporary").mkdir()
        self.folder, self.out, self.temporary = folder, folder / "out", folder / "temporary"
        path = os.pathsep.join([*filter(None, sys.path)])
        environment = {**os.environ, "TMPDIR": str(self.temporary), "PYTHONPATH": path}
        command = [sys.executable, "-c", DRIVER, str(folder / "endless.py"), str(self.out)]
        self.process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        self.wait(lambda: len(list(folder.glob("*.under_way"))) == 2)
        self.workers = children(self.process.pid)
        assert len(self.workers) == 2

    def wait(self, until, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not until():
            assert time.monotonic() < end, "it took too long"
            time.sleep(0.05)

    def ended(self) -> tuple[int, str]:
        _, said = self.process.communicate(timeout=300)
        return self.process.returncode, said

    @property
    def left(self) -> list[Path]:
        """Copies of data; the compiler has a folder of its own beside them."""
        return list(self.temporary.glob("domainwise-*"))

    def checkpoints(self) -> list[str]:
        return [path.name for home in self.out.glob("trials/*") for path in saved(home)]


def children(process: int) -> list[int]:
    found = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(number) for number in found.split()]


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    if not Path("/proc/self/stat").exists():
        pytest.skip("processes are looked for in /proc")
    made = Driver(tmp_path)
    yield made
    for process in (made.process.pid, *made.workers):
        if alive(process):
            os.kill(process, signal.SIGKILL)
    made.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)])
def test_a_signal_to_the_driver_is_passed_on_and_it_says_where_it_stopped(driver: Driver, number: int) -> None:
    for process in (driver.process.pid, *driver.workers):  # as some tell every process of a job
        os.kill(process, number)
    code, said = driver.ended()
    assert code == 128 + number
    assert len(re.findall(r"Endless on c, seed \d \(saved after \d+ of 200 updates\)", said)) == 2
    assert "Start the same command again to go on from there" in said
    assert not any(alive(worker) for worker in driver.workers)
    assert len(driver.checkpoints()) == 2
    assert driver.left == []
    assert list((driver.out / "claims").iterdir()) == []


@pytest.mark.slow
def test_a_second_signal_ends_everything_at_once(driver: Driver) -> None:
    for worker in driver.workers:
        os.kill(worker, signal.SIGSTOP)  # so that they cannot save
    os.kill(driver.process.pid, signal.SIGTERM)
    time.sleep(1)
    started = time.monotonic()
    os.kill(driver.process.pid, signal.SIGTERM)
    assert driver.ended()[0] == 128 + signal.SIGTERM
    assert time.monotonic() - started < 10
    assert not any(alive(worker) for worker in driver.workers)
    assert driver.left == []


def test_workers_of_a_killed_driver_save_and_end_and_the_next_start_goes_on_without_its_copies(driver: Driver) -> None:
    driver.process.kill()
    driver.wait(lambda: not any(alive(worker) for worker in driver.workers), seconds=20)
    assert len(driver.checkpoints()) == 2
    (left,) = driver.left
    foreign = driver.temporary / "domainwise-thesis"
    foreign.mkdir()
    worker_pool.remove_abandoned(driver.temporary)
    assert driver.left == [foreign]
    assert not left.exists()
    (driver.folder / "go").touch()
    notes: list[str] = []
    started = time.monotonic()
    results = compare(
        stripes(),
        f"{driver.folder / 'endless.py'}:Endless",
        targets="c",
        seeds=2,
        steps=200,
        output=driver.out,
        watch=lambda trial, event: notes.append(str(event.get("note"))),
    )
    assert time.monotonic() - started < 20  # nobody waits until a claim of the dead has been silent for long
    assert [outcome.result["status"] for outcome in results.outcomes] == ["finished"] * 2
    assert sum(note.startswith("resumes at step ") for note in notes) == 2
    assert not status(driver.out).running
