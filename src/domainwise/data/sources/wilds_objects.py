"""Take the dataset objects of the package wilds, known by their attributes alone: the package is never imported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from domainwise.data.domains import PARTS
from domainwise.errors import InputError, warn

ATTRIBUTES = ("get_subset", "get_input", "metadata_array", "metadata_fields", "split_dict", "split_array", "y_array")


def is_wilds(given: object) -> bool:
    """Return whether something is a dataset of the package wilds, or looks like one."""
    return all(hasattr(given, name) for name in ATTRIBUTES)


def place_of_wilds(dataset: Any) -> str:
    """Return what ``--data`` calls a dataset whose folder can be read without the package."""
    from domainwise.data.sources.benchmarks import BENCHMARKS

    name, scheme = str(dataset.dataset_name), str(getattr(dataset, "split_scheme", "official"))
    known = [one.name for one in BENCHMARKS.values() if one.wilds]
    if name not in known:
        raise InputError(f"the folder of {name} is not read, only those of {', '.join(known)}: give it to dw.domains")
    if scheme not in ("official", "time_after_2016", "user"):
        raise InputError(
            f"{name} is split by {scheme}, and its folder is read by the official split: give it to dw.domains"
        )
    return f"{name}={Path(dataset.data_dir)}"


def arrays_of(dataset: Any, by: Sequence[str] = ()) -> dict[str, Any]:
    """Return what :func:`~domainwise.data.sources.arrays.domains` takes of a dataset: every item is read once.

    A domain is a value of the first field of the metadata, or of the fields ``by``.
    """
    fields = list(dataset.metadata_fields)
    by = list(by) or fields[:1]
    metadata = np.asarray(dataset.metadata_array)
    parts = {number: part for part, number in dataset.split_dict.items() if part in PARTS.values()}
    splits = [parts.get(int(number), "") for number in np.asarray(dataset.split_array)]
    used = [i for i, part in enumerate(splits) if part]
    if len(used) < len(splits):
        warn(f"{dataset.dataset_name}: {len(splits) - len(used):,} of {len(splits):,} items are in no known split")
    columns = [fields.index(field) for field in by]
    names = [" ".join(_named(dataset, fields[at], row[at]) for at in columns) for row in metadata]
    rows: dict[str, list[int]] = {}
    for i in used:
        rows.setdefault(names[i], []).append(i)
    labels = np.asarray(dataset.y_array).reshape(len(splits))
    items = {name: [_item(dataset.get_input(i)) for i in own] for name, own in rows.items()}
    return {
        "name": str(dataset.dataset_name),
        "arrays": {name: (_stacked(items[name]), labels[own]) for name, own in rows.items()},
        "splits": {name: [splits[i] for i in own] for name, own in rows.items()},
        "classes": [str(i) for i in range(int(getattr(dataset, "n_classes", None) or labels.max() + 1))],
    }


def _named(dataset: Any, field: str, value: Any) -> str:
    names = (getattr(dataset, "metadata_map", None) or {}).get(field)
    return str(names[int(value)]) if names is not None else f"{field}{int(value)}"


def _item(given: Any) -> Any:
    if isinstance(given, str):
        return given
    return np.asarray(given.convert("RGB") if hasattr(given, "convert") else given)


def _stacked(items: Sequence[Any]) -> Any:
    return list(items) if isinstance(items[0], str) else np.stack(items)
