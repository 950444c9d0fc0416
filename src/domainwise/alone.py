"""One process at a time in a trial's folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from domainwise.files import hold, open_own

LOCK = ".lock"


@contextmanager
def alone(folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold a trial's folder, after waiting for whoever holds it: two processes would write into each other's files.

    The system ends the hold with the process, however that ends. Where it knows no such thing, there is none.
    """
    if sys.platform == "win32":  # pragma: no cover
        yield
        return
    handle = _held(folder / LOCK, say)
    try:
        yield
    finally:
        try:
            (folder / LOCK).unlink(missing_ok=True)
        finally:
            os.close(handle)


def _held(path: Path, say: Callable[[str], None]) -> int:
    while True:
        handle = open_own(path, os.O_RDWR)
        try:
            waiting = partial(say, f"another process is at the trial in {path.parent}: waiting for it")
            if not hold(handle, waiting) or _is(path, handle):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # the one before has removed it in the meantime


def _is(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def held(folder: Path) -> bool:
    """Whether a process is at the trial of a folder just now, as far as the system knows."""
    if sys.platform == "win32" or not (folder / LOCK).is_file():
        return False
    import fcntl

    handle = os.open(folder / LOCK, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(handle)
    return False


def leftovers(folder: Path) -> list[Path]:
    """Files under temporary names, of a process that was killed while it wrote them: those end in its number."""
    return [path for path in folder.rglob(".*.*") if path.is_file() and path.suffix[1:].isdigit()]


def clear_leftovers(folder: Path) -> None:
    for path in leftovers(folder):
        path.unlink(missing_ok=True)
