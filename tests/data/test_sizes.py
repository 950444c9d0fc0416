from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_images import noise, noisy_folder
from PIL import Image

from domainwise.data.domains import Domains, Ragged
from domainwise.data.sources.open import open_data
from domainwise.errors import InputError

MIXED = ((12, 8), (30, 20))


@pytest.fixture(params=[False, True], ids=["memory", "cache"])
def read(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Opens a folder; with a cache twice, so that it is the entry that is looked at."""

    def call(root: Path, **sizes: Any) -> Domains:
        if not request.param:
            return open_data(str(root), **sizes)
        open_data(str(root), cache=tmp_path / "cache", **sizes)
        return open_data(str(root), cache=tmp_path / "cache", **sizes)

    return call


def resized(pixels: np.ndarray, side: int) -> np.ndarray:
    return np.asarray(Image.fromarray(pixels).resize((side, side), Image.Resampling.BILINEAR))


def test_images_of_one_small_size_are_kept_pixel_for_pixel(read: Any, tmp_path: Path) -> None:
    data = read(noisy_folder(tmp_path / "data", ((12, 9),)), train_size=16, eval_size=8)
    assert data.shape == (12, 9, 3)
    assert data.evaluation_shape == (8, 8, 3)
    assert np.array_equal(data["a"].images[1], noise((12, 9), 1))
    assert data["a"].evaluation is not None
    assert np.array_equal(data["a"].evaluation[1], resized(noise((12, 9), 1), 8))
    assert data["a"].shapes is None
    assert data["a"].originals is None


def test_images_of_the_size_to_evaluate_on_need_no_second_array(read: Any, tmp_path: Path) -> None:
    data = read(noisy_folder(tmp_path / "data"), train_size=16, eval_size=8)
    assert data["b"].evaluation is None
    assert data.shape == data.evaluation_shape == (8, 8, 3)


@pytest.mark.parametrize("shapes", [MIXED, ((30, 20),), ((20, 12),)], ids=["different", "larger", "longer"])
def test_images_are_resized_to_squares_each_array_from_the_original(
    read: Any, tmp_path: Path, shapes: tuple[tuple[int, int], ...]
) -> None:
    data = read(noisy_folder(tmp_path / "data", shapes), train_size=16, eval_size=10)
    last = noise(shapes[-1], 2 * len(shapes) - 1)
    domain = data["a"]
    assert domain.shapes is not None
    assert domain.shapes.tolist() == [list(shape) for shape in shapes] * 2
    assert np.array_equal(domain.images[-1], resized(last, 16))
    assert np.array_equal(domain.evaluation[-1], resized(last, 10))  # not by way of the training size


def test_original_keeps_every_pixel_of_images_that_differ_in_size(read: Any, tmp_path: Path) -> None:
    domain = read(noisy_folder(tmp_path / "data", MIXED), train_size="original", eval_size=10)["b"]
    assert isinstance(domain.originals, Ragged)
    assert len(domain.originals) == 4
    for i, (image, shape) in enumerate(zip(domain.originals, MIXED * 2, strict=True)):
        assert np.array_equal(image, noise(shape, 4 + i))
    assert np.array_equal(domain.originals[-1], domain.originals[3])
    assert np.array_equal(domain.images[0], resized(noise(MIXED[0], 4), 10))
    assert domain.evaluation is None
    assert domain.shapes.tolist() == [[12, 8], [30, 20]] * 2
    with pytest.raises(IndexError):
        domain.originals[4]


def test_original_keeps_the_shapes_though_the_image_that_differs_turns_out_corrupt(read: Any, tmp_path: Path) -> None:
    root = noisy_folder(tmp_path / "data", ((8, 8),))
    odd = root / "a" / "cat" / "odd.png"
    Image.fromarray(noise((30, 30), 9)).save(odd)
    odd.write_bytes(odd.read_bytes()[:500])
    with pytest.warns(UserWarning, match="left out"):
        domain = read(root, train_size="original", eval_size=8, skip_corrupt=True)["a"]
    assert domain.shapes.tolist() == [[8, 8], [8, 8]]
    assert np.array_equal(domain.originals[1], noise((8, 8), 1))


def test_original_is_a_plain_array_where_all_images_have_one_size(read: Any, tmp_path: Path) -> None:
    data = read(noisy_folder(tmp_path / "data", ((30, 20),)), train_size="original", eval_size=10)
    assert np.array_equal(data["a"].images[0], noise((30, 20), 0))
    assert data["a"].originals is None
    assert data["a"].shapes is None


def test_one_size_is_one_array_for_both(read: Any, tmp_path: Path) -> None:
    root = noisy_folder(tmp_path / "data", MIXED)
    data = read(root, size=10)
    assert data["a"].evaluation is None
    assert np.array_equal(data["a"].images, read(root, train_size=10, eval_size=10)["a"].images)
    assert data["a"].shapes.tolist() == [[12, 8], [30, 20]] * 2


def test_the_fingerprint_is_that_of_the_files_whatever_becomes_of_them(read: Any, tmp_path: Path) -> None:
    root = noisy_folder(tmp_path / "data", MIXED)
    sizes = [{"size": 5}, {"train_size": 16, "eval_size": 8}, {"train_size": "original", "eval_size": 8}]
    assert len({read(root, **each).fingerprint for each in sizes}) == 1


def test_a_photograph_on_its_side_counts_as_it_is_seen(read: Any, tmp_path: Path) -> None:
    root = noisy_folder(tmp_path / "data", ((12, 9),))
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(noise((9, 12), 50)).save(root / "a" / "cat" / "turned.png", exif=exif)
    data = read(root, train_size=16, eval_size=8)
    assert data.shape == (12, 9, 3)
    assert np.array_equal(data["a"].images[1], np.rot90(noise((9, 12), 50), -1))


@pytest.mark.parametrize("sizes", [{"train_size": 0}, {"eval_size": -1}, {"size": 0}])
def test_a_size_below_one_is_refused(tmp_path: Path, sizes: dict[str, int]) -> None:
    with pytest.raises(InputError, match="must be 1 pixel or more, got"):
        open_data(str(noisy_folder(tmp_path / "data")), **sizes)


def test_more_than_the_machine_has_is_refused_with_the_amount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("domainwise.data.decoded.decode_all.total_memory", lambda: 1000)
    with pytest.raises(InputError, match="4 images of 64 x 64 need 0 GiB of memory: choose a smaller size"):
        open_data(str(noisy_folder(tmp_path / "data")))


def test_ragged_pixels_must_be_as_many_as_their_shapes_say() -> None:
    with pytest.raises(ValueError, match="1 images of 12 bytes in all are said to be in 11"):
        Ragged(np.zeros(11, np.uint8), np.array([[2, 2]]))
