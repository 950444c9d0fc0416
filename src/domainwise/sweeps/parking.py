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
from domainwise.files import LOCK, locked

PREFIX, DATA = "domainwise-", "data"


@contextmanager
def parked(data: Domains) -> Iterator[Path]:
    """A folder with the data, below the system's temporary one; first, those that killed processes left are removed."""
    with suppress(OSError):
        sweep(Path(tempfile.gettempdir()))
    with (
        tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as home,
        locked(Path(home) / LOCK, waiting=lambda: None),
    ):
        data.save(Path(home) / DATA)
        yield Path(home) / DATA


def sweep(folder: Path) -> None:
    """Remove the user's own folders of data that nobody holds any more; who has such data mapped keeps them."""
    if sys.platform == "win32":  # pragma: no cover  nothing is held there
        return
    for home in folder.glob(f"{PREFIX}*"):
        with suppress(OSError):  # it is gone, or another process holds it
            about = home.lstat()
            own = stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid()
            # A folder gets its data after its lock is held, and loses its lock before its data.
            if own and (home / LOCK).is_file() and (home / DATA).is_dir():
                with locked(home / LOCK) as certain:
                    if certain:
                        shutil.rmtree(home, ignore_errors=True)
