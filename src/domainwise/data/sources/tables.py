"""Read a table of texts, or of numbers: CSV or TSV with the columns domain and label, and perhaps split and group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from domainwise.data.checks import require_domains
from domainwise.data.domains import FREE, PARTS, Domains
from domainwise.data.sources.arrays import domains
from domainwise.data.sources.manifests import KNOWN, Cells, Row, cells_of, checked, classes_of, parts_of, read_text
from domainwise.errors import InputError

NEEDED = ("domain", "label")
TEXT = "text"


def find_table(path: Path, tokenizer: str) -> Domains | None:
    """Return the texts or the numbers of a table; None where it is a manifest of images, or cannot be told from one."""
    if path.suffix.lower() not in (".csv", ".tsv"):
        return None
    columns, rows = cells_of(read_text(path), path, NEEDED)
    others = [name for name in columns if name not in KNOWN]
    if "path" in columns or not {*NEEDED} <= {*columns} or not rows or not others:
        return None
    if TEXT not in columns and not all(_number(rows[0][1][name]) is not None for name in others):
        return None
    about = checked([Row(where, "table", **_known(cells)) for where, cells in rows], path)
    values = [cells[TEXT] for _, cells in rows] if TEXT in columns else _numbers(rows, others, path)
    return _made(path, about, values, tokenizer)


def _known(cells: dict[str, str]) -> dict[str, str]:
    return {name: cells[name] for name in (*NEEDED, "split", "group") if name in cells}


def _made(path: Path, rows: Sequence[Row], values: Sequence[Any], tokenizer: str) -> Domains:
    names = sorted({row.domain for row in rows})
    require_domains(path.stem, names)
    of = {name: [i for i, row in enumerate(rows) if row.domain == name] for name in names}
    arrays = {name: ([values[i] for i in own], [rows[i].label for i in own]) for name, own in of.items()}
    grouped = any(row.group for row in rows)
    groups = {name: [rows[i].group or f"row {i}" for i in own] for name, own in of.items()} if grouped else None
    fixed, told = parts_of(rows, path), {FREE: "", **PARTS}
    parts = {name: [told[fixed[rows[i].where]] for i in own] for name, own in of.items()}
    splits = None if {*fixed.values()} == {FREE} else parts
    classes = classes_of([row.label for row in rows])
    return domains(arrays, name=path.stem, classes=classes, groups=groups, splits=splits, tokenizer=tokenizer)


def _numbers(rows: Sequence[Cells], columns: Sequence[str], path: Path) -> list[list[float]]:
    found = [[_number(cells[name]) for name in columns] for _, cells in rows]
    for i, name in enumerate(columns):
        wrong = [k for k, row in enumerate(found) if (value := row[i]) is None or not math.isfinite(value)]
        if wrong:
            where, cells = rows[wrong[0]]
            raise InputError(
                f'{path}: the column "{name}" has {len(wrong):,} of {len(rows):,} cells without a finite number, the '
                f'first of them "{cells[name]}" on {where}: fill them in, or leave these rows or the column out'
            )
    return [[value for value in row if value is not None] for row in found]


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
