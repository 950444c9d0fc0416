"""Images that stay in their files are, wherever they are looked at, those that the cache would hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_images import noise, noisy_folder
from made_trials import Killed, die, remains, run, trial
from PIL import Image

import domainwise as dw
from domainwise import InputError
from domainwise.data.batches import rows
from domainwise.data.batches.feed import Feed, batches
from domainwise.data.batches.inputs import Inputs, Part
from domainwise.data.decoded import cache as caching, decode_all, read_ahead
from domainwise.data.decoded.array_files import Damaged
from domainwise.data.decoded.cache_entries import clear, damage, entries
from domainwise.data.decoded.image_files import ImageFiles
from domainwise.data.domains import Domains
from domainwise.data.sources.open import open_data
from domainwise.experiment.trial import Trial

SIZES = {"train_size": 16, "eval_size": 8}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return noisy_folder(tmp_path / "data", [(20 + i, 30 - i) for i in range(6)], "abc")


def opened(root: Path, cache: Path, store: str = "files", **options: Any) -> Domains:
    return open_data(str(root), cache=cache, store=store, **{**SIZES, **options})  # type: ignore[arg-type]


def assert_same(one: Domains, other: Domains) -> None:
    assert one.fingerprint == other.fingerprint
    for a, b in zip(one, other, strict=True):
        for what in ("images", "labels", "evaluation", "shapes", "copies", "groups"):
            assert np.array_equal(np.asarray(getattr(a, what)), np.asarray(getattr(b, what))), what


def boxed(root: Path) -> Path:
    lines = [
        f"{path.relative_to(root)},{path.parts[-3]},{path.parts[-2]},2 1 {6 + i % 3} 9"
        for i, path in enumerate(sorted(root.rglob("*.png")))
    ]
    (root / "m.csv").write_text("\n".join(["path,domain,label,box", *lines]))
    return root / "m.csv"


@pytest.mark.parametrize("sizes", [{}, {"train_size": None, "size": 8, "eval_size": None}, {"train_size": 64}])
@pytest.mark.parametrize("place", [Path, boxed], ids=["whole", "boxes"])
def test_images_in_their_files_have_the_pixels_of_decoded_ones(
    root: Path, tmp_path: Path, place: Any, sizes: dict[str, int]
) -> None:
    files, decoded = (opened(place(root), tmp_path / store, store, **sizes) for store in ("files", "decoded"))
    assert isinstance(files["a"].images, ImageFiles)
    assert_same(files, decoded)
    assert_same(Domains.open(files.home), decoded)  # type: ignore[arg-type]
    assert not [*files.home.glob("images*")]  # type: ignore[union-attr]
    for domain, expected in zip(files, decoded, strict=True):
        assert np.array_equal(domain.images[3], expected.images[3])
        assert np.array_equal([*domain.images], expected.images)
        assert domain.images.shape == expected.images.shape
        assert domain.images.nbytes == expected.images.nbytes
        with pytest.raises(IndexError):
            domain.images[len(domain)]


def test_minibatches_and_evaluations_are_those_of_decoded_images(root: Path, tmp_path: Path) -> None:
    found = []
    for store in ("files", "decoded"):
        parts = [Part(domain, np.arange(len(domain))[::-1].copy(), "cpu") for domain in opened(root, tmp_path, store)]
        inputs = Inputs("domainbed", 8)
        feed = Feed(parts, inputs, batch=4, seed=1)
        drawn = [pair for _ in range(3) for pair in feed.draw()]
        found.append([*drawn, *(batch for part in parts for batch in batches(part, inputs))])
    for (x, y), (expected, labels) in zip(*found, strict=True):
        assert torch.equal(x, expected)
        assert torch.equal(y, labels)


def test_originals_in_their_files_are_cropped_as_decoded_ones(root: Path, tmp_path: Path) -> None:
    drawn = []
    for store in ("files", "decoded"):
        data = opened(root, tmp_path / store, store, train_size="original")
        parts = [Part(domain, np.arange(len(domain)), "cpu") for domain in data]
        drawn.append(torch.cat([x for x, _ in Feed(parts, Inputs("domainbed", 8), batch=4, seed=1).draw()]))
    assert torch.equal(*drawn)


def test_a_killed_run_goes_on_exactly_and_ends_as_in_memory(root: Path, tmp_path: Path) -> None:
    files, memory = opened(root, tmp_path / "cache"), open_data(str(root), **SIZES)  # type: ignore[arg-type]
    one = trial(data=memory, input_size=8, train_size=16, steps=12)
    run(one, tmp_path / "whole", data=memory)
    with pytest.raises(Killed):
        run(one, tmp_path / "killed", data=files, at=10, then=die)
    said = run(one, tmp_path / "killed", data=files)
    assert said[:2] == [
        "resumes at step 5",
        "the images of data stay in their files: they are decoded ahead of their use",
    ]
    assert remains(tmp_path / "killed") == remains(tmp_path / "whole")


def test_a_comparison_takes_images_from_their_files_where_it_is_told_to(root: Path, tmp_path: Path) -> None:
    results = dw.compare(
        str(root), "erm", seeds=1, targets="a", steps=2, batch=2, input_size=8, network="small", probe=False,
        store="files", cache=tmp_path / "cache", output=tmp_path / "results",
    )  # fmt: skip
    assert len(results.frame()) == 1
    assert [entry.sizes for entry in entries(tmp_path / "cache")] == ["8, in their files"]
    (one,) = [Trial.from_json(json.loads(file.read_text())) for file in (tmp_path / "results").rglob("trial.json")]
    assert one.fingerprint == opened(root, tmp_path / "other", "decoded").fingerprint
    assert "store" not in one.identity


def short_of_room(monkeypatch: pytest.MonkeyPatch, memory: float) -> None:
    monkeypatch.setattr(caching, "free_disk", lambda folder: 3000)
    monkeypatch.setattr(caching, "total_memory", lambda: memory)


def test_images_stay_in_their_files_where_neither_disk_nor_memory_has_room(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short_of_room(monkeypatch, memory=60_000)
    said: list[str] = []
    data = opened(root, tmp_path / "cache", "auto", say=said.append)
    assert isinstance(data["a"].images, ImageFiles)
    assert "would take 0.0 MB decoded, and 0.0 MB are free in" in said[1]
    assert "stay in their files" in said[1]
    short_of_room(monkeypatch, memory=80_000)
    with pytest.warns(UserWarning, match="but only in memory"):
        assert isinstance(opened(root, tmp_path / "other", "auto")["a"].images, np.ndarray)


def test_what_the_cache_has_is_used_and_each_store_can_be_asked_for(root: Path, tmp_path: Path) -> None:
    opened(root, tmp_path)
    assert isinstance(opened(root, tmp_path, "auto")["a"].images, ImageFiles)
    assert isinstance(opened(root, tmp_path, "decoded")["a"].images, np.memmap)
    assert isinstance(opened(root, tmp_path, "auto")["a"].images, np.memmap)
    assert len(entries(tmp_path)) == 2
    Image.fromarray(noise((9, 9), 99)).save(root / "a" / "cat" / "0.png")
    opened(root, tmp_path, "auto")
    assert len(entries(tmp_path)) == 1
    opened(root, tmp_path, "files")
    assert len(clear(tmp_path, "data")) == 2
    assert [*tmp_path.glob("data-*")] == []


def test_files_are_looked_at_once_and_a_changed_one_again(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    before = opened(root, cache)
    with monkeypatch.context() as patch:
        patch.setattr(decode_all, "read_rgb", lambda content: pytest.fail("a file was decoded"))
        opened(root, cache)
    Image.fromarray(noise((9, 9), 99)).save(root / "a" / "cat" / "0.png")
    after = opened(root, cache)
    assert after.fingerprint != before.fingerprint
    assert len(entries(cache)) == 1
    opened(root, cache, "decoded")
    assert len(entries(cache)) == 2  # of one data set, in both stores
    assert_same(after, opened(root, tmp_path / "other", "decoded"))


@pytest.mark.parametrize("change", ["changed", "cut", "gone"])
def test_a_file_that_is_no_longer_what_it_was_is_named(root: Path, tmp_path: Path, change: str) -> None:
    data, file = opened(root, tmp_path / "cache"), root / "b" / "dog" / "2.png"
    if change == "changed":
        Image.fromarray(noise((22, 28), 99)).save(file)
    elif change == "cut":
        file.write_bytes(file.read_bytes()[:50])
    else:
        file.unlink()
    part = Part(data["b"], np.arange(len(data["b"])), "cpu")
    with pytest.raises(InputError, match=r"b/dog/2\.png is no longer the image that it was .*: put it back, or"):
        list(batches(part, Inputs("none", 8)))


def test_a_damaged_file_is_refused_or_left_out_when_the_data_is_opened(root: Path, tmp_path: Path) -> None:
    (root / "b" / "dog" / "2.png").write_bytes(b"no image")
    with pytest.raises(InputError, match=r'"b/dog/2\.png" cannot be read as an image'):
        opened(root, tmp_path / "cache")
    with pytest.warns(UserWarning, match=r"1 file\(s\) cannot be read as images and are left out"):
        data = opened(root, tmp_path / "cache", skip_corrupt=True)
    assert len(data["b"]) == 11


def test_a_damaged_list_of_files_is_noticed_and_made_anew(root: Path, tmp_path: Path) -> None:
    home = opened(root, tmp_path / "cache").home
    assert home is not None
    (home / "files.json").write_text((home / "files.json").read_text().replace("cat", "dog", 1))
    with pytest.raises(Damaged, match=r"files\.json is not what was written"):
        Domains.open(home)
    assert damage(home) == "files.json is not what was written"
    with pytest.warns(UserWarning, match=r"is damaged \(files\.json is not what was written\)"):
        again = opened(root, tmp_path / "cache")
    assert_same(again, opened(root, tmp_path / "other", "decoded"))
    assert damage(home) is None


@pytest.mark.parametrize("duplicates", ["together", "apart"])
def test_other_processes_read_the_same_files(root: Path, tmp_path: Path, duplicates: str) -> None:
    (root / "a" / "cat" / "again.png").write_bytes((root / "a" / "cat" / "0.png").read_bytes())
    with pytest.warns(UserWarning, match="copies of others"):
        data = opened(root, tmp_path / "cache").split_by(duplicates)
    data.save(tmp_path / "parked")
    again = Domains.open(tmp_path / "parked")
    assert_same(again, data)
    assert isinstance(again["a"].evaluation, ImageFiles)


def test_what_goes_to_a_device_goes_a_few_rows_at_a_time(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "SENT", 5)
    monkeypatch.setattr(read_ahead, "SHARE", 0)
    for store in ("files", "decoded"):
        images = opened(root, tmp_path, store)["a"].images
        assert np.array_equal(rows._sent(images, "cpu").numpy(), np.asarray(images))


def test_a_cache_is_needed_to_say_where_images_are_kept(root: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="store says what is kept in a cache"):
        open_data(str(root), store="files")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot be kept in .*: name another folder \(--cache\)"):
        opened(root, tmp_path / "file" / "cache")
    with pytest.raises(InputError, match="store"):
        opened(root, tmp_path, "memory")
