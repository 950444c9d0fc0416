"""A cache of decoded images in which anything has changed is made anew, and one that cannot be read now stays."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_images import noisy_folder
from test_cache import cache, only_entry, opened, root, same

from domainwise.data.decoded import array_files
from domainwise.data.decoded.cache_entries import clear, damage, entries
from domainwise.data.sources.open import open_data
from domainwise.errors import InputError
from domainwise.experiment.integrity import checksum
from domainwise.interop.check_folder import check

__all__ = ["cache", "root"]  # fixtures


def flipped(file: Path, place: int) -> None:
    """One bit, and as if nobody had been there."""
    about = file.stat()
    with file.open("r+b") as stream:
        stream.seek(place)
        (byte,) = stream.read(1)
        stream.seek(place)
        stream.write(bytes([byte ^ 1]))
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))


@pytest.mark.parametrize("where", [0.0, 0.031, 0.5, 0.77, 1.0])
@pytest.mark.parametrize("name", ["images", "evaluation", "labels", "shapes"])
def test_one_bit_anywhere_in_an_entry_is_noticed_and_it_is_made_anew(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, name: str, where: float
) -> None:
    monkeypatch.setattr(array_files, "BLOCK", 10_000)
    root = noisy_folder(tmp_path / "data", ((40, 40), (50, 30)))
    open_data(str(root), train_size=96, eval_size=64, cache=cache)
    file = only_entry(cache) / f"{name}.npy"
    assert damage(file.parent) is None
    flipped(file, int(where * (file.stat().st_size - 1)))
    assert file.name in str(damage(file.parent))
    assert file.name in str(check(cache).findings[0])
    with pytest.warns(UserWarning, match=rf"what was kept in .* is damaged \({name}.npy .*: the images are decoded"):
        again = open_data(str(root), train_size=96, eval_size=64, cache=cache)
    assert same(again, open_data(str(root), train_size=96, eval_size=64))
    assert damage(only_entry(cache)) is None


def test_a_large_entry_is_read_to_its_end_once_after_each_start_of_a_machine_or_change(
    root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_files, "ALWAYS", 0)
    read: list[str] = []
    usual = array_files.first_change
    monkeypatch.setattr(array_files, "first_change", lambda file, about: read.append(file.name) or usual(file, about))
    opened(root, cache)
    opened(root, cache)
    assert read == []  # what has just been written has been seen
    monkeypatch.setattr(array_files, "_boot", lambda: "another")
    opened(root, cache)
    assert sorted(read) == ["evaluation.npy", "images.npy", "labels.npy", "shapes.npy"]
    opened(root, cache)
    assert len(read) == 4
    os.utime(only_entry(cache) / "images.npy")
    opened(root, cache)
    assert len(read) == 8
    assert entries(cache)[0].created is not None
    assert len(clear(cache)) == 1


def test_an_entry_of_an_earlier_version_which_kept_no_checksums_is_used(root: Path, cache: Path) -> None:
    first, _ = opened(root, cache)
    about = json.loads((only_entry(cache) / "about.json").read_text())
    del about["checksum"], about["blocks"]
    (only_entry(cache) / "about.json").write_text(json.dumps({**about, "checksum": checksum(about)}))
    again, said = opened(root, cache)
    assert not [line for line in said if "decoded" in line or "damaged" in line]
    assert same(first, again)
    assert damage(only_entry(cache)) is None


def test_an_entry_that_cannot_be_read_just_now_stays_and_is_a_sentence(
    root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(root, cache)
    before = {path: path.stat() for path in only_entry(cache).iterdir()}
    for name in ("about.json", "images.npy", "labels.npy"):
        usual = Path.open

        def failing(path: Path, *given: Any, name: str = name, usual: Any = usual, **named: Any) -> Any:
            if path.name == name:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return usual(path, *given, **named)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "open", failing)
            with pytest.raises(InputError, match=r"cannot be read just now \(Input/output error\): nothing there was"):
                opened(root, cache)
    assert {path: path.stat() for path in only_entry(cache).iterdir()} == before
    assert opened(root, cache)[1] == []


@pytest.mark.parametrize("instead", [Path.mkdir, os.mkfifo] if hasattr(os, "mkfifo") else [Path.mkdir])
@pytest.mark.parametrize("name", ["labels.npy", "images.npy"])
@pytest.mark.timeout(20)
def test_what_lies_in_the_place_of_a_file_of_an_entry_is_damage_and_is_made_anew(
    root: Path, cache: Path, name: str, instead: Callable[[Path], object]
) -> None:
    before = opened(root, cache)[0]
    (only_entry(cache) / name).unlink()
    instead(only_entry(cache) / name)
    assert f"{name} is not a file" in str(check(cache).findings[0])
    with pytest.warns(UserWarning, match="the images are decoded anew"):
        assert same(opened(root, cache)[0], before)
    assert damage(only_entry(cache)) is None


def failing_once(function: Callable[..., Any], path: Path, number: int) -> Callable[..., Any]:
    left = [OSError(number, os.strerror(number), str(path))]

    def failing(place: Any, *rest: Any, **more: Any) -> Any:
        if left and os.fspath(place) == str(path):
            raise left.pop()
        return function(place, *rest, **more)

    return failing


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ESTALE])
def test_an_image_that_cannot_be_read_just_now_is_not_left_out_for_ever(
    root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    image = sorted(root.rglob("*.png"))[3]
    monkeypatch.setattr(Path, "read_bytes", failing_once(Path.read_bytes, image, number))
    with pytest.raises(InputError, match=f"{image.name}.* cannot be read just now .{os.strerror(number)}"):
        open_data(str(root), cache=cache, skip_corrupt=True)
    again = open_data(str(root), cache=cache, skip_corrupt=True)
    assert again.fingerprint == open_data(str(root)).fingerprint


def test_an_image_that_cannot_be_looked_at_just_now_costs_no_entry(
    root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_data(str(root), cache=cache)
    before = only_entry(cache)
    image = sorted(root.rglob("*.png"))[3]
    monkeypatch.setattr(os, "stat", failing_once(os.stat, image, errno.EIO))
    with pytest.raises(InputError, match="cannot be read just now"):
        open_data(str(root), cache=cache)
    assert only_entry(cache) == before
    open_data(str(root), cache=cache)
    assert only_entry(cache) == before
