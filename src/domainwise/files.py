"""Looking at a disk without taking an error for an absence, and writing to it through no link of somebody else's."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from domainwise.errors import InputError

ABSENT = (FileNotFoundError, NotADirectoryError)
# What a file system without locks answers.
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}


def exists(path: Path) -> bool:
    """Whether there is something under a name; an error where the disk does not say (``Path.exists`` may say no)."""
    try:
        path.stat()
    except ABSENT:
        return False
    return True


def names_in(folder: Path) -> list[str]:
    """The names in a folder; none where it is not there, and an error where it cannot be read (``glob`` finds none)."""
    try:
        return sorted(path.name for path in folder.iterdir())
    except ABSENT:
        return []


@contextmanager
def unchanged(path: Path) -> Iterator[None]:
    """Turn an error of the disk into a sentence, around what only reads."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{path} cannot be read just now ({error.strerror or error}): nothing there was changed; give the same "
            "command again when it can be read"
        ) from error


class NoFile(OSError):  # noqa: N818  says what is there instead
    """A pipe or a device where a file belongs: who opens it waits, or reads without an end."""


def is_strange(path: Path) -> bool:
    """Whether something lies there that is neither a file nor a folder: a pipe, a device, or a link to one."""
    with suppress(OSError):
        mode = path.stat().st_mode
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    return False


def content_of(path: Path) -> bytes:
    """All bytes of a file; :class:`NoFile` where it is none."""
    if is_strange(path):
        raise NoFile(errno.ENODEV, "it is a pipe or a device, and no file", str(path))
    return path.read_bytes()


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def open_own(path: Path, flags: int) -> int:
    """Open or make a file; a link, a pipe or a device that lies there gives way and is not followed."""
    if path.is_symlink() or is_strange(path):
        path.unlink()
    return os.open(path, flags | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)


def appended(path: Path) -> TextIO:
    """A file to append text to."""
    return os.fdopen(open_own(path, os.O_WRONLY | os.O_APPEND), "a", encoding="utf-8")


def fresh(path: Path) -> TextIO:
    """A new text file, in place of what a process before has left or somebody has laid there."""
    path.unlink(missing_ok=True)
    # What is no valid Unicode, as names on a disk may be, must not make the rest unreadable.
    return path.open("x", encoding="utf-8", errors="backslashreplace", newline="")


def without_links(folder: Path, copied: tuple[str, ...]) -> list[Path]:
    """Take away the links in a folder that is about to be written to, and return them; what they lead to stays.

    Files of the names that are ``copied`` stay as files of the folder's own.
    """
    links = [path for path in folder.rglob("*") if path.is_symlink()]
    for path in links:
        content = path.read_bytes() if path.name in copied and path.is_file() else None
        path.unlink()
        if content is not None:
            path.write_bytes(content)
    return links


def made(folder: Path) -> None:
    """Make a folder and those above it that are missing, so that they would survive a power cut."""
    missing = [path for path in (folder, *folder.parents) if not exists(path)]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        with suppress(PermissionError):  # one may be allowed to write into a folder and not to read it
            sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, would survive a power cut."""
    if path.is_dir() and os.name == "nt":  # pragma: no cover  folders cannot be opened there
        return
    handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def hold(handle: int, waiting: Callable[[], None] | None = None) -> bool:
    """Lock an open file until it is closed, which the system does with the process; False where there are no locks.

    Where another process holds it, this waits, once ``waiting`` was called; without that, it is a BlockingIOError.
    """
    try:
        import fcntl
    except ImportError:  # pragma: no cover  Windows
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if waiting is None:
            raise
        waiting()
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return False
    return True
