"""Check files that were written before: by their checksum, or without one by what can be in them.

Files of an earlier version have no checksum, and other programs and accidents write JSON too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from domainwise.data.splits import OFFICIAL
from domainwise.errors import InputError
from domainwise.experiment.metrics import BINS, whole
from domainwise.experiment.records import finite
from domainwise.files import NotAFile, checksum, content_of, is_special, sha256

CHECKSUM = "checksum"


class Damaged(InputError):  # noqa: N818  a state of a file
    """Raised for a file that is not what was written; it says why."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} {reason}")
        self.path = path


class Unreadable(Damaged):
    """Raised for a file that cannot be read just now: it may be whole, so nothing is deleted because of it."""


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content with a checksum of it, as :func:`read` expects it."""
    plain: dict[str, Any] = finite(dict(content))
    return {**plain, CHECKSUM: checksum(plain)}


def read(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file, without its checksum; :class:`Damaged` where it is not what was written.

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
    """Return the sha256 and the length of a file, which tell it from every other."""
    return {"sha256": sha256(path), "bytes": path.stat().st_size}


def verify(path: Path, before: object) -> None:
    """Raise :class:`Damaged` where a file is not the one whose :func:`digest` was taken before."""
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
    """Return the bytes of a file; :class:`Damaged` where it is gone, :class:`Unreadable` where it cannot be read."""
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


LARGEST = 2**53  # up to here a float knows every whole number
CLASSES = 100_000


def is_number(value: object) -> bool:
    """Return whether a value is a finite number, or None, which stands for one that was not."""
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST


def is_share(value: object) -> bool:
    """Return whether a value is an accuracy, or None."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1)


def is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST


def is_record(record: Any, targets: Iterable[str] = ()) -> bool:
    """Return whether a value is a record: a step with the accuracies of domains, and of averages beside them."""
    try:
        tables = [record["domains"], record.get("average"), *record.get("averages", {}).values()]
        found = [part for table in tables for part in _parts(table or {})]
        tested = {*targets, "id_test"} if OFFICIAL in targets else {*targets}
        needed = [("main" if name in tested else "holdout") in parts for name, parts in record["domains"].items()]
        numbers = is_whole(record["step"]) and is_number(record.get("seconds")) and is_number(record.get("loss"))
        numbers = numbers and all(map(is_number, record.get("walk", {}).values()))
        return numbers and all(needed) and all(map(_is_part, found))
    except (KeyError, TypeError, AttributeError):
        return False


def are_counts(counts: Mapping[str, Any]) -> bool:
    """Return whether a value is the counts of selected models for every domain."""
    try:
        found = [part for table in counts.values() for part in _parts(table)]
        sizes = {_size(part) for part in found if "confusion" in part}
        return all(map(_is_part, found)) and len(sizes) <= 1
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError):
        return False


def _parts(table: Mapping[str, Any]) -> Iterable[Any]:
    return [part for parts in table.values() for part in parts.values()]


def _is_part(part: Any) -> bool:
    return is_share(part["accuracy"]) and is_number(part.get("loss")) and is_whole(part.get("count", 0))


def _size(part: Mapping[str, Any]) -> int:
    """How many classes counts have; a ValueError where they are none."""
    confusion, bins = part["confusion"], part["calibration"]
    if isinstance(confusion, Mapping) and not (is_whole(confusion["classes"]) and confusion["classes"] <= CLASSES):
        raise ValueError("no number of classes")
    cells = confusion["images"] if isinstance(confusion, Mapping) else [cell for row in confusion for cell in row]
    rows = [np.asarray(bins[name], float) for name in ("count", "confidence", "correct")]
    if not all(row.shape == (BINS,) and np.isfinite(row).all() and (row >= 0).all() for row in rows):
        raise ValueError("no calibration")
    table = whole(confusion)
    if not all(map(is_whole, cells)) or table.shape != (len(table), len(table)):
        raise ValueError("no table")
    return len(table)
