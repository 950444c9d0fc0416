"""Files and locks: written whole or not at all, through no link of somebody else, by one process at a time."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TextIO

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


def checksum(content: Mapping[str, Any]) -> str:
    """Return the hash of what JSON says, in whatever order it says it."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


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


PAGE = re.escape(
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src"
).encode()
PICTURE = rb'<svg style="background: #fff" color="#1a1f26" '
MADE_BY = ("Software", "domainwise")  # in a PNG, behind its head
PNG = rb"\x89PNG\r\n\x1a\n.{25}.{4}tEXtSoftware\x00domainwise"


def check(path: Path, ours: bytes) -> None:
    """Refuse to replace what is no plain file, or is one that does not begin as ours do: ``ours`` is a pattern."""
    try:
        if path.is_dir():
            raise InputError(f'"{path}" is a folder: give the name of a file')
        there = next((parent for parent in path.parents if parent.exists()), path.parent)
        if there.exists() and not there.is_dir():
            raise InputError(f'cannot write "{path}": "{there}" is no folder')
        if not path.exists():
            return
        if not path.is_file():
            raise InputError(f'"{path}" is a device or a pipe, and no file to replace: give another name')
        with path.open("rb") as content:
            start = content.read(1024)
    except OSError as error:
        raise _cannot_write(path, error) from error
    if start and not re.match(ours, start, re.DOTALL):
        raise InputError(f'"{path}" holds something that was not made here: give another name, or remove it first')


def put(path: Path, content: str | bytes, ours: bytes = b"") -> Path:
    """Write a file; what was there before stays until all of it is. A link gives way and is not followed.

    Without a pattern, whatever there is may be replaced: for files in a folder that is known to be ours.
    """
    check(path, ours)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with suppress(FileNotFoundError):
                temporary.unlink()  # of a process before; a link that lies there is not followed
            with temporary.open("xb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink()
    except OSError as error:
        raise _cannot_write(path, error) from error
    return path


def _cannot_write(path: Path, error: OSError) -> InputError:
    return InputError(f'cannot write "{path}": {error.strerror or error}. Give a place that can be written to')
