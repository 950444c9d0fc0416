"""The data of a comparison where its processes find them, for as long as it runs."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from domainwise.data.domains import Domains
from domainwise.files import hold

PREFIX, LOCK = "domainwise-", ".lock"


@contextmanager
def parked(data: Domains) -> Iterator[Path]:
    """A folder with the data, below the system's temporary one; first, those that killed processes left are removed."""
    with suppress(OSError):
        sweep(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        home = Path(name)
        handle = _locked(home)
        try:
            data.save(home / "data")
            yield home / "data"
        finally:
            if handle is not None:
                os.close(handle)


def _locked(home: Path) -> int | None:
    """Hold a folder, which has its lock only when that is held: nobody must take it for one that is held no more."""
    handle = os.open(home / f"{LOCK}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    with suppress(OSError):
        if hold(handle):
            (home / f"{LOCK}.new").rename(home / LOCK)
            return handle
    os.close(handle)
    return None


def sweep(folder: Path) -> None:
    """Remove the user's own folders of data that nobody holds any more; who has such data mapped keeps them."""
    if sys.platform == "win32":  # pragma: no cover  nothing is held there
        return
    for home in folder.glob(f"{PREFIX}*"):
        with suppress(OSError):  # it is gone, held, or has no lock
            about = home.lstat()
            if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
                continue
            handle = os.open(home / LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                if hold(handle):
                    shutil.rmtree(home, ignore_errors=True)
            finally:
                os.close(handle)
