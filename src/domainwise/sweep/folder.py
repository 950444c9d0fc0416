"""The output folder: ours, for one set of data, and for as many processes as like to work in it."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainwise._version import __version__
from domainwise.errors import InputError
from domainwise.records import publish, publish_once

if TYPE_CHECKING:
    from domainwise.data.domains import Domains
    from domainwise.trial import Trial

MARK = "domainwise.json"
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)


@contextmanager
def opened(folder: Path, data: Domains) -> Iterator[None]:
    """A folder to write to: new, empty, or from earlier runs on the same data."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_contents(folder)
        with _one_at_a_time(folder):
            _check_data(folder, data)
    except OSError as error:
        raise InputError(f"cannot write to the output folder {folder}: {error.strerror or error}") from error
    try:
        yield
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        raise InputError(
            f"cannot write to the output folder {folder} any more: {error.strerror}; what has ended is kept, and the "
            "same command again goes on from there"
        ) from error


def refuse_file(folder: Path) -> None:
    """An output folder must not be a file, nor below one."""
    try:
        there = next((place for place in (folder, *folder.absolute().parents) if place.exists()), None)
    except OSError as error:  # a name that is too long
        raise InputError(f"cannot write to the output folder {folder}: {error.strerror}") from error
    if there is not None and not there.is_dir():
        why = "it is a file" if there == folder else f"it would lie below the file {there}"
        raise InputError(f"cannot write to the output folder {folder}: {why}; give another")


def is_ours(folder: Path) -> bool:
    return (folder / MARK).is_file()


def ended(path: Path) -> dict[str, Any] | None:
    """The result in a trial's folder, if there is one."""
    with suppress(FileNotFoundError):
        found: dict[str, Any] = json.loads((path / "result.json").read_text(encoding="utf-8"))
        return found
    return None


def failed(folder: Path, trial: Trial, result: dict[str, Any]) -> dict[str, Any]:
    """Publish the result of a trial whose process could not do so; what was there before stays, and is returned."""
    path = folder / "trials" / trial.id
    path.mkdir(parents=True, exist_ok=True)
    publish_once(path / "trial.json", trial.to_json())
    publish_once(path / "result.json", result)
    return ended(path) or result


def check_contents(folder: Path, mark: str = MARK) -> None:
    """Refuse to work where somebody else has files; ``mark`` is the first of ours there."""
    if (folder / mark).is_file() or not folder.is_dir():
        return
    foreign = sorted(p.name for p in folder.iterdir() if not p.name.startswith((".lock", f".{mark}")))
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
    about.setdefault("classes", {})[data.name] = list(data.classes)
    publish(mark, {"domainwise": __version__, **about})


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Two processes that start at once must not write the mark over each other. Held by the system, so it ends with the
    process however that ends; where files cannot be locked, the moment is short."""
    with (folder / ".lock").open("a+") as file:
        with suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
