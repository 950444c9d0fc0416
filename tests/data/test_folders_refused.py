from __future__ import annotations

import os
import shutil
import sys
import unicodedata
import warnings
from contextlib import nullcontext
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_folders import draw, made, refusal
from PIL import Image

from domainwise.data.sources.folders import folders
from domainwise.errors import InputError


def noise(kind: str) -> bytes:
    stream = BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)).save(stream, kind)
    return stream.getvalue()


CORRUPT = {
    "zero bytes": (b"", "it is empty"),
    "a text": (b"this is not an image", "it is not an image of a known kind"),
    "a truncated png": (noise("PNG")[:5000], "truncated"),
    "a truncated jpeg": (noise("JPEG")[:2000], "truncated"),
}


@pytest.mark.parametrize(("content", "reason"), CORRUPT.values(), ids=CORRUPT)
def test_a_corrupt_file_is_an_error_that_names_it_and_can_be_left_out(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    root = made(tmp_path)
    clean = folders(root)
    (root / "a" / "cat" / "x.jpg").write_bytes(content)
    with pytest.raises(InputError, match=f'"a/cat/x.jpg" cannot be read as an image .*{reason}.*--skip-corrupt'):
        folders(root)
    with pytest.warns(UserWarning, match=f'data: 1 .* left out: "a/cat/x.jpg" .*{reason}'):
        data = folders(root, skip_corrupt=True)
    assert data.fingerprint == clean.fingerprint
    assert np.array_equal(data["a"].images, clean["a"].images)
    assert data["a"].labels.tolist() == [0, 1]


def test_the_first_corrupt_files_are_named_and_all_are_counted(tmp_path: Path) -> None:
    root = made(tmp_path)
    for i in range(1, 6):
        (root / "a" / "cat" / f"{i}.png").touch()
    with pytest.warns(UserWarning, match="data: 5 file") as caught:
        folders(root, skip_corrupt=True)
    assert len(caught) == 1
    assert "a/cat/1.png" in str(caught[0].message)
    assert "a/cat/5.png" not in str(caught[0].message)
    assert caught[0].filename == __file__


def test_leaving_out_a_class_or_everything_is_an_error(tmp_path: Path) -> None:
    root = made(tmp_path)
    (root / "b" / "dog" / "0.png").write_bytes(b"")
    message = 'none of the images that domain "b" has of class "dog" can be read, the first being "b/dog/0.png"'
    assert message in refusal(root, skip_corrupt=True)
    for file in root.rglob("*.png"):
        file.write_bytes(b"")
    assert "none of the 4 files can be read as an image" in refusal(root, skip_corrupt=True)


@pytest.mark.parametrize("limit", [60, 10], ids=["Pillow warns", "Pillow raises"])
def test_a_decompression_bomb_is_refused_by_name_and_can_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    root = made(tmp_path)
    draw(root / "a" / "cat" / "bomb.png", size=(10, 10))
    for i, small in enumerate(root.rglob("0.png")):
        draw(small, (40 * i, 0, 0), size=(2, 2))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the program around us does with warnings must not matter
        assert f'"a/cat/bomb.png" cannot be read as an image (it has more than {limit} pixels' in refusal(root)
    with pytest.warns(UserWarning, match=r"left out: .*bomb\.png"):
        assert len(folders(root, skip_corrupt=True)["a"]) == 2


def test_a_link_to_nothing_and_a_pipe_are_corrupt_files(tmp_path: Path) -> None:
    root = made(tmp_path)
    (root / "a" / "cat" / "gone.png").symlink_to("nowhere")
    assert '"a/cat/gone.png" cannot be read as an image (it is not a regular file' in refusal(root)
    (root / "a" / "cat" / "gone.png").unlink()
    os.mkfifo(root / "a" / "cat" / "pipe.png")
    assert '"a/cat/pipe.png" cannot be read as an image (it is not a regular file' in refusal(root)


def test_a_folder_that_is_not_there_or_a_file_is_refused(tmp_path: Path) -> None:
    missing = tmp_path / "nothing"
    assert refusal(missing) == f'there is no folder "{missing}": give the folder whose sub-folders are the domains'
    file = draw(tmp_path / "picture.png")
    assert refusal(str(file)).startswith(f'"{file}" is a file, not a folder: give the folder')


@pytest.mark.parametrize("content", [[], ["notes.txt"], ["a/cat/notes.txt", "b/dog/x.csv"], ["x.png"]])
def test_a_folder_without_images_is_told_the_layout(tmp_path: Path, content: list[str]) -> None:
    for name in content:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    message = refusal(tmp_path)
    assert message.startswith(f'"{tmp_path}" has no images in class folders: images (.bmp, .jpeg')
    assert "DIR/<domain>/<class>/" in message


def test_class_folders_without_domain_folders_are_recognised(tmp_path: Path) -> None:
    draw(tmp_path / "cat" / "0.png")
    draw(tmp_path / "dog" / "0.png")
    message = refusal(tmp_path)
    assert message.startswith('domain "cat" has images ("0.png") but no class folders: ')
    assert message.endswith('if "cat" is a class, give the folder that holds the domains')


def test_one_domain_is_refused_with_the_folder_that_may_have_been_meant(tmp_path: Path) -> None:
    root = made(tmp_path)
    message = refusal(root.parent)
    assert '"data"' in message
    assert "has only one domain" in message
    assert message.endswith(f'give "{root}"')


def test_one_class_is_refused_before_any_image_is_read(tmp_path: Path) -> None:
    root = made(tmp_path, kinds=("cat",))
    (root / "a" / "cat" / "0.png").write_bytes(b"")
    assert 'all images of data belong to one class ("cat")' in refusal(root)


def test_who_wants_no_gaps_is_told_of_the_first_and_what_to_do(tmp_path: Path) -> None:
    root = made(tmp_path, ("art", "cartoon", "photo", "sketch"), ("dog", "horse"))
    shutil.rmtree(root / "sketch" / "horse")
    assert refusal(root, strict=True) == (
        'domain "sketch" has no class "horse" (the other 3 domains do): '
        'add images to "sketch/horse", or remove class "horse" from every domain'
    )
    (root / "sketch" / "horse").mkdir()  # an empty folder is no class
    (root / "art" / "horse" / "0.png").unlink()
    message = refusal(root, strict=True)
    assert 'domain "art" has no class "horse" (2 of the other 3 domains do)' in message
    assert message.endswith("there are 2 such gaps in all")


def test_domains_that_read_alike_are_refused(tmp_path: Path) -> None:
    composed, decomposed = (unicodedata.normalize(form, "é") for form in ("NFC", "NFD"))
    message = refusal(made(tmp_path, (composed, decomposed)))
    assert "read as the same name: rename one" in message
    assert ascii(composed) in message
    assert ascii(decomposed) in message


@pytest.mark.parametrize("where", ["", "a", "a/cat"])
def test_a_folder_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    root = made(tmp_path)
    scandir = os.scandir

    def forbidding(path: Path) -> Any:
        if path == root / where:
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", forbidding)  # chmod does not stop root
    assert refusal(root) == f'cannot look into "{root / where}": Permission denied'


def test_a_linked_folder_that_cannot_be_looked_at_just_now_does_not_vanish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = made(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (root / "a" / "cat").rename(tmp_path / "elsewhere" / "cat")
    (root / "a" / "cat").symlink_to(tmp_path / "elsewhere" / "cat")
    scandir = os.scandir

    class Entry:
        def __init__(self, entry: Any) -> None:
            self.name, self.path, self.entry = entry.name, entry.path, entry

        def is_dir(self) -> bool:
            if self.entry.is_symlink():
                raise OSError(5, "Input/output error", self.path)
            return bool(self.entry.is_dir())

    monkeypatch.setattr(os, "scandir", lambda path: nullcontext([Entry(one) for one in scandir(path)]))
    assert refusal(root) == f'cannot look into "{root / "a" / "cat"}": Input/output error'


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidding(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    root = made(tmp_path)
    monkeypatch.setattr(Path, "read_bytes", forbidding)
    assert '"a/cat/0.png" cannot be read as an image (Permission denied)' in refusal(root)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not let such names be made")
def test_names_that_are_not_unicode_are_refused_for_folders_and_spelled_out_for_files(tmp_path: Path) -> None:
    root = made(tmp_path)
    odd = root / "a" / "cat" / os.fsdecode(b"\xff.png")
    odd.touch()
    assert r'"a/cat/\udcff.png" cannot be read' in refusal(root)
    odd.unlink()
    (root / "a").rename(root / os.fsdecode(b"a\xff"))
    assert refusal(root) == r"the folder name 'a\udcff' is not valid UTF-8: rename it"


@pytest.mark.parametrize(
    ("size", "sentence"), [(0, "must be 1 pixel or more, got 0"), (10**9, "choose a smaller size")]
)
def test_an_impossible_size_is_refused(tmp_path: Path, size: int, sentence: str) -> None:
    assert sentence in refusal(made(tmp_path), size=size)
