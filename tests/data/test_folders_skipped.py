from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from made_folders import draw, made, refusal
from made_images import benchmark_folder
from PIL import Image, features

from domainwise.data.decoded import image
from domainwise.data.sources.folders import folders, images_in
from domainwise.data.sources.open import find_source
from domainwise.errors import InputError


def warned(root: Path, **options: bool) -> list[str]:
    with pytest.warns(UserWarning, match="data: |signs: ") as caught:
        folders(root, **options)
    return [str(warning.message).removeprefix("data: ") for warning in caught]


@pytest.mark.parametrize("name", ["x.gif", "x.GIF", "x.jfif", "x.avif", "x.ppm"])
def test_endings_that_people_have_are_read(tmp_path: Path, name: str) -> None:
    if name == "x.avif" and not features.check("avif"):
        pytest.skip("this Pillow has no AVIF")
    root = made(tmp_path)
    kind = {"jfif": "JPEG", "ppm": "PPM"}.get(name[2:], name[2:].upper())
    Image.new("RGB", (8, 8), (255, 0, 0)).save(root / "b" / "cat" / name, kind)
    added = folders(root)["b"].images[1]  # behind 0.png
    assert np.abs(added[4, 4].astype(int) - (255, 0, 0)).max() <= 3


def test_a_benchmark_is_read_as_the_published_protocol_reads_it(tmp_path: Path) -> None:
    root = benchmark_folder(tmp_path / "pacs", ("art_painting", "cartoon", "photo", "sketch"), classes=7)
    before = find_source(f"pacs={root}")
    Image.new("RGB", (8, 8)).save(root / "photo" / "class 000" / "x.gif")
    (root / "photo" / "class 000" / "x.cr2").touch()
    after = find_source(f"pacs={root}")
    assert not isinstance(before, type(after)) or before.files == after.files  # type: ignore[union-attr]
    after.require_usable()  # type: ignore[union-attr]
    assert len(find_source(str(root)).files) == len(before.files) + 1  # type: ignore[union-attr]


def test_photographs_of_phones_are_read_with_the_package_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = made(tmp_path)
    draw(root / "a" / "cat" / "x.png").rename(root / "a" / "cat" / "x.heic")
    monkeypatch.setattr(image, "find_spec", lambda name: None)
    for cached in (image.formats, image.endings):
        cached.cache_clear()
    try:
        assert warned(root) == [
            '1 kind(s) of file are not read: 1 .heic in "a/cat" '
            "(iPhone photographs, which pip install pillow-heif lets this program read)"
        ]
        plugin = ModuleType("pillow_heif")
        plugin.register_heif_opener = lambda: None  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "pillow_heif", plugin)
        monkeypatch.setattr(image, "find_spec", lambda name: object())
        monkeypatch.setattr(image, "FORMATS", image.FORMATS)
        image.formats.cache_clear()
        image.endings.cache_clear()
        assert image.formats()[-1] == "HEIF"
        assert ".heic" in image.endings()
    finally:
        image.formats.cache_clear()
        image.endings.cache_clear()


def test_what_is_not_read_is_counted_by_folder_with_the_reason_before_anything_is_decoded(tmp_path: Path) -> None:
    root = made(tmp_path)
    for name in ("1.CR2", "2.cr2", "deeper/3.cr2", "clip.mp4", "notes.txt", "Thumbs.db"):
        (root / "a" / "cat" / name).parent.mkdir(exist_ok=True)
        (root / "a" / "cat" / name).touch()
    assert warned(root) == [
        '2 kind(s) of file are not read: 3 .cr2 in "a/cat" (raw photographs: save them as JPEG or PNG), '
        '1 .mp4 in "a/cat" (videos: save them as JPEG or PNG)'
    ]
    found = find_source(str(root))
    assert {(each.ending, each.count) for each in found.skipped if not each.why} == {(".txt", 1), (".db", 1)}  # type: ignore[union-attr]
    (root / "a" / "cat" / "0.png").write_bytes(b"")
    with pytest.warns(UserWarning, match="are not read"), pytest.raises(InputError, match="it is empty"):
        folders(root)


def test_a_class_or_a_domain_of_which_nothing_is_read_is_an_error(tmp_path: Path) -> None:
    root = made(tmp_path, ("a", "b", "c"))
    (root / "b" / "dog" / "0.png").rename(root / "b" / "dog" / "0.nef")
    assert refusal(root).startswith('of "b/dog" no file is read, so it would vanish from the data: there are 1 .nef')
    (root / "b" / "cat" / "0.png").rename(root / "b" / "cat" / "0.nef")
    assert 'of "b/cat" no file is read, so it would vanish from the data' in refusal(root)
    shutil.rmtree(root / "b")
    assert folders(root).names == ("a", "c")


def test_folders_without_images_and_links_that_lead_nowhere_are_named(tmp_path: Path) -> None:
    root = made(tmp_path)
    (root / "a" / "owl").mkdir()
    (root / "b" / "fox").symlink_to("nowhere")
    assert warned(root) == ['1 class folder(s) have no images: "a/owl"', '1 link(s) lead nowhere: "b/fox"']


@pytest.mark.parametrize("parts", [("train", "val"), ("Train", "test"), ("training", "validation", "test")])
def test_the_folders_of_a_split_are_neither_classes_nor_domains(tmp_path: Path, parts: tuple[str, ...]) -> None:
    for part in parts:
        for site in ("a", "b"):
            draw(tmp_path / "inside" / site / part / "cat" / "0.png")
            draw(tmp_path / "outside" / part / site / "cat" / "0.png")
    for name, what in (("inside", "classes"), ("outside", "domains")):
        with pytest.raises(InputError, match=f"stand where the {what} belong, and read as the parts of a split"):
            find_source(str(tmp_path / name))
        assert "give a manifest, a CSV file with the columns path, domain, label and split" in refusal(tmp_path / name)


def test_a_class_called_train_is_a_class_among_others(tmp_path: Path) -> None:
    assert folders(made(tmp_path, kinds=("train", "bus"))).classes == ("bus", "train")


@pytest.mark.parametrize("odd", ["mugs", "Mug", "mug ", "MUGS"])
def test_a_class_that_one_domain_spells_otherwise_is_an_error_that_names_that_domain(tmp_path: Path, odd: str) -> None:
    root = made(tmp_path, ("a", "b", "c"), ("mug", "cup"))
    (root / "b" / "mug").rename(root / "b" / odd)
    assert refusal(root) == (
        f'domain "b" has class "{odd}" and no "mug", which 2 other domains have: did you mean "mug"? '
        "Give the class one name in all domains"
    )


def test_classes_that_every_domain_tells_apart_and_signs_of_numbers_are_let_be(tmp_path: Path) -> None:
    assert folders(made(tmp_path, kinds=("mug", "mugs"))).classes == ("mug", "mugs")
    root = made(tmp_path, ("a", "b", "c"), ("1", "2"), "signs")
    (root / "b" / "1").rename(root / "b" / "-1")
    assert any('only domain "b" has class "-1"' in note for note in warned(root))


def test_classes_that_one_domain_tells_apart_are_two_where_another_lacks_one(tmp_path: Path) -> None:
    root = made(tmp_path, ("a", "b", "c"), ("mug", "mugs", "cup"))
    shutil.rmtree(root / "b" / "mug")
    assert warned(root) == ['domain "b" has no images of 1 class(es) that others have: "mug"']


def test_a_class_that_a_domain_lacks_is_named_before_training_and_so_is_one_that_only_one_has(tmp_path: Path) -> None:
    root = made(tmp_path, ("a", "b", "c"), ("horse", "dog"))
    shutil.rmtree(root / "a" / "dog")
    (root / "b" / "horse").rename(root / "b" / "hosre")
    assert warned(root) == [
        'domain "a" has no images of 1 class(es) that others have: "dog"',
        'domain "b" has no images of 1 class(es) that others have: "horse"',
        'only domain "b" has class "hosre" (1 images): with that domain as the target no source shows it, and they '
        'count as wrong; did you mean "horse"?',
    ]
    assert 'domain "a" has no class "dog"' in refusal(root, strict=True)


def test_a_search_for_images_says_what_it_passes_over(tmp_path: Path) -> None:
    root = made(tmp_path)
    (root / "a" / "x.dng").touch()
    with pytest.warns(UserWarning, match=r"not read: 1 \.dng in .* \(raw photographs"):
        assert len(images_in([root])) == 4
    (tmp_path / "raw").mkdir()
    (root / "a" / "x.dng").rename(tmp_path / "raw" / "x.dng")
    with pytest.raises(InputError, match=r"there are no images in .*; there are 1 \.dng in"):
        images_in([tmp_path / "raw"])
