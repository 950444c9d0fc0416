from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from domainwise.data.domains import Domains
from domainwise.data.sources.digits import read_mnist
from domainwise.data.sources.open import open_data
from domainwise.errors import InputError

SIDE, TRAIN, TEST = 28, 90, 30
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    """All images and labels; the first pixel of an image is its number, so that each can be told."""
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (TRAIN + TEST, SIDE, SIDE), np.uint8)
    images[:, 0, 0] = np.arange(TRAIN + TEST)
    return images, np.concatenate([np.arange(10), random.integers(0, 10, TRAIN + TEST - 10)]).astype(np.uint8)


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def write_idx(folder: Path, digits: tuple[np.ndarray, np.ndarray], names: tuple[str, ...] = FILES) -> Path:
    images, labels = digits
    parts = (images[:TRAIN], labels[:TRAIN], images[TRAIN:], labels[TRAIN:])
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in zip(names, parts, strict=True):
        content = idx(part)
        (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return folder


def write_npz(folder: Path, digits: tuple[np.ndarray, np.ndarray]) -> Path:
    images, labels = digits
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "mnist.npz", x_train=images[:TRAIN], y_train=labels[:TRAIN], x_test=images[TRAIN:],
             y_test=labels[TRAIN:])  # fmt: skip
    return folder


WRITERS = {
    "idx": lambda folder, digits: write_idx(folder, digits),
    "gz": lambda folder, digits: write_idx(folder, digits, tuple(f"{name}.gz" for name in FILES)),
    "dots": lambda folder, digits: write_idx(folder, digits, tuple(name.replace("-idx", ".idx") for name in FILES)),
    "torchvision": lambda folder, digits: write_idx(folder / "MNIST" / "raw", digits),
    "npz": lambda folder, digits: write_npz(folder, digits),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_mnist_is_read_as_it_is_distributed_training_images_first(tmp_path: Path, digits, write) -> None:
    write(tmp_path, digits)
    images, labels = read_mnist(tmp_path)
    assert np.array_equal(images, digits[0])
    assert np.array_equal(labels, digits[1])


def shuffled(digits) -> tuple[np.ndarray, np.ndarray]:
    torch.manual_seed(0)
    order = torch.randperm(TRAIN + TEST).numpy()
    return digits[0][order], digits[1][order]


def rotated(tmp_path: Path, digits) -> Domains:
    return open_data(f"rotated_mnist={write_idx(tmp_path, digits)}")


def test_rotated_mnist_deals_a_shuffle_into_six_angles(tmp_path: Path, digits) -> None:
    data = rotated(tmp_path, digits)
    images, labels = shuffled(digits)
    assert data.name == "rotated_mnist"
    assert data.names == ("0", "15", "30", "45", "60", "75")
    assert data.shape == (SIDE, SIDE, 1)
    for i, domain in enumerate(data):
        assert np.array_equal(domain.labels, labels[i::6])
        expected = [
            Image.fromarray(image).rotate(15 * i, Image.Resampling.BILINEAR, fillcolor=0) for image in images[i::6]
        ]
        assert np.array_equal(domain.images[..., 0], np.stack(expected))
    assert np.array_equal(data["0"].images[..., 0], images[::6])


def test_a_rotation_is_counter_clockwise_and_fills_with_black(tmp_path: Path) -> None:
    bar = np.zeros((120, SIDE, SIDE), np.uint8)
    bar[:, 14, 14:24] = 255  # to the right of the middle
    data = rotated(tmp_path, (bar, np.arange(120, dtype=np.uint8) % 10))
    turned = data["45"].images[0, ..., 0]
    assert turned[8, 20] > 100  # up and to the right
    assert turned[0, 0] == turned[27, 27] == 0


def test_colored_mnist_is_made_as_published(tmp_path: Path, digits) -> None:
    data = open_data(f"colored_mnist={write_npz(tmp_path, digits)}")
    images, digit = shuffled(digits)  # and the global generator goes on from there
    assert data.names == ("+90%", "+80%", "-90%")
    assert data.shape == (SIDE, SIDE, 2)
    for i, (domain, flip) in enumerate(zip(data, (0.1, 0.2, 0.9), strict=True)):
        label = (torch.from_numpy(digit[i::3]) < 5).float()
        label = (label - (torch.rand(len(label)) < 0.25).float()).abs()
        colour = (label - (torch.rand(len(label)) < flip).float()).abs()
        assert np.array_equal(domain.labels, label.numpy())
        for picture, original, channel in zip(domain.images, images[i::3], colour.int().tolist(), strict=True):
            assert np.array_equal(picture[..., channel], original)
            assert not picture[..., 1 - channel].any()


def test_the_domains_are_the_same_every_time_and_leave_the_global_generator_alone(tmp_path: Path, digits) -> None:
    first = rotated(tmp_path, digits).fingerprint
    torch.manual_seed(5)
    state = torch.get_rng_state()
    assert rotated(tmp_path, digits).fingerprint == first
    assert torch.equal(torch.get_rng_state(), state)


def damage(name: str, content: bytes):
    return lambda folder: (folder / name).write_bytes(content)


SHORT = idx(np.zeros((9, 28, 28), np.uint8))[:-1]
NO_IDX = "does not begin like an idx file of 3 dimension"
BAD = {
    "a file missing": (lambda folder: (folder / FILES[3]).unlink(), "t10k-labels-idx1-ubyte is missing"),
    "truncated": (damage(FILES[0], SHORT), "should hold 9 x 28 x 28 bytes and holds 7055"),
    "an absurd size": (damage(FILES[1], b"\0\0\x08\x01\xff\xff\xff\xffabc"), "should hold 4294967295 bytes"),
    "empty": (damage(FILES[0], b""), NO_IDX),
    "labels for images": (damage(FILES[0], idx(np.zeros(9, np.uint8))), NO_IDX),
    "other numbers": (damage(FILES[1], idx(np.zeros(9, np.uint8))), "with as many labels, got (90, 28, 28), (9,)"),
    "other sizes": (damage(FILES[2], idx(np.zeros((30, 8, 8), np.uint8))), "images must be bytes (N, H, W)"),
    "a label of 10": (damage(FILES[3], idx(np.full(30, 10, np.uint8))), "has label 10, outside 0..9"),
}


@pytest.mark.parametrize(("spoil", "sentence"), BAD.values(), ids=BAD)
def test_bad_files_are_refused_with_a_sentence(tmp_path: Path, digits, spoil, sentence: str) -> None:
    spoil(write_idx(tmp_path, digits))
    with pytest.raises(InputError) as caught:
        open_data(f"rotated_mnist={tmp_path}")
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"no archive", gzip.compress(idx(np.zeros((9, 28, 28), np.uint8)))[:-9]],
    ids=["empty", "text", "cut short"],  # bytes of an archive would name the second it was made in
)
def test_damaged_archives_are_refused_by_name(tmp_path: Path, content: bytes) -> None:
    for name in (f"{FILES[0]}.gz", "mnist.npz"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=name):
            open_data(f"colored_mnist={tmp_path}")
        (tmp_path / name).unlink()


def test_an_npz_of_something_else_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "mnist.npz", x=np.zeros(3))
    with pytest.raises(InputError, match="cannot be read as x_train, y_train, x_test and y_test"):
        open_data(f"rotated_mnist={tmp_path}")


@pytest.mark.parametrize("folder", ["", "nowhere"])
def test_a_folder_without_mnist_is_told_what_was_looked_for(tmp_path: Path, folder: str) -> None:
    with pytest.raises(InputError, match=r"there is no MNIST in .*: looked for mnist.npz, or train-images-idx3-ubyte"):
        open_data(f"rotated_mnist={tmp_path / folder}")
