"""Tell a file that is as it was written from one that has changed since."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from domainwise.errors import InputError
from domainwise.experiment.records import finite
from domainwise.files import NotAFile, checksum, content_of, is_special, sha256

CHECKSUM = "checksum"


class Damaged(InputError):  # noqa: N818  a state of a file
    """A file that is not what was written, and why."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} {reason}")
        self.path = path


class Unreadable(Damaged):
    """A file that cannot be read just now. It may be whole, so that nothing is to be deleted because of it."""


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """The same with a checksum of it, as :func:`read` expects it."""
    plain: dict[str, Any] = finite(dict(content))
    return {**plain, CHECKSUM: checksum(plain)}


def read(path: Path) -> dict[str, Any]:
    """The object in a JSON file, without its checksum; :class:`Damaged` where it is not what was written.

    A file of an earlier version has no checksum: then any JSON object will do.
    """
    text = content(path)
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Damaged(path, f"is damaged: it is no longer JSON ({error})") from error
    except RecursionError as error:
        raise Damaged(path, "is damaged: its JSON is nested too deeply") from error
    if not isinstance(found, dict):
        raise Damaged(path, f"is damaged: it holds {_kind(found)} instead of an object")
    before = found.pop(CHECKSUM, None)
    if before is not None and before != checksum(found):
        raise Damaged(path, "has changed since it was written: its checksum is another")
    return found


def digest(path: Path) -> dict[str, Any]:
    """The sha256 and the length of a file, which tell it from every other."""
    return {"sha256": sha256(path), "bytes": path.stat().st_size}


def verify(path: Path, before: object) -> None:
    """:class:`Damaged` where a file is not the one whose :func:`digest` was taken before."""
    if not isinstance(before, dict):
        raise Damaged(path, "cannot be checked: what was written down about it is damaged")
    try:
        length = path.stat().st_size
        same = length == before.get("bytes") and digest(path)["sha256"] == before.get("sha256")
    except OSError as error:
        raise _of(path, error) from error
    if not same:
        many = "" if length == before.get("bytes") else f": it has {length} bytes and had {before.get('bytes')}"
        raise Damaged(path, f"has changed since it was written{many}")


def make_way(path: Path) -> None:
    """Move a folder aside that lies where a file of ours belongs; an empty one goes, and so does a pipe or a device."""
    if is_special(path):
        path.unlink()
    if path.is_dir() and not path.is_symlink():
        try:
            path.rmdir()
        except OSError:
            path.rename(path.with_name(f"{path.name}.aside-{uuid4().hex[:8]}"))


def content(path: Path) -> bytes:
    """All bytes of a file; :class:`Damaged` where it is gone, :class:`Unreadable` where it cannot be read now."""
    try:
        return content_of(path)
    except OSError as error:
        raise _of(path, error) from error


def _of(path: Path, error: OSError) -> Damaged:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Damaged(path, "is missing")
    if isinstance(error, IsADirectoryError) or path.is_dir():
        return Damaged(path, "is damaged: there is a folder in its place")
    if isinstance(error, NotAFile):
        return Damaged(path, "is damaged: there is a pipe or a device in its place")
    return Unreadable(path, f"cannot be read: {error.strerror or error}")


def _kind(content: object) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(content), "null")
