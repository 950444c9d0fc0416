"""Read the image sets of the WILDS benchmark from their official folders, with their official splits."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from domainwise.data.domains import PARTS
from domainwise.data.sources.folders import looking, require_folder
from domainwise.data.sources.listing import File, Listing, listed, quoted
from domainwise.errors import InputError

SPLITS = {name: part for part, name in PARTS.items()}


@dataclass(frozen=True)
class Release:
    """One set of WILDS: which version is read, the table that describes it, and how its rows are understood."""

    name: str
    version: str
    table: str
    read: Callable[[Path, str], pd.DataFrame]  # -> path, domain, class, split and subgroups of every row
    classes: Callable[[pd.Series[Any]], Sequence[str]] = lambda names: sorted({*names})


def find_release(name: str, folder: Path) -> Listing:
    """Return the images of a WILDS set, given its folder or the one around it."""
    release = RELEASES[name]
    place = place_of(release.name, release.version, release.table, folder)
    rows = release.read(place, release.table)
    classes = tuple(release.classes(rows["class"]))
    order = {domain: i for i, domain in enumerate(ordered(rows))}
    rows = rows.assign(order=rows["domain"].map(order)).sort_values(["order", "class", "path"], kind="stable")
    files = [_file(place, *row) for row in rows[["path", "domain", "class", "split", "subgroups"]].itertuples(False)]
    _require_there(files, place, release)
    if missing := sorted({"train", "val", "test"} - {*rows["split"]}):
        raise InputError(f"{place / release.table} has no rows of the split {missing[0]}: is it the whole table?")
    return Listing(name, place, classes, files, published=True)


def _file(place: Path, path: str, domain: str, class_name: str, split: str, subgroups: tuple[str, ...]) -> File:
    full, mark = f"{place}/{path}", (domain, class_name, split, *subgroups)
    return File(domain, class_name, full, path, fixed=SPLITS[split], mark=mark, subgroups=subgroups)


def ordered(rows: pd.DataFrame) -> list[str]:
    """Return the domains: those to train on, then those to validate and to test on; numbers in their order."""
    parts = rows["split"].map({"val": 1, "test": 2}).fillna(0).groupby(rows["domain"]).max()
    return sorted(parts.index, key=lambda domain: (parts[domain], _number_last(domain)))


def _number_last(name: str) -> tuple[str, int]:
    word = name.rstrip("0123456789")
    return word, int(name[len(word) :] or 0)


def place_of(name: str, version: str, table: str, folder: Path) -> Path:
    """Return the folder of a release, which is the one given or one inside it; refuse another version."""
    require_folder(folder)
    own = f"{name}_v{version}"
    with looking():
        for place in (folder, folder / own):
            if (place / table).is_file():
                _require_version(name, version, place)
                return place
        others = sorted(path.name for path in folder.glob(f"{name}_v*"))
    there = f", but {quoted(others[0])}, of another version" if others else ""
    raise InputError(
        f"{name} is not in {folder}: there is no {table}, and no folder {own} with one{there}; give the folder that "
        f"the release {version} was unpacked to"
    )


def _require_version(name: str, version: str, place: Path) -> None:
    names = sorted(path.stem for path in place.glob("RELEASE_v*.txt"))
    if names and f"RELEASE_v{version}" not in names:
        raise InputError(
            f"{place} says that it is {name} {names[-1].removeprefix('RELEASE_')}: v{version} is read here, whose "
            "columns and splits differ"
        )


def _require_there(files: Sequence[File], place: Path, release: Release) -> None:
    lost = [str(file) for file in files if not os.path.isfile(file.path)]  # noqa: PTH113  half a million of them
    if lost:
        what = f"of {len(files):,} files that {release.table} names are not in {place}"
        raise InputError(
            f"{listed(what, lost)}: the download is not complete, or only in part unpacked; unpack it again, or "
            "download it anew"
        )


def read_table(file: Path, columns: Mapping[str, type], **options: Any) -> pd.DataFrame:
    """Return the named columns of a CSV file, each of its type; a sentence where the file is not what it should be.

    The type str is for texts that are not empty, object for any.
    """
    try:
        table = pd.read_csv(file, dtype=str, keep_default_na=False, usecols=lambda name: name in columns, **options)
    except FileNotFoundError:
        raise InputError(f"{file} is not there: the download is not complete") from None
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 from byte {error.start} on: it is damaged, download it anew") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InputError(f"{file} cannot be read as a table: {str(error).strip()}") from None
    if missing := [name for name in columns if name not in table]:
        raise InputError(f"{file} has no column {' and no '.join(missing)}: is it the table of the release?")
    if table.empty:
        raise InputError(f"{file} has no rows")
    return pd.DataFrame({name: _of_type(table[name], kind, file) for name, kind in columns.items()})


def _of_type(column: pd.Series[Any], kind: type, file: Path) -> Any:
    if kind is object:
        return column
    if kind is str:
        require(file, column, column.str.strip() != "", "a text")
        return column
    numbers = pd.to_numeric(column, errors="coerce")
    fine = np.isfinite(numbers)
    if kind is int:
        fine &= numbers.mod(1) == 0
    require(file, column, fine, "a whole number" if kind is int else "a number")
    return numbers.astype(kind)


def require(file: Path, column: pd.Series[Any], fine: Any, what: str) -> None:
    """Refuse the rows of a column that are not what they should be; the first of the table is on line 2."""
    bad = column[~np.asarray(fine, bool)]
    if len(bad):
        rows = [f"{quoted(str(value))} on line {i + 2}" for i, value in zip(bad.index, bad, strict=True)]
        raise InputError(
            listed(f"of {len(column):,} values in the column {column.name} of {file} are not {what}", rows)
        )


def _camelyon17(place: Path, table: str) -> pd.DataFrame:
    """Hospitals; the published validation set is hospital 1, the test set hospital 2."""
    columns = dict.fromkeys(("node", "x_coord", "y_coord", "tumor", "slide", "center", "split"), int)
    rows = read_table(place / table, {"patient": str, **columns})
    sources = ~rows["center"].isin([1, 2])
    require(place / table, rows["split"], ~sources | rows["split"].isin([0, 1]), "a split (0 train, 1 id_val)")
    require(place / table, rows["tumor"], rows["tumor"].isin([0, 1]), "0 or 1")
    text = rows.astype(str)
    node = "patient_" + text["patient"] + "_node_" + text["node"]
    return pd.DataFrame(
        {
            "path": "patches/" + node + "/patch_" + node + "_x_" + text["x_coord"] + "_y_" + text["y_coord"] + ".png",
            "domain": "hospital" + text["center"],
            "class": rows["tumor"].map({0: "normal", 1: "tumor"}),
            "split": rows["center"].map({1: "val", 2: "test"}).fillna(rows["split"].map({0: "train", 1: "id_val"})),
            "subgroups": [(f"slide:{slide}",) for slide in rows["slide"]],
        }
    )


def _iwildcam(place: Path, table: str) -> pd.DataFrame:
    """Camera traps, each a domain."""
    rows = read_table(place / table, {"split": str, "filename": str, "y": int, "location_remapped": int})
    require(place / table, rows["split"], rows["split"].isin([*SPLITS]), f"a split ({', '.join(SPLITS)})")
    require(place / table, rows["y"], rows["y"] >= 0, "a class from 0 up")
    location = rows["location_remapped"].astype(str)
    return pd.DataFrame(
        {
            "path": "train/" + rows["filename"],
            "domain": "location" + location,
            "class": rows["y"].astype(str),
            "split": rows["split"],
            "subgroups": [(f"location:{name}",) for name in location],
        }
    )


def _numbers(names: pd.Series[Any]) -> list[str]:
    return [str(i) for i in range(names.astype(int).max() + 1)]


def _fmow(place: Path, table: str) -> pd.DataFrame:
    """Satellite images by region and year; validated on 2013 to 2015, tested on later years."""
    rows = read_table(place / table, {"category": str, "timestamp": str, "country_code": str, "split": str})
    require(place / table, rows["split"], rows["split"].isin(["train", "val", "test", "seq"]), "a split")
    when = pd.to_datetime(rows["timestamp"], utc=True, errors="coerce", format="ISO8601")
    require(place / table, rows["timestamp"], when.notna(), "a time")
    known = read_table(place / "country_code_mapping.csv", {"alpha-3": str, "region": str})
    region = rows["country_code"].map(dict(zip(known["alpha-3"], known["region"], strict=True))).fillna("Other")
    year, part = when.dt.year.astype(int), rows["split"]
    split = pd.Series("", rows.index)
    split[year < 2013] = part[year < 2013].map({"train": "train", "val": "id_val", "test": "id_test"})
    split[(year >= 2013) & (year < 2016) & (part == "val")] = "val"
    split[(year >= 2016) & (part == "test")] = "test"
    found = pd.DataFrame(
        {
            "path": [f"images/rgb_img_{i}.png" for i in range(len(rows))],  # numbered before any row is left out
            "domain": region + " " + year.astype(str),
            "class": rows["category"],
            "split": split,
            "subgroups": [(f"region:{r}", f"year:{y}") for r, y in zip(region, year, strict=True)],
        }
    )
    return found[split.isin([*SPLITS])]


RELEASES = {
    release.name: release
    for release in (
        Release("camelyon17", "1.0", "metadata.csv", _camelyon17),
        Release("iwildcam", "2.0", "metadata.csv", _iwildcam, classes=_numbers),
        Release("fmow", "1.1", "rgb_metadata.csv", _fmow),
    )
}
