"""Write files whole or not at all, never through a link of somebody else, one process at a time."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from domainwise.errors import InputError


def user_cache() -> Path:
    """Return the user's own cache folder, shared with nobody."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if Path(home).is_absolute() else Path.home() / ".cache") / "domainwise"


ABSENT = (FileNotFoundError, NotADirectoryError)


def exists(path: Path) -> bool:
    """Return whether a path exists; an error of the disk is raised, where ``Path.exists`` may return False."""
    try:
        path.stat()
    except ABSENT:
        return False
    return True


def names_in(folder: Path) -> list[str]:
    """Return the sorted names in a folder: none if it does not exist, an error if it cannot be read."""
    try:
        return sorted(path.name for path in folder.iterdir())
    except ABSENT:
        return []


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn an error of the disk into a sentence, around code that only reads."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{path} cannot be read just now ({error.strerror or error}): nothing there was changed; give the same "
            "command again when it can be read"
        ) from error


class NotAFile(OSError):  # noqa: N818  says what is there instead
    """A pipe or a device lies where a file belongs: to open it means to wait, or to read for ever."""


def is_special(path: Path) -> bool:
    """Return whether a path is neither a file nor a folder: a pipe, a device, or a link to one."""
    with suppress(OSError):
        mode = path.stat().st_mode
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    return False


def content_of(path: Path) -> bytes:
    """Return all bytes of a file; raise :class:`NotAFile` for a pipe or a device."""
    if is_special(path):
        raise NotAFile(errno.ENODEV, "it is a pipe or a device, not a file", str(path))
    return path.read_bytes()


def checksum(content: Mapping[str, Any]) -> str:
    """Return a hash of JSON content that does not depend on the order of keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def open_own(path: Path, flags: int) -> int:
    """Open or create a file; remove a link, pipe or device in its place first instead of following it."""
    if path.is_symlink() or is_special(path):
        path.unlink()
    return os.open(path, flags | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)


def open_to_append(path: Path) -> TextIO:
    """Open a text file to append to; create it if needed."""
    return os.fdopen(open_own(path, os.O_WRONLY | os.O_APPEND), "a", encoding="utf-8")


def create_text(path: Path) -> TextIO:
    """Create an empty text file, in place of whatever has that name."""
    path.unlink(missing_ok=True)
    # Names on a disk may be invalid Unicode, which must not make the rest unreadable.
    return path.open("x", encoding="utf-8", errors="backslashreplace", newline="")


def remove_links(folder: Path, copied: tuple[str, ...]) -> list[Path]:
    """Remove and return the links in a folder; those with a name in ``copied`` become files of the same content."""
    for path in (links := [path for path in folder.rglob("*") if path.is_symlink()]):
        content = path.read_bytes() if path.name in copied and path.is_file() else None
        path.unlink()
        if content is not None:
            path.write_bytes(content)
    return links


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents so that they would survive a power cut."""
    missing = [path for path in (folder, *folder.parents) if not exists(path)]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        with suppress(PermissionError):  # one may be allowed to write into a folder and not to read it
            sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, would survive a power cut."""
    if path.is_dir() and os.name == "nt":
        return  # pragma: no cover  folders cannot be opened there
    handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


LOCK = ".lock"


@contextmanager
def locked(path: Path, waiting: Callable[[], object] | None = None) -> Iterator[bool]:
    """Hold a lock file while the block runs; yields False where the file system has no locks: then nobody waits.

    Where another process holds it, call ``waiting`` and wait; without that, raise BlockingIOError. The system gives the
    lock back when the process ends, however it ends. A lock file that is left over is held by nobody.
    """
    if sys.platform == "win32":  # pragma: no cover
        yield False
        return
    handle, certain = _lock(path, waiting)
    try:
        yield certain
    finally:
        try:
            path.unlink(missing_ok=True)
        finally:
            os.close(handle)


def _lock(path: Path, waiting: Callable[[], object] | None) -> tuple[int, bool]:
    while True:
        handle = open_own(path, os.O_RDWR)
        try:
            certain = _flock(handle, waiting)
            if not certain or _is_at(path, handle):
                return handle, certain
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # the process that held it has removed it in the meantime


def _flock(handle: int, waiting: Callable[[], object] | None) -> bool:
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if waiting is None:
            raise
        waiting()
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError:  # a file system without locks
        return False
    return True


def _is_at(path: Path, handle: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(handle))
    return False


def lock_trial(folder: Path, say: Callable[[str], None]) -> AbstractContextManager[bool]:
    """Hold a trial's folder, after waiting for the process that does: two would write into each other's files."""
    return locked(folder / LOCK, partial(say, f"another process works on the trial in {folder}: waiting for it"))


def is_locked(folder: Path) -> bool:
    """Return whether a process works in a folder just now, as far as the system knows; needs no right to write."""
    if sys.platform == "win32" or not (folder / LOCK).is_file():
        return False
    import fcntl

    with (folder / LOCK).open("rb") as file, suppress(OSError):  # a file system without locks
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a name to write to, which replaces ``path`` when the block ends; an error leaves what was there before."""
    temporary = beside(path)
    temporary.unlink(missing_ok=True)  # of a process before, or a link that somebody has put there
    try:
        yield temporary
        temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def replacing_text(path: Path) -> Iterator[TextIO]:
    """Yield a text file that replaces ``path`` when it is whole and on the disk."""
    with replacing(path) as temporary, create_text(temporary) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def beside(path: Path) -> Path:
    """Return the hidden name that a file has while it is being written, which no other thread uses."""
    return path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")


def leftovers(folder: Path) -> list[Path]:
    """Return the temporary files that killed processes left: their names end in a number."""
    return [path for path in folder.rglob(".*.*") if path.is_file() and path.suffix[1:].isdigit()]


def clear_leftovers(folder: Path) -> None:
    """Remove the temporary files that killed processes left."""
    for path in leftovers(folder):
        path.unlink(missing_ok=True)


PAGE = re.escape(
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src"
).encode()
PICTURE = rb'<svg style="background: #fff" color="#1a1f26" '
MADE_BY = ("Software", "domainwise")  # in a PNG, behind its head
PNG = rb"\x89PNG\r\n\x1a\n.{25}.{4}tEXtSoftware\x00domainwise"


def check_output(path: Path, ours: bytes) -> None:
    """Refuse to replace anything but a file that begins with ``ours``, a pattern that the files made here match."""
    try:
        if path.is_dir():
            raise InputError(f'"{path}" is a folder: give the name of a file')
        there = next((parent for parent in path.parents if parent.exists()), path.parent)
        if there.exists() and not there.is_dir():
            raise InputError(f'cannot write "{path}": "{there}" is not a folder')
        if not path.exists():
            return
        if not path.is_file():
            raise InputError(f'"{path}" is a device or a pipe, not a file: give another name')
        with path.open("rb") as content:
            start = content.read(1024)
    except OSError as error:
        raise _cannot_write(path, error) from error
    if start and not re.match(ours, start, re.DOTALL):
        raise InputError(f'"{path}" holds something that was not made here: give another name, or remove it first')


def write_output(path: Path, content: str | bytes, ours: bytes = b"") -> Path:
    """Write a file whole, or raise a sentence and keep what was there. A link is replaced, not followed.

    Without the pattern ``ours``, any file may be replaced: for folders that are known to be ours.
    """
    check_output(path, ours)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, temporary.open("xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise _cannot_write(path, error) from error
    return path


def _cannot_write(path: Path, error: OSError) -> InputError:
    return InputError(f'cannot write "{path}": {error.strerror or error}. Give a place that can be written to')
