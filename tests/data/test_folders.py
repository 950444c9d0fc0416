from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from made_folders import draw, made

from domainwise.data.decoded.decode_all import BATCH
from domainwise.data.sources.folders import folders


def test_folders_become_domains_and_classes_in_the_order_of_their_names(tmp_path: Path) -> None:
    data = folders(made(tmp_path, ("sketch", "art"), ("dog", "cat")))
    assert data.name == "data"
    assert data.names == ("art", "sketch")
    assert data.classes == ("cat", "dog")
    assert data.shape == (64, 64, 3)
    assert [domain.labels.tolist() for domain in data] == [[0, 1], [0, 1]]
    assert data["sketch"].images[1, 0, 0].tolist() == [0, 0, 200]  # sketch/dog was drawn first


def test_images_are_ordered_by_class_then_folder_then_file_as_image_folder_does(tmp_path: Path) -> None:
    root = made(tmp_path)
    order = ["cat/0.png", "dog/0.png", "cat/b.png", "cat/a/z.png", "cat/a-b/a.png", "cat/a/b/a.png", "dog/Z.png"]
    for level, path in enumerate(order):
        draw(root / "a" / path, (level, 0, 0))
    walked = [
        Path(parent, file).relative_to(root / "a").as_posix()
        for kind in ("cat", "dog")
        for parent, _, files in sorted(os.walk(root / "a" / kind))
        for file in sorted(files)
    ]
    assert folders(root)["a"].images[:, 0, 0, 0].tolist() == [order.index(path) for path in walked]


@pytest.mark.parametrize("name", ["x.JPG", "x.jpeg", "x.Png", "x.webp", "x.BMP", "x.tif", "x.TIFF"])
def test_an_extension_counts_in_any_case(tmp_path: Path, name: str) -> None:
    root = made(tmp_path)
    draw(root / "a" / "cat" / name)
    assert len(folders(root)["a"]) == 3


def test_hidden_files_and_those_an_operating_system_leaves_behind_are_passed_over(tmp_path: Path) -> None:
    root = made(tmp_path)
    before = folders(root).fingerprint
    for litter in ["a/cat/.DS_Store", "a/cat/._0.png", "a/Thumbs.db", "a/cat/desktop.ini", ".x.png", "a/cat/notes.txt"]:
        (root / litter).write_bytes(b"litter")
    for folder in [".git/a", "a/.thumbnails", "a/cat/.cache", "__MACOSX/a/cat"]:
        draw(root / folder / "0.png")
    data = folders(root)
    assert data.names == ("a", "b")
    assert data.classes == ("cat", "dog")
    assert data.fingerprint == before


def test_names_may_be_anything(tmp_path: Path) -> None:
    domains, kinds = ("<script>", "été 2024"), ('"quoted"', "日本", "[red]")
    data = folders(made(tmp_path, domains, kinds))
    assert data.names == tuple(sorted(domains))
    assert data.classes == tuple(sorted(kinds))


def test_names_may_be_as_long_as_a_file_system_allows(tmp_path: Path) -> None:
    root = made(tmp_path, ("d" * 255, "b"), ("k" * 255, "x"))
    draw(root / "b" / "x" / f"{'é' * 125}.png")
    data = folders(root)
    assert data.names == ("b", "d" * 255)
    assert len(data["b"]) == 3


def test_a_domain_of_very_few_images_is_accepted(tmp_path: Path) -> None:
    assert [len(domain) for domain in folders(made(tmp_path, kinds=("x", "y", "z")))] == [3, 3]


def test_the_name_is_that_of_the_folder_even_when_it_is_given_as_a_dot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(made(tmp_path, name="PACS"))
    assert folders(".").name == "PACS"
    assert folders("a/..").name == "PACS"


def test_the_fingerprint_does_not_depend_on_the_place_or_the_size(tmp_path: Path) -> None:
    root = made(tmp_path)
    elsewhere = shutil.copytree(root, tmp_path / "somewhere" / "else")
    assert folders(elsewhere).fingerprint == folders(root).fingerprint == folders(root, size=5).fingerprint


def flip_a_byte(root: Path) -> None:
    file = root / "a" / "cat" / "0.png"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1  # of the last checksum, on which no pixel depends
    file.write_bytes(content)


@pytest.mark.parametrize(
    "change",
    [
        flip_a_byte,
        lambda root: (root / "a" / "cat" / "0.png").rename(root / "a" / "cat" / "1.png"),
        lambda root: (root / "a").rename(root / "c"),
        lambda root: [(root / domain / "cat").rename(root / domain / "cow") for domain in "ab"],
        lambda root: draw(root / "b" / "dog" / "1.png"),
    ],
    ids=["a byte", "a file's name", "a domain's name", "a class's name", "another file"],
)
def test_the_fingerprint_changes_with(tmp_path: Path, change: Callable[[Path], object]) -> None:
    root = made(tmp_path)
    before = folders(root).fingerprint
    change(root)
    assert folders(root).fingerprint != before


def test_progress_is_told_until_all_images_are_done(tmp_path: Path) -> None:
    root = made(tmp_path)
    for i in range(BATCH):
        draw(root / "a" / "cat" / f"more-{i}.bmp", (0, 0, i), size=(1, 1))
    told: list[tuple[int, int]] = []
    folders(root, size=1, progress=lambda done, total: told.append((done, total)))
    assert told == [(BATCH, BATCH + 4), (BATCH + 4, BATCH + 4)]


def test_a_class_is_the_same_with_composed_and_decomposed_letters(tmp_path: Path) -> None:
    root = made(tmp_path, kinds=("\u00e9", "x"))
    (root / "b" / "\u00e9").rename(root / "b" / "e\u0301")
    assert folders(root).classes == ("x", "\u00e9")


def test_images_outside_class_folders_and_empty_folders_are_left_out_with_a_warning(tmp_path: Path) -> None:
    root = made(tmp_path)
    before = folders(root).fingerprint
    draw(root / "preview.png")
    draw(root / "b" / "cover.jpg")
    (root / "splits").mkdir()
    with pytest.warns(UserWarning, match="data: ") as caught:
        data = folders(root)
    assert [str(warning.message) for warning in caught] == [
        'data: 1 folder(s) without images are not domains: "splits"',
        'data: 2 image(s) outside the class folders are left out: "preview.png", "b/cover.jpg"',
    ]
    assert data.fingerprint == before


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("loop", "."),
        ("loop", ".."),
        ("a/loop", ".."),
        ("a/loop", "../.."),
        ("a/cat/loop", "."),
        ("a/cat/loop", "../.."),
    ],
)
def test_links_in_circles_neither_hang_nor_add_images(tmp_path: Path, link: str, target: str) -> None:
    root = made(tmp_path)
    before = folders(root).fingerprint
    (root / link).symlink_to(target, target_is_directory=True)
    assert folders(root).fingerprint == before


def test_folders_that_link_to_each_other_are_entered_once(tmp_path: Path) -> None:
    root = made(tmp_path)
    for i, (here, there) in enumerate([("x", "y"), ("y", "x")]):
        draw(root / "a" / "cat" / here / "0.png", (i, 0, 0))
        (root / "a" / "cat" / here / "other").symlink_to(root / "a" / "cat" / there)
    (root / "a" / "cat" / "itself").symlink_to("itself")
    with pytest.warns(UserWarning, match='1 link.s. lead nowhere: "a/cat/itself"'):
        assert len(folders(root)["a"]) == 4


def test_links_to_folders_elsewhere_are_followed(tmp_path: Path) -> None:
    root = made(tmp_path)
    (root / "b").rename(tmp_path / "elsewhere")
    (root / "b").symlink_to(tmp_path / "elsewhere")
    assert folders(root).names == ("a", "b")
