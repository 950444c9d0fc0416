"""The image sets of WILDS are read from their official folders, with their official domains and splits."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest
from made_wilds import camelyon17, fmow, iwildcam, patch, write_csv
from typer.testing import CliRunner

import domainwise as dw
from domainwise.cli import app
from domainwise.data.domains import HOLDOUT, ID_TEST, MAIN, TEST, VAL, Domains
from domainwise.data.sources.listing import Listing
from domainwise.data.sources.open import find_source, open_data


def listing(name: str, root: Path) -> Listing:
    found = find_source(f"{name}={root}")
    assert isinstance(found, Listing)
    return found


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def test_camelyon17_has_three_hospitals_to_train_on_and_one_each_to_validate_and_test_on(tmp_path: Path) -> None:
    root = camelyon17(tmp_path, side=12)
    found = listing("camelyon17", root)
    assert [name for name, _ in found.domains] == ["hospital0", "hospital3", "hospital4", "hospital1", "hospital2"]
    by_path = {file.relative: file for file in found.files}
    rows = rows_of(root / "camelyon17_v1.0" / "metadata.csv")
    assert len(rows) == len(by_path)
    for row in rows:
        file = by_path[patch(row)]
        part = {"1": VAL, "2": TEST}.get(row["center"], HOLDOUT if row["split"] == "1" else MAIN)
        assert (file.domain, file.class_name) == (f"hospital{row['center']}", ("normal", "tumor")[int(row["tumor"])])
        assert (file.fixed, file.subgroups) == (part, (f"slide:{row['slide']}",))
    assert listing("camelyon17", root / "camelyon17_v1.0").files == found.files


def test_inspect_says_which_benchmark_it_is_and_nothing_of_counts_that_are_not_known(tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["inspect", f"camelyon17={camelyon17(tmp_path, side=8)}", "--no-picture"])
    assert "benchmark: CAMELYON17\n" in told.output


def test_what_a_release_says_comes_through_decoding_and_the_cache(tmp_path: Path) -> None:
    text = f"camelyon17={camelyon17(tmp_path / 'data', side=12)}"
    read, kept = open_data(text, size=12), open_data(text, size=12, cache=tmp_path / "cache")
    again = open_data(text, size=12, cache=tmp_path / "cache")
    again.save(tmp_path / "saved")
    for data in (read, kept, again, Domains.open(tmp_path / "saved")):
        assert data.fingerprint == read.fingerprint
        assert data.has_official_split
        told = data["hospital2"].subgroups
        assert told is not None
        assert Counter(data.subgroups[i] for i in told[:, 0]) == {"slide:20": 8, "slide:21": 8, "slide:22": 8}


def test_iwildcam_has_a_domain_for_each_location_whatever_its_classes(tmp_path: Path) -> None:
    found = listing("iwildcam", iwildcam(tmp_path))
    assert [name for name, _ in found.domains] == [f"location{i}" for i in (0, 1, 10, *range(2, 10))]
    assert found.classes == ("0", "1", "2", "3")
    assert found.notes() == []
    parts = {
        domain: Counter(file.fixed for file in found.files if file.domain == domain) for domain, _ in found.domains
    }
    assert parts["location10"] == {MAIN: 4, HOLDOUT: 1, ID_TEST: 1}
    assert (parts["location2"], parts["location4"]) == ({VAL: 6}, {TEST: 6})


def test_fmow_is_split_by_year_and_numbered_before_rows_are_left_out(tmp_path: Path) -> None:
    root = fmow(tmp_path)
    found = listing("fmow", root)
    regions = ("Asia", "Europe", "Other")
    names = [
        f"{region} {year}" for years in ((2002, 2012), (2014,), (2016, 2017)) for region in regions for year in years
    ]
    assert [name for name, _ in found.domains] == names
    rows = rows_of(root / "fmow_v1.1" / "rgb_metadata.csv")
    for file in found.files:
        row = rows[int(file.relative.removeprefix("images/rgb_img_").removesuffix(".png"))]
        year = int(row["timestamp"][:4])
        early = {"train": MAIN, "val": HOLDOUT, "test": ID_TEST}
        late = {"val": VAL} if year < 2016 else {"test": TEST}
        region = {"FRA": "Europe", "CHN": "Asia", "XYZ": "Other"}[row["country_code"]]
        assert (file.class_name, file.domain) == (row["category"], f"{region} {year}")
        assert (file.fixed, file.subgroups) == (
            (early if year < 2013 else late)[row["split"]],
            (f"region:{region}", f"year:{year}"),
        )
    assert len(found.files) == 2 * 3 * (2 * 3 + 1 + 2)


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("split", "7", r'1 of 80 values .* not a split \(0 train, 1 id_val\): "7" on line 2'),
        ("tumor", "2", 'not 0 or 1: "2" on line 2'),
        ("slide", "", 'not a whole number: "" on line 2'),
        ("patient", " ", 'not a text: " " on line 2'),
    ],
)
def test_a_value_that_a_release_cannot_have_is_counted_and_named(
    tmp_path: Path, column: str, value: str, says: str
) -> None:
    root = camelyon17(tmp_path, side=2)
    file = root / "camelyon17_v1.0" / "metadata.csv"
    rows = rows_of(file)
    rows[0][column] = value
    write_csv(file, rows)
    with pytest.raises(dw.InputError, match=says):
        listing("camelyon17", root)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "cannot be read as a table"),
        (b"a,b\n1,2\n", "has no column patient and no node"),
        (b"patient,node\n\xff\xfe,2\n", "is not UTF-8 from byte"),
        (b'patient,node\n"unclosed,2\n', "cannot be read as a table"),
    ],
)
def test_a_damaged_table_is_told_in_a_sentence(tmp_path: Path, content: bytes, says: str) -> None:
    (camelyon17(tmp_path, side=2) / "camelyon17_v1.0" / "metadata.csv").write_bytes(content)
    with pytest.raises(dw.InputError, match=says):
        listing("camelyon17", tmp_path)


def test_a_download_in_part_says_how_many_files_are_missing_and_which(tmp_path: Path) -> None:
    root = camelyon17(tmp_path, side=2)
    rows = rows_of(root / "camelyon17_v1.0" / "metadata.csv")
    for row in rows[:5]:
        (root / "camelyon17_v1.0" / patch(row)).unlink()
    with pytest.raises(
        dw.InputError, match=r'5 of 80 files that metadata\.csv names are not in .*: "patches/.*, \.\.\.: '
    ):
        listing("camelyon17", root)


def test_a_folder_that_is_not_the_release_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(dw.InputError, match=r"there is no metadata\.csv, and no folder camelyon17_v1\.0 with one"):
        listing("camelyon17", tmp_path)
    root = iwildcam(tmp_path)
    (root / "iwildcam_v2.0").rename(root / "iwildcam_v1.0")
    with pytest.raises(dw.InputError, match=r'but "iwildcam_v1\.0", of another version'):
        listing("iwildcam", root)
    (root / "iwildcam_v1.0" / "RELEASE_v1.0.txt").touch()
    with pytest.raises(dw.InputError, match=r"says that it is iwildcam v1.0: v2.0 is read"):
        listing("iwildcam", root / "iwildcam_v1.0")
    (fmow(tmp_path) / "fmow_v1.1" / "country_code_mapping.csv").unlink()
    with pytest.raises(dw.InputError, match=r"country_code_mapping\.csv is not there"):
        listing("fmow", tmp_path)
