"""Files that somebody names for what comes of a command: whole or as before, and never in the place of another's."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from domainwise.errors import InputError

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
