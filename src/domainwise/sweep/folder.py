"""The output folder: ours, for one set of data, and for one process at a time."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from domainwise._version import __version__
from domainwise.data.domains import Domains
from domainwise.errors import InputError
from domainwise.records import publish

MARK = "domainwise.json"


@contextmanager
def claimed(folder: Path, data: Domains) -> Iterator[None]:
    """Hold the folder for this process; it must be new, empty, or from earlier runs on the same data."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _check_contents(folder)
        lock = (folder / ".lock").open("a+")
    except (OSError, PermissionError) as error:
        raise InputError(f"cannot write to the output folder {folder}: {error.strerror or error}") from error
    with lock:
        _lock(lock, folder)
        _check_data(folder, data)
        yield


def is_ours(folder: Path) -> bool:
    return (folder / MARK).is_file()


def _check_contents(folder: Path) -> None:
    if is_ours(folder):
        return
    foreign = sorted(p.name for p in folder.iterdir() if p.name != ".lock")
    if foreign:
        raise InputError(
            f"the output folder {folder} has files that are not from domainwise ({', '.join(foreign[:3])}"
            f"{', ...' if len(foreign) > 3 else ''}): choose an empty or a new one with -o"
        )


def _check_data(folder: Path, data: Domains) -> None:
    mark = folder / MARK
    about = json.loads(mark.read_text(encoding="utf-8")) if mark.is_file() else {"data": {}}
    before = about["data"].get(data.name)
    if before not in (None, data.fingerprint):
        raise InputError(
            f'{folder} has results on other data under the name "{data.name}" (fingerprint {before[:12]}, now '
            f"{data.fingerprint[:12]}): the images or labels have changed since; choose another folder with -o"
        )
    about["data"][data.name] = data.fingerprint
    publish(mark, {"domainwise": __version__, **about})


def _lock(file: IO[str], folder: Path) -> None:
    """Held by the system, so it ends with the process however that ends."""
    try:
        if os.name == "nt":  # pragma: no cover
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        raise InputError(
            f"another process ({file.read().strip() or 'unknown'}) is working in {folder}: wait for it, or choose "
            "another folder with -o"
        ) from error
    with suppress(OSError):
        file.truncate(0)
        file.write(f"pid {os.getpid()}\n")
        file.flush()
