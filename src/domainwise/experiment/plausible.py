"""What files of an earlier version, which have no checksum, can hold: other programs and accidents write JSON too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from domainwise.experiment.metrics import BINS, whole

LARGEST = 2**53  # up to here a float knows every whole number
CLASSES = 100_000


def is_number(value: object) -> bool:
    """Whether it is a finite number, or nothing, which stands for one that was not."""
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST


def is_share(value: object) -> bool:
    """Whether it is an accuracy, or nothing."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1)


def is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST


def is_record(record: Any, targets: Iterable[str] = ()) -> bool:
    """Whether it is a step with the accuracies of domains, and of averages beside them."""
    try:
        tables = [record["domains"], record.get("average"), *record.get("averages", {}).values()]
        found = [part for table in tables for part in _parts(table or {})]
        needed = [("main" if name in targets else "holdout") in parts for name, parts in record["domains"].items()]
        numbers = is_whole(record["step"]) and is_number(record.get("seconds")) and is_number(record.get("loss"))
        return numbers and all(needed) and all(map(_is_part, found))
    except (KeyError, TypeError, AttributeError):
        return False


def are_counts(counts: Mapping[str, Any]) -> bool:
    """Whether it is what selected models made of the images of every domain."""
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
