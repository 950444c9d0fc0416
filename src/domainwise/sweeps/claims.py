"""Claim trials, so that several processes on one folder share the work.

A claim is a small file that its holder writes anew every few seconds. It only avoids double work and says how far a
trial is: that a result appears once rests on how it is published, never on a claim.
"""

from __future__ import annotations

import json
import os
import platform
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from domainwise.experiment.records import Event
from domainwise.experiment.trial import Trial
from domainwise.files import content_of, exists, replacing

BEAT = 2.0  # seconds between two signs of life
STALE = 30.0  # seconds without one after which the trial is anybody's


class Lost(BaseException):
    """Raised where another process has taken the trial over: this one gave no sign of life for too long."""


class Claim:
    """Hold this process's claim on a trial; a thread keeps it alive until it is released."""

    def __init__(self, folder: Path, trial: Trial) -> None:
        self.path = _path(folder, trial.id)
        self.token, self.lost, self.step, self.steps = uuid.uuid4().hex, False, 0, trial.steps
        self._released = threading.Event()
        self._writing = threading.Lock()

    def take(self) -> bool:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self.path.open("x", encoding="utf-8") as file:
                file.write(self._content())
        except FileExistsError:
            return False
        threading.Thread(target=self._beat, daemon=True).start()
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._released.set()
        with self._writing, suppress(OSError):
            if self._ours():
                self.path.unlink()

    def heard(self, event: Event) -> None:
        """Note how far the trial is; raise :class:`Lost` where the claim is no longer ours."""
        self.step = event.get("step", self.step)
        if self.lost:
            raise Lost

    def _beat(self) -> None:
        while not self._released.wait(BEAT):
            with self._writing, suppress(OSError):  # a full disk is for the trial itself to report
                if self._released.is_set():
                    return
                if not self._ours():
                    self.lost = True
                    return
                with replacing(self.path) as temporary:
                    temporary.write_text(self._content(), encoding="utf-8")

    def _ours(self) -> bool:
        """Whether nobody has taken it over; an error where the disk does not say."""
        try:
            about = json.loads(content_of(self.path))
        except FileNotFoundError:
            return False
        except ValueError:  # what is damaged is written anew
            return True
        return not isinstance(about, dict) or about.get("token", self.token) == self.token

    def _content(self) -> str:
        about = {"token": self.token, "machine": machine(), "process": os.getpid()}
        return json.dumps({**about, "step": self.step, "steps": self.steps}) + "\n"


class Claims:
    """See the claims of others. Times are those of this process's own clock, which only goes forward."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seen: dict[str, tuple[int, float]] = {}  # what a claim looked like, and since when

    def free(self, id: str) -> bool:
        """Return whether nobody is at a trial, as far as can be told; the claim of a dead process is removed."""
        path = _path(self.folder, id)
        try:
            stamp = path.stat().st_mtime_ns
        except FileNotFoundError:
            return True
        except OSError:  # a network drive that is about to see what its holder has just written
            return False
        before, since = self._seen.get(id, (None, 0.0))
        if stamp != before:
            self._seen[id] = stamp, time.monotonic()
        elif time.monotonic() - since > STALE:
            return _cleared(path)
        return dead(read(path)) and _cleared(path)


def machine() -> str:
    """Return where a process number means something: this machine, and within it this container."""
    with suppress(OSError):
        return f"{platform.node()} {Path('/proc/self/ns/pid').readlink()}"
    return platform.node()


def read(path: Path) -> dict[str, Any]:
    """Read a claim; nothing where it is gone, or not whole."""
    with suppress(OSError, ValueError, RecursionError):
        found = json.loads(content_of(path))
        whole = isinstance(found, dict) and all(isinstance(found.get(name), kind) for name, kind in _KINDS.items())
        if whole and found["steps"] > 0 and found["machine"].strip():
            return dict(found)
    return {}


_KINDS = {"token": str, "machine": str, "process": int, "step": int, "steps": int}


def dead(about: dict[str, Any]) -> bool:
    """Return whether the holder of a claim has ended; of holders on other machines nothing is known."""
    if not about or about["machine"] != machine() or os.name == "nt":  # on Windows, signal 0 would end the process
        return False
    with suppress(OSError, IndexError):
        if Path(f"/proc/{about['process']}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return True  # it has ended, and nobody has asked for its exit code yet
    try:
        os.kill(about["process"], 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def silent(path: Path) -> bool:
    """Return whether a claim has had no sign of life for long. No work depends on it, so any clock will do."""
    with suppress(OSError):
        return abs(time.time() - path.stat().st_mtime) > STALE
    return True


def at_work(path: Path) -> bool:
    """Return whether the holder of a claim may be alive; an error where the disk does not say."""
    return exists(path) and not dead(read(path)) and not silent(path)


def _path(folder: Path, id: str) -> Path:
    return folder / "claims" / id


def _cleared(path: Path) -> bool:
    """Moved away first, as only one process can: it may be about to be taken by somebody else."""
    aside = path.with_name(f".{uuid.uuid4().hex}")
    with suppress(OSError):
        path.rename(aside)
        aside.unlink()
    return not path.exists()
