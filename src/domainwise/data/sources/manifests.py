"""Domains from a table of images: CSV, TSV or JSON with path, domain and label, and perhaps split and group."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from domainwise.data.arrays import FREE, HOLDOUT, MAIN
from domainwise.data.sources.listing import File, Listing, quoted
from domainwise.data.sources.rows import Row, read_rows
from domainwise.errors import InputError

SPLITS = {"": FREE, "train": MAIN, "holdout": HOLDOUT, "val": HOLDOUT, "validation": HOLDOUT}


def find_manifest(path: Path) -> Listing:
    """The files that a manifest names. Relative paths are relative to the manifest's folder, and stay inside it."""
    rows, given = read_rows(path)
    classes = _classes([row.label for row in rows]) if given is None else given
    position = {kind: i for i, kind in enumerate(classes)}
    folder = path.absolute().parent
    fixed = _fixed(rows, path)
    files = []
    for row in rows:
        full, relative = _place(folder, row, path)
        part = fixed[row.where]
        mark = (row.domain, row.label, str(position[row.label]), row.group, str(part))
        files.append(File(row.domain, row.label, full, relative, row.group, part, mark))
    _require_distinct(files, rows, path)
    _require_there(files, rows, path)
    files.sort(key=lambda file: (file.domain, position[file.kind], *file.relative.rpartition("/")))
    return Listing(path.stem, path, classes, files)


def _classes(labels: Sequence[str]) -> tuple[str, ...]:
    """In the order of their names, or as numbers where all are numbers."""
    numbers = all(label.isascii() and label.isdigit() for label in labels)
    return tuple(sorted({*labels}, key=lambda label: (int(label) if numbers else 0, label)))


def _place(folder: Path, row: Row, manifest: Path) -> tuple[str, str]:
    """The path of an image, and what it is called: relative to the manifest's folder if it lies there."""
    full = os.path.normpath(folder / row.path)
    inside = Path(full).is_relative_to(folder)
    if not inside and not Path(row.path).is_absolute():
        raise InputError(
            f"{manifest}, {row.where}: {quoted(row.path)} leads out of the manifest's folder: move the manifest, "
            "or give an absolute path"
        )
    return full, Path(full).relative_to(folder).as_posix() if inside else Path(full).as_posix()


def _fixed(rows: Sequence[Row], manifest: Path) -> dict[str, int]:
    """In which part each row belongs: as it says, or as another row of its group says."""
    of_group: dict[tuple[str, str], Row] = {}
    for row in rows:
        if row.split.casefold() not in SPLITS:
            raise InputError(
                f'{manifest}, {row.where}: "{row.split}" is no split: use train or holdout, or nothing to leave it to '
                "the seed; what is tested on is a whole domain, the target"
            )
        if row.split and row.group:
            other = of_group.setdefault((row.domain, row.group), row)
            if SPLITS[other.split.casefold()] != SPLITS[row.split.casefold()]:
                raise InputError(
                    f'{manifest}, {row.where}: group "{row.group}" is in split "{row.split}" here and in '
                    f'"{other.split}" on {other.where}: a group must not straddle the split'
                )
    return {row.where: SPLITS[of_group.get((row.domain, row.group), row).split.casefold()] for row in rows}


def _require_distinct(files: Sequence[File], rows: Sequence[Row], manifest: Path) -> None:
    first: dict[str, str] = {}
    for file, row in zip(files, rows, strict=True):
        if file.path in first:
            raise InputError(f"{manifest}, {row.where}: {file} is on {first[file.path]} already: keep one of them")
        first[file.path] = row.where


def _require_there(files: Sequence[File], rows: Sequence[Row], manifest: Path) -> None:
    # os.path: pathlib raises for a name that is too long
    lost = [(file, row) for file, row in zip(files, rows, strict=True) if not os.path.isfile(file.path)]  # noqa: PTH113
    if lost:
        file, row = lost[0]
        what = "is a folder" if os.path.isdir(file.path) else f"is not there (looked for {quoted(file.path)})"  # noqa: PTH112
        more = f"; {len(lost)} rows point to no file" if len(lost) > 1 else ""
        raise InputError(f"{manifest}, {row.where}: {quoted(row.path)} {what}{more}")
