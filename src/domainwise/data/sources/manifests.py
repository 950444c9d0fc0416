"""Find the images of a table: CSV, TSV or JSON with path, domain and label, and perhaps split and group."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unicodedata import category, normalize

from domainwise.data.decoded.image import Box
from domainwise.data.domains import FREE, HOLDOUT, ID_TEST, MAIN, TEST, VAL
from domainwise.data.sources.listing import File, Listing, quoted
from domainwise.errors import InputError, closest

SUFFIXES = (".csv", ".tsv", ".json")
NEEDED = ("path", "domain", "label")
KNOWN = (*NEEDED, "split", "group", "box")
OTHERWISE = {"file_name": "path"}  # what others call a column: this one is of Hugging Face's metadata.csv
DELIMITERS = ",;\t|"
UTF16 = (b"\xff\xfe", b"\xfe\xff")
MOST = 1e6  # pixels on a side
Cells = tuple[str, dict[str, str]]  # where a row stands, and its cells by column
SPLITS = {"": FREE, "train": MAIN, "holdout": HOLDOUT, "val": HOLDOUT, "validation": HOLDOUT}
OFFICIAL = {"train": MAIN, "id_val": HOLDOUT, "val": VAL, "validation": VAL, "test": TEST, "id_test": ID_TEST}


@dataclass(frozen=True)
class Row:
    """A row of a manifest, and where it stands for whoever has to find it."""

    where: str  # "line 7"
    path: str
    domain: str
    label: str
    split: str = ""
    group: str = ""
    box: str = ""


def find_manifest(path: Path) -> Listing:
    """Return the files that a manifest names; relative paths start in its folder and stay inside it."""
    rows, given = read_rows(path)
    classes = classes_of([row.label for row in rows]) if given is None else given
    position = {name: i for i, name in enumerate(classes)}
    folder = path.absolute().parent
    fixed = parts_of(rows, path)
    files = []
    for row in rows:
        full, relative = _place(folder, row, path)
        part = fixed[row.where]
        box = _box(row, path)
        mark = (row.domain, row.label, str(position[row.label]), row.group, str(part), *map(repr, box))
        files.append(File(row.domain, row.label, full, relative, row.group, part, box, mark))
    _require_distinct(files, rows, path)
    _require_there(files, rows, path)
    files.sort(key=lambda file: (file.domain, position[file.class_name], *file.relative.rpartition("/"), file.box))
    return Listing(path.stem, path, classes, files)


def classes_of(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the classes in the order of their names, or as numbers where all are numbers."""
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


def _box(row: Row, manifest: Path) -> Box:
    """Left, top, width and height, with blanks or commas between them."""
    words = row.box.replace(",", " ").strip("[]() ").split()
    try:
        box = tuple(map(float, words))
    except ValueError:
        box = (-1.0,)
    if box and not (len(box) == 4 and all(0 <= part < MOST for part in box) and min(box[2:]) > 0):
        raise InputError(
            f"{manifest}, {row.where}: the box {quoted(row.box)} is not left, top, width and height: four numbers from "
            "0 up, in pixels, or all of them up to 1 in parts of the picture"
        )
    return box


def parts_of(rows: Sequence[Row], manifest: Path) -> dict[str, int]:
    """Return the part that each row belongs in: as it says, or as another row of its group says.

    Where a row is for testing, the manifest has an official split, in which every row has a part.
    """
    official = any(row.split.casefold() == "test" for row in rows)
    known = OFFICIAL if official else SPLITS
    of_group: dict[tuple[str, str], Row] = {}
    for row in rows:
        if row.split and row.group:
            of_group.setdefault((row.domain, row.group), row)
    led = {row.where: of_group.get((row.domain, row.group), row) for row in rows}
    for row in rows:
        leader = led[row.where]
        if (row.split or leader.split).casefold() not in known:
            raise InputError(_no_split(row, manifest, official))
        if row.split and known[leader.split.casefold()] != known[row.split.casefold()]:
            raise InputError(
                f'{manifest}, {row.where}: group "{row.group}" is in split "{row.split}" here and in '
                f'"{leader.split}" on {leader.where}: a group must not straddle the split'
            )
    return {where: known[leader.split.casefold()] for where, leader in led.items()}


def _no_split(row: Row, manifest: Path, official: bool) -> str:
    if official:
        return (
            f'{manifest}, {row.where}: "{row.split}" is not a part of an official split, which the manifest has, since '
            f"some rows are for testing: every row is then one of {', '.join(OFFICIAL)}"
        )
    return (
        f'{manifest}, {row.where}: "{row.split}" is not a split: use train or holdout, or nothing to leave it to the '
        f"seed; with rows of test it is an official split, of {', '.join(OFFICIAL)}"
    )


def _require_distinct(files: Sequence[File], rows: Sequence[Row], manifest: Path) -> None:
    first: dict[tuple[str, Box], str] = {}
    for file, row in zip(files, rows, strict=True):
        if (there := first.setdefault((file.path, file.box), row.where)) != row.where:
            raise InputError(f"{manifest}, {row.where}: {file} is on {there} already: keep one of them")


def _require_there(files: Sequence[File], rows: Sequence[Row], manifest: Path) -> None:
    # os.path: pathlib raises for a name that is too long
    lost = [(file, row) for file, row in zip(files, rows, strict=True) if not os.path.isfile(file.path)]  # noqa: PTH113
    if lost:
        file, row = lost[0]
        what = "is a folder" if os.path.isdir(file.path) else f"is not there (looked for {quoted(file.path)})"  # noqa: PTH112
        more = f"; {len(lost)} rows point to no file" if len(lost) > 1 else ""
        raise InputError(f"{manifest}, {row.where}: {quoted(row.path)} {what}{more}")


def read_rows(manifest: Path) -> tuple[list[Row], tuple[str, ...] | None]:
    """Return the rows, and the classes in their order where the manifest gives it."""
    text = read_text(manifest)
    rows, classes = _json(text, manifest) if manifest.suffix.lower() == ".json" else (_csv(text, manifest), None)
    if not rows:
        raise InputError(f"{manifest} names no images")
    composed = checked(rows, manifest)
    return composed, None if classes is None else tuple(normalize("NFC", name) for name in classes)


def checked(rows: Sequence[Row], manifest: Path) -> list[Row]:
    """Return the rows with their names composed, or refuse the first one that lacks something."""
    for row in rows:
        _require_sound(row, manifest)
    return [replace(row, domain=normalize("NFC", row.domain), label=normalize("NFC", row.label)) for row in rows]


def read_text(manifest: Path) -> str:
    """Return the text of a file, in UTF-8 or UTF-16."""
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
        raise InputError(f"{manifest}, line {line}: there is a NUL byte, so this is not a text, or a damaged one")
    return text


def _csv(text: str, manifest: Path) -> list[Row]:
    columns, rows = cells_of(text, manifest, NEEDED)
    if columns:
        _require_columns(columns, manifest)
    return [Row(where, **{name: cells[name] for name in KNOWN if name in cells}) for where, cells in rows]


def cells_of(text: str, manifest: Path, needed: Sequence[str]) -> tuple[list[str], list[Cells]]:
    """Return the columns, by the names they have here, and where each row stands with its cells by column."""
    header = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(
        DELIMITERS, key=lambda mark: len({*needed} & {cell.strip(' "').casefold() for cell in header.split(mark)})
    )
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True, skipinitialspace=True)
    rows: list[Cells] = []
    columns: list[str] = []
    try:
        for cells in reader:
            where = f"line {reader.line_num}"
            if not any(cell.strip() for cell in cells):
                continue
            if not columns:
                columns = [OTHERWISE.get(cell, cell) for cell in (cell.strip().casefold() for cell in cells)]
                if twice := [name for name in (*KNOWN, *needed) if columns.count(name) > 1]:
                    raise InputError(f"{manifest} has the column {twice[0]} twice")
            elif len(cells) != len(columns):
                raise InputError(f"{manifest}, {where}: {len(cells)} cells, but the header has {len(columns)}")
            else:
                rows.append((where, dict(zip(columns, (cell.strip() for cell in cells), strict=True))))
    except csv.Error as error:
        raise InputError(f"{manifest}, line {reader.line_num}: {error}") from error
    return columns, rows


def _require_columns(columns: Sequence[str], manifest: Path) -> None:
    missing = [name for name in NEEDED if name not in columns]
    if missing:
        raise InputError(
            f"{manifest} has no column {' and no '.join(missing)}: the first line must name path, domain and label, "
            f"and may name split, group and box; it names {', '.join(columns)[:200]}"
        )


def _json(text: str, manifest: Path) -> tuple[list[Row], tuple[str, ...] | None]:
    """A list of objects; or an object with such a list under "images", and perhaps "classes" in their order."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{manifest}, line {error.lineno}: this is not JSON: {error.msg}") from error
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
    if isinstance(found, Mapping):
        found = {OTHERWISE.get(name, name): value for name, value in found.items()}
        if isinstance(found.get("box"), list):
            found["box"] = " ".join(map(str, found["box"]))
    if not isinstance(found, Mapping) or any(name not in found for name in NEEDED):
        raise InputError(f"{manifest}, {where}: this is not an object with path, domain and label")
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
