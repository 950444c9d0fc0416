"""The rows of a manifest, from CSV, TSV or JSON, each with where it stands for whoever has to find it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unicodedata import category, normalize

from domainwise.errors import InputError, closest

SUFFIXES = (".csv", ".tsv", ".json")
NEEDED = ("path", "domain", "label")
KNOWN = (*NEEDED, "split", "group")
DELIMITERS = ",;\t|"
UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Row:
    where: str  # "line 7"
    path: str
    domain: str
    label: str
    split: str = ""
    group: str = ""


def read_rows(manifest: Path) -> tuple[list[Row], tuple[str, ...] | None]:
    """The rows; and the classes in their order, where the manifest says so."""
    text = _text(manifest)
    rows, classes = _json(text, manifest) if manifest.suffix.lower() == ".json" else (_csv(text, manifest), None)
    if not rows:
        raise InputError(f"{manifest} names no images")
    for row in rows:
        _require_sound(row, manifest)
    composed = [replace(row, domain=normalize("NFC", row.domain), label=normalize("NFC", row.label)) for row in rows]
    return composed, None if classes is None else tuple(normalize("NFC", name) for name in classes)


def _text(manifest: Path) -> str:
    try:
        content = manifest.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {manifest}: {error.strerror}") from error
    try:
        text = content.decode("utf-16" if content[:2] in UTF16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{manifest}, line {line}: this is not UTF-8: save the file with that encoding") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"{manifest}, line {line}: there is a NUL byte, so this is no text or a damaged one")
    return text


def _csv(text: str, manifest: Path) -> list[Row]:
    header = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(
        DELIMITERS, key=lambda mark: len({*NEEDED} & {cell.strip(' "').casefold() for cell in header.split(mark)})
    )
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True, skipinitialspace=True)
    rows, columns = [], None
    try:
        for cells in reader:
            where = f"line {reader.line_num}"
            if not any(cell.strip() for cell in cells):
                continue
            if columns is None:
                columns = [cell.strip().casefold() for cell in cells]
                _require_columns(columns, manifest)
            elif len(cells) != len(columns):
                raise InputError(f"{manifest}, {where}: {len(cells)} cells, but the header has {len(columns)}")
            else:
                found = dict(zip(columns, (cell.strip() for cell in cells), strict=True))
                rows.append(Row(where, **{name: found[name] for name in KNOWN if name in found}))
    except csv.Error as error:
        raise InputError(f"{manifest}, line {reader.line_num}: {error}") from error
    return rows


def _require_columns(columns: Sequence[str], manifest: Path) -> None:
    missing = [name for name in NEEDED if name not in columns]
    if missing:
        raise InputError(
            f"{manifest} has no column {' and no '.join(missing)}: the first line must name path, domain and label, "
            f"and may name split and group; it names {', '.join(columns)[:200]}"
        )
    twice = [name for name in KNOWN if columns.count(name) > 1]
    if twice:
        raise InputError(f"{manifest} has the column {twice[0]} twice")


def _json(text: str, manifest: Path) -> tuple[list[Row], tuple[str, ...] | None]:
    """A list of objects; or an object with such a list under "images", and perhaps "classes" in their order."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{manifest}, line {error.lineno}: this is no JSON: {error.msg}") from error
    except RecursionError:
        raise InputError(f"{manifest} is nested too deeply") from None
    images = found.get("images") if isinstance(found, dict) else found
    classes = found.get("classes") if isinstance(found, dict) else None
    if not isinstance(images, list):
        raise InputError(f'{manifest} must hold a list of objects with path, domain and label, or that under "images"')
    if classes is not None and not (isinstance(classes, list) and all(isinstance(name, str) for name in classes)):
        raise InputError(f'"classes" in {manifest} must be a list of names')
    if classes is not None and len({*classes}) < len(classes):
        raise InputError(f'"classes" in {manifest} has a name twice')
    rows = [_object(each, f"image {i}", manifest, classes) for i, each in enumerate(images, 1)]
    return rows, None if classes is None else tuple(classes)


def _object(found: Any, where: str, manifest: Path, classes: Sequence[str] | None) -> Row:
    if not isinstance(found, Mapping) or any(name not in found for name in NEEDED):
        raise InputError(f"{manifest}, {where}: this is no object with path, domain and label")
    cells = {name: found[name] for name in KNOWN if found.get(name) is not None}
    for name, value in cells.items():
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise InputError(
                f"{manifest}, {where}: {name} must be a text or a whole number, got {json.dumps(value)[:50]}"
            )
    label = cells.get("label")
    if classes is not None and isinstance(label, int):
        if not 0 <= label < len(classes):
            raise InputError(f"{manifest}, {where}: label {label} is outside 0..{len(classes) - 1}")
        cells["label"] = classes[label]
    elif classes is not None and label not in classes:
        raise InputError(f'{manifest}, {where}: "{label}" is none of the classes: {closest(str(label), classes)}')
    return Row(where, **{"path": "", "domain": "", "label": "", **{k: str(v) for k, v in cells.items()}})


def _require_sound(row: Row, manifest: Path) -> None:
    for name in NEEDED:
        value = getattr(row, name)
        if not value:
            raise InputError(f"{manifest}, {row.where}: there is no {name}")
    for value in (row.path, row.domain, row.label, row.group):
        if any(category(character) in ("Cc", "Cs") for character in value):
            raise InputError(f"{manifest}, {row.where}: {value!a} has a control character in it: remove it")
