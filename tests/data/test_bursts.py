"""Images of one burst are found by their looks and numbers, and a manifest keeps them in one part of the split."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from domainwise import InputError
from domainwise.data.bursts import write_manifest
from domainwise.data.inspect import survey
from domainwise.data.sources.open import find_source, open_data
from domainwise.data.splits import split_domain


def frames(folder: Path, names: list[str], seed: int) -> None:
    """Images of one scene, each a little farther to the right and noisier, in a folder."""
    random = np.random.default_rng(seed)
    coarse = Image.fromarray(random.integers(0, 255, (6, 8, 3), np.uint8)).resize((80, 60), Image.Resampling.BICUBIC)
    scene = np.asarray(coarse, np.int64)
    folder.mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(names):
        noise = random.integers(-6, 7, (60, 64, 3))
        Image.fromarray((scene[:, i : 64 + i] + noise).clip(0, 255).astype(np.uint8)).save(folder / name)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    root = tmp_path / "photos"
    for seed, domain in enumerate("ab"):
        frames(root / domain / "cat", [f"cam_{i}.png" for i in (8, 9, 10)], 10 + seed)
        frames(root / domain / "cat", ["cam_11.png"], 20 + seed)  # another scene, the next number
        frames(root / domain / "cat", [f"IMG_20230101_12000{i}.png" for i in (1, 2)], 30 + seed)
        for i in range(6):
            frames(root / domain / "dog", [f"{i}.png"], 40 + 10 * seed + i)
    return root


def test_a_burst_is_found_and_neighbours_that_show_something_else_are_none(photos: Path) -> None:
    found = [[look.name for look in run] for run in survey(find_source(str(photos))).bursts]
    assert found == [
        [f"{domain}/cat/{name}.png" for name in names]
        for domain in "ab"
        for names in (["IMG_20230101_120001", "IMG_20230101_120002"], ["cam_8", "cam_9", "cam_10"])
    ]


def test_a_manifest_keeps_every_burst_in_one_part_of_the_split(photos: Path, tmp_path: Path) -> None:
    listing = find_source(str(photos))
    data = open_data(str(write_manifest(survey(listing), tmp_path / "photos.csv")), size=8)
    assert [len(domain) for domain in data] == [12, 12]
    with (tmp_path / "photos.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["path"] for row in rows} == {f"photos/{each.relative}" for each in listing.files}
    for seed in range(10):
        for i, domain in enumerate(data):
            main, held = split_domain(domain, i, 0.2, seed)
            assert not {*domain.groups[main].tolist()} & {*domain.groups[held].tolist()}
            assert len({*domain.groups.tolist()}) == 12 - 2 - 1


def test_the_command_names_bursts_and_writes_the_manifest_once(photos: Path, domainwise) -> None:
    code, out, err = domainwise("inspect", photos, "--no-picture", "--manifest", "photos.csv")
    assert code == 0
    assert "4 bursts of images that look alike" in out
    assert "a/cat/cam_8.png to a/cat/cam_10.png, 3 images" in out
    assert "manifest: photos.csv" in err
    code, _, said = domainwise("inspect", photos, "--no-picture", "--manifest", "photos.csv")
    assert code == 2
    assert "holds something" in said
    assert "end in .csv" in domainwise("inspect", photos, "--no-picture", "--manifest", "photos.txt")[2]
    assert "digits has none" in domainwise("inspect", "digits", "--no-picture", "--manifest", "new.csv")[2]


def test_a_manifest_keeps_what_another_one_said(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text(
        "path,domain,label,split,group\n"
        + "".join(
            f"photos/{d}/{c}/{n},{d},{c},{s},{g}\n"
            for d in "ab"
            for c, n, s, g in (
                ("cat", "cam_8.png", "train", "x"),
                ("cat", "cam_11.png", "", ""),
                ("dog", "1.png", "holdout", ""),
            )
        )
    )
    listing = find_source(str(tmp_path / "old.csv"))
    again = find_source(str(write_manifest(survey(listing), tmp_path / "new.csv")))
    assert again.files == listing.files
    with pytest.raises(InputError, match="holds something"):
        write_manifest(survey(listing), tmp_path / "new.csv")
