from __future__ import annotations

import codecs
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_folders import draw, made

from domainwise.data.domains import FREE, HOLDOUT, MAIN, TEST, VAL, Domains
from domainwise.data.sources.folders import folders
from domainwise.data.sources.open import open_data
from domainwise.data.splits import split
from domainwise.errors import InputError

HEADER = "path,domain,label"
ROWS = ["a/cat/0.png,a,cat", "a/dog/0.png,a,dog", "b/cat/0.png,b,cat", "b/dog/0.png,b,dog"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return made(tmp_path)


def write(root: Path, *lines: str, name: str = "table.csv") -> Path:
    (root / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return root / name


def opened(manifest: Path, **options: Any) -> Domains:
    return open_data(str(manifest), size=8, **options)


def refused(manifest: Path) -> str:
    with pytest.raises(InputError) as caught:
        opened(manifest)
    return str(caught.value)


def objects(*lines: str) -> list[dict[str, str]]:
    return [dict(zip(("path", "domain", "label"), line.split(","), strict=True)) for line in lines]


def same(data: Domains, other: Domains) -> bool:
    return (data.names, data.classes) == (other.names, other.classes) and all(
        np.array_equal(a.images, b.images) and np.array_equal(a.labels, b.labels)
        for a, b in zip(data, other, strict=True)
    )


WAYS = {
    "csv": ("t.csv", "\n".join([HEADER, *ROWS]).encode()),
    "windows": ("t.CSV", "\r\n".join([HEADER, *ROWS]).encode()),
    "byte order mark": ("t.csv", codecs.BOM_UTF8 + "\n".join([HEADER, *ROWS]).encode()),
    "excel's unicode": ("t.tsv", "\n".join([HEADER, *ROWS]).replace(",", "\t").encode("utf-16")),
    "semicolons": ("t.csv", "\n".join([HEADER, *ROWS]).replace(",", ";").encode()),
    "tabs": ("t.tsv", "\n".join([HEADER, *ROWS]).replace(",", "\t").encode()),
    "quotes and blanks": (
        "t.csv",
        b'"Path", DOMAIN , "label"\n' + "\n\n".join(ROWS).replace(",", " , ").encode(),
    ),
    "other columns": ("t.csv", "\n".join(f"{row},x" for row in [HEADER, *ROWS]).encode()),
    "another order": ("t.csv", "\n".join([HEADER, *ROWS[::-1]]).encode()),
    "json": ("t.json", json.dumps(objects(*ROWS)).encode()),
    "json with images": ("t.json", json.dumps({"images": objects(*ROWS)}).encode()),
}


@pytest.mark.parametrize(("name", "content"), WAYS.values(), ids=WAYS)
def test_a_manifest_reads_like_the_folder_it_describes(root: Path, name: str, content: bytes) -> None:
    (root / name).write_bytes(content)
    assert same(opened(root / name), folders(root, size=8))


def test_the_fingerprint_depends_on_content_and_not_on_place_or_order(root: Path, tmp_path: Path) -> None:
    manifest = write(root, HEADER, *ROWS)
    before = opened(manifest).fingerprint
    elsewhere = shutil.copytree(root, tmp_path / "elsewhere")
    assert opened(elsewhere / "table.csv").fingerprint == before
    assert opened(write(root, HEADER, *ROWS[::-1])).fingerprint == before


@pytest.mark.parametrize(
    "lines",
    [
        [HEADER, "a/cat/0.png,a,dog", "a/dog/0.png,a,cat", *ROWS[2:]],
        [HEADER, *(row.replace(",b,", ",c,") for row in ROWS)],
        [f"{HEADER},group", *(f"{row},{row[0]}" for row in ROWS)],
        [f"{HEADER},split", *(f"{row},train" for row in ROWS)],
    ],
    ids=["labels", "domains", "groups", "splits"],
)
def test_the_fingerprint_changes_with(root: Path, lines: list[str]) -> None:
    assert opened(write(root, *lines)).fingerprint != opened(write(root, HEADER, *ROWS)).fingerprint


def test_labels_that_are_numbers_are_in_the_order_of_numbers(root: Path) -> None:
    numbered = [row.replace(",cat", ",10").replace(",dog", ",9") for row in ROWS]
    assert opened(write(root, HEADER, *numbered)).classes == ("9", "10")


def test_json_may_give_the_classes_and_labels_as_positions(root: Path) -> None:
    rows = [{**each, "label": ["dog", "cat"].index(each["label"])} for each in objects(*ROWS)]
    manifest = root / "t.json"
    manifest.write_text(json.dumps({"classes": ["dog", "cat"], "images": rows}))
    data = opened(manifest)
    assert data.classes == ("dog", "cat")
    assert np.array_equal(data["a"].images[0], folders(root, size=8)["a"].images[1])
    rows[2]["label"] = 2
    manifest.write_text(json.dumps({"classes": ["dog", "cat"], "images": rows}))
    assert refused(manifest) == f"{manifest}, image 3: label 2 is outside 0..1"
    rows[2]["label"] = "dgo"
    manifest.write_text(json.dumps({"classes": ["dog", "cat"], "images": rows}))
    assert refused(manifest).endswith('image 3: "dgo" is none of the classes: did you mean dog?')


def test_names_may_be_anything_and_composed_or_decomposed_letters_are_the_same(root: Path) -> None:
    draw(root / "日本 (1), x.png")
    manifest = write(
        root,
        HEADER,
        '"日本 (1), x.png",<é>,\u00e9',
        'a/cat/0.png,<e\u0301>,"[x], ""y"""',
        'b/cat/0.png,b c,"[x], ""y"""',
        "b/dog/0.png,b c,e\u0301",
    )
    data = opened(manifest)
    assert data.names == ("<\u00e9>", "b c")
    assert data.classes == ('[x], "y"', "\u00e9")
    assert [domain.labels.tolist() for domain in data] == [[0, 1], [0, 1]]


def test_absolute_paths_may_lead_anywhere(root: Path, tmp_path: Path) -> None:
    away = draw(tmp_path / "away" / "x.png")
    assert len(opened(write(root, HEADER, *ROWS, f"{away},a,cat"))["a"]) == 3
    inside = [HEADER, f"{root}/a/cat/0.png,a,cat", *ROWS[1:]]
    assert opened(write(root, *inside)).fingerprint == opened(write(root, HEADER, *ROWS)).fingerprint


BAD = {
    "nothing": ([""], "table.csv names no images"),
    "no rows": ([HEADER], "table.csv names no images"),
    "a column missing": (["path,domain,kind", ROWS[0]], "has no column label: the first line must name"),
    "no header": (ROWS, "has no column path and no domain and no label"),
    "a column twice": (["path,domain,label,label", *(f"{row},x" for row in ROWS)], "has the column label twice"),
    "too few cells": ([HEADER, *ROWS, "a/cat/0.png,a"], "line 6: 2 cells, but the header has 3"),
    "too many cells": ([HEADER, "", *ROWS, "a/cat/0.png,a,cat,x"], "line 7: 4 cells, but the header has 3"),
    "an empty cell": ([HEADER, *ROWS, "a/cat/0.png, ,cat"], "line 6: there is no domain"),
    "an open quote": ([HEADER, *ROWS, '"a/cat/0.png,a,cat'], "line 6: unexpected end of data"),
    "a NUL": ([HEADER, *ROWS, "a\0,a,cat"], "line 6: there is a NUL byte"),
    "a control character": ([HEADER, *ROWS, "a,a\x1b[31m,cat"], r"line 6: 'a\x1b[31m' has a control character"),
    "out of the folder": ([HEADER, *ROWS, "a/../../x.png,a,cat"], "line 6: \"a/../../x.png\" leads out of"),
    "a lost file": ([HEADER, *ROWS, "x.png,a,cat"], 'line 6: "x.png" is not there (looked for'),
    "a very long name": ([HEADER, *ROWS, f"{'x' * 5000}.png,a,cat"], 'xx.png" is not there ('),
    "lost files": ([HEADER, *ROWS, "x.png,a,cat", "y.png,a,cat"], "; 2 rows point to no file"),
    "a folder": ([HEADER, *ROWS, "a/cat,a,cat"], 'line 6: "a/cat" is a folder'),
    "a row twice": ([HEADER, *ROWS, ROWS[1]], 'line 6: "a/dog/0.png" is on line 3 already'),
    "an image twice": ([HEADER, *ROWS, "a/./dog/0.png,b,cat"], 'line 6: "a/dog/0.png" is on line 3 already'),
    "one domain": ([HEADER, *ROWS[:2]], "table has only one domain (a)"),
    "a class spelled otherwise": ([HEADER, *ROWS[:3], f"{ROWS[3]}s"], 'did you mean "dog"?'),
    "a split of its own": ([f"{HEADER},split", *(f"{row},mine" for row in ROWS)], 'line 2: "mine" is not a split'),
    "no part beside test rows": (
        [f"{HEADER},split", *(f"{row}," for row in ROWS[:3]), f"{ROWS[3]},test"],
        'line 2: "" is not a part of an official split',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "sentence"), BAD.values(), ids=BAD)
def test_a_bad_manifest_is_refused_with_the_line(root: Path, lines: list[str], sentence: str) -> None:
    assert sentence in refused(write(root, *lines))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("[{]", "line 1: this is not JSON"),
        ('[\n{"path": "x"}]', "image 1: this is not an object with path, domain and label"),
        ("3", "must hold a list of objects"),
        ("[3]", "image 1: this is not an object"),
        ('{"images": {}}', "must hold a list of objects"),
        ("[]", "names no images"),
        ("[" * 100_000, "nested too deeply"),
        ('[{"path": "x", "domain": "a", "label": true}]', "image 1: label must be a text or a whole number, got true"),
        ('[{"path": "x", "domain": "a", "label": [1]}]', "image 1: label must be a text or a whole number, got [1]"),
        ('[{"path": "x", "domain": null, "label": 1}]', "image 1: there is no domain"),
        (r'[{"path": "x\u0000", "domain": "a", "label": 1}]', "image 1: 'x\\x00' has a control character"),
        (r'[{"path": "x\ud800", "domain": "a", "label": 1}]', "image 1: 'x\\ud800' has a control character"),
        ('{"images": [], "classes": [1]}', '"classes" in'),
        ('{"images": [], "classes": ["x", "x"]}', "has a name twice"),
    ],
)
def test_bad_json_is_refused_with_the_place(root: Path, content: str, sentence: str) -> None:
    assert sentence in refused(write(root, content, name="t.json"))


def test_another_encoding_is_refused_with_the_line(root: Path) -> None:
    (root / "t.csv").write_bytes("\n".join([HEADER, ROWS[0], "é.png,a,cat"]).encode("latin-1"))
    assert refused(root / "t.csv") == f"{root / 't.csv'}, line 3: this is not UTF-8: save the file with that encoding"


def test_a_file_that_is_no_manifest_is_refused(root: Path) -> None:
    assert "is a file, but not a manifest (.csv, .tsv, .json)" in refused(draw(root / "x.png"))


def test_corrupt_images_can_be_left_out(root: Path) -> None:
    (root / "bad.png").touch()
    manifest = write(root, HEADER, *ROWS, "bad.png,a,cat")
    assert '"bad.png" cannot be read as an image (it is empty)' in refused(manifest)
    with pytest.warns(UserWarning, match='left out: "bad.png"'):
        assert len(opened(manifest, skip_corrupt=True)["a"]) == 2


@pytest.mark.filterwarnings("ignore:table. 1 group.s. stand in several domains")
def test_groups_reach_the_domain_and_an_image_without_one_is_alone(root: Path, tmp_path: Path) -> None:
    lines = [f"{row},{group}" for row, group in zip(ROWS, ["p1", "p1", "p1", ""], strict=True)]
    extra = [draw(root / "more" / f"{i}.png", (0, 40 * i, 0)) and f"more/{i}.png,b,cat," for i in range(2)]
    manifest = write(root, f"{HEADER},group", *lines, *extra)
    for options in ({}, {"cache": tmp_path / "cache"}, {"cache": tmp_path / "cache"}):
        data = opened(manifest, **options)
        assert len(set(data["a"].groups)) == 1
        assert len(set(data["b"].groups)) == 4
        assert data["b"].groups[0] == data["a"].groups[0]
        assert data["a"].fixed is None


def test_a_split_column_fixes_the_part_and_a_group_follows_its_members(root: Path) -> None:
    for i in range(4):
        draw(root / "more" / f"{i}.png", (0, 40 * i, 0))
    more = ["more/0.png,a,cat,Val,g", "more/1.png,a,cat,,g", "more/2.png,a,cat,,h", "more/3.png,a,cat,train,"]
    data = opened(write(root, f"{HEADER},split,group", *(f"{row},," for row in ROWS), *more))
    assert data["a"].fixed.tolist() == [FREE, HOLDOUT, HOLDOUT, FREE, MAIN, FREE]
    assert data["b"].fixed.tolist() == [FREE, FREE]
    main, held = split(6, 0.5, 0, 0, data["a"].groups, data["a"].fixed)
    assert {1, 2} <= {*held}
    assert 4 in main


def test_rows_of_test_make_the_column_an_official_split_in_which_val_is_no_holdout(root: Path) -> None:
    parts = ["train", "id_val", "val", "test"]
    data = opened(write(root, f"{HEADER},split", *(f"{row},{part}" for row, part in zip(ROWS, parts, strict=True))))
    assert [domain.fixed.tolist() for domain in data] == [[MAIN, HOLDOUT], [VAL, TEST]]
    assert data.has_official_split


def test_a_group_in_both_parts_is_refused(root: Path) -> None:
    lines = [f"{ROWS[0]},train,g", f"{ROWS[1]},holdout,g", *(f"{row},," for row in ROWS[2:])]
    sentence = refused(write(root, f"{HEADER},split,group", *lines))
    assert 'line 3: group "g" is in split "holdout" here and in "train" on line 2' in sentence
