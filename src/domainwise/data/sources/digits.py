"""Make domains of handwritten digits: small ones that need no download, RotatedMNIST and ColoredMNIST."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from domainwise.data.domains import Domains, Images, Labels
from domainwise.data.sources.arrays import domains
from domainwise.errors import InputError

ANGLES = (0, 15, 30, 45, 60, 75)
SIZE = 16
BOX = 12  # of the 8x8 original inside SIZE: small enough that hardly a stroke leaves the picture when it turns
FINE = 2  # times larger while turning, to lose less to the two interpolations
FLIPS = {"+90%": 0.1, "+80%": 0.2, "-90%": 0.9}  # how often the colour does not agree with the label
NOISE = 0.25  # how often the label does not agree with the digit
SEED = 0  # of the shuffle and the colours: the domains are those of DomainBed with --seed 0, in every trial
PLACES = ("", "MNIST/raw", "MNIST", "mnist", "raw")
NAMES = "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte"


def digits() -> Domains:
    """Return 1,797 digits of 16x16 grey pixels in six domains, each turned by an angle; no digit is in two."""
    pixels, labels = _shipped()
    grey = np.round(pixels.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)  # shipped as 0..16
    order = np.random.RandomState(0).permutation(len(grey))
    rows_of = {angle: order[i :: len(ANGLES)] for i, angle in enumerate(ANGLES)}
    return domains(
        {
            str(angle): (np.stack([_rotated_small(image, angle) for image in grey[rows]]), labels[rows])
            for angle, rows in rows_of.items()
        },
        name="digits",
        classes=[str(name) for name in np.unique(labels)],
    )


def _shipped() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Read scikit-learn's file without importing the package, which takes longer than most commands."""
    spec = find_spec("sklearn")
    file = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz" if spec and spec.origin else None
    if file is None or not file.is_file():
        from sklearn.datasets import load_digits

        bunch = load_digits()
        return bunch.data, bunch.target
    table = np.loadtxt(file, delimiter=",")
    return table[:, :-1], table[:, -1].astype(np.int64)


def _rotated_small(grey: Images, angle: int) -> Images:
    canvas = Image.new("L", (FINE * SIZE, FINE * SIZE))
    margin = FINE * (SIZE - BOX) // 2
    canvas.paste(Image.fromarray(grey).resize((FINE * BOX, FINE * BOX), Image.Resampling.BICUBIC), (margin, margin))
    turned = canvas.rotate(angle, Image.Resampling.BILINEAR)
    return np.asarray(turned.resize((SIZE, SIZE), Image.Resampling.BOX))


def rotated_mnist(folder: Path) -> Domains:
    """Return DomainBed's RotatedMNIST: all 70,000 digits in six domains, each turned counter-clockwise by an angle."""
    images, labels = _shuffled(folder)[:2]
    n = len(ANGLES)
    arrays = {str(angle): (_rotated(images[i::n], angle), labels[i::n]) for i, angle in enumerate(ANGLES)}
    return domains(arrays, name="rotated_mnist", classes=[str(digit) for digit in range(10)])


def colored_mnist(folder: Path) -> Domains:
    """Return DomainBed's ColoredMNIST: is a digit below five?

    It stands in one of two channels. Which one agrees with the label in two domains, and disagrees in the third.
    """
    images, labels, chance = _shuffled(folder)
    arrays = {}
    for i, (name, flip) in enumerate(FLIPS.items()):
        digits = labels[i :: len(FLIPS)]
        below = (digits < 5) ^ chance(NOISE, len(digits))
        colour = below ^ chance(flip, len(digits))
        both = np.stack([images[i :: len(FLIPS)]] * 2, axis=-1)
        both[np.arange(len(both)), ..., 1 - colour.astype(int)] = 0
        arrays[name] = (both, below)
    return domains(arrays, name="colored_mnist", classes=["five or more", "below five"])


def _shuffled(folder: Path) -> tuple[Images, Labels, Callable[[float, int], Any]]:
    """Training and test images together, in a random order, and a coin that the same generator tosses."""
    import torch

    images, labels = read_mnist(folder)
    generator = torch.Generator().manual_seed(SEED)
    order = torch.randperm(len(images), generator=generator).numpy()

    def chance(p: float, count: int) -> Any:
        return (torch.rand(count, generator=generator) < p).numpy()

    return images[order], labels[order], chance


def _rotated(images: Images, angle: int) -> Images:
    return np.stack([np.asarray(Image.fromarray(each).rotate(angle, Image.Resampling.BILINEAR)) for each in images])


def read_mnist(folder: Path) -> tuple[Images, Labels]:
    """Return all images of MNIST, (N, H, W), and their labels, the training images first."""
    for place in PLACES:
        here = folder / place
        if (here / "mnist.npz").is_file():
            return _read_npz(here / "mnist.npz")
        if _file(here, "train-images", 3) is not None:
            return _together([_part(here, "train"), _part(here, "t10k")], here)
    raise InputError(f'there is no MNIST in "{folder}": looked for mnist.npz, or {NAMES} (also .gz), there and below')


def _part(folder: Path, part: str) -> tuple[Images, Labels]:
    found = []
    for what, dimensions in (("images", 3), ("labels", 1)):
        file = _file(folder, f"{part}-{what}", dimensions)
        if file is None:
            raise InputError(
                f'"{folder}" has only some of the files of MNIST: {part}-{what}-idx{dimensions}-ubyte is missing'
            )
        found.append(_read_idx(file, dimensions))
    return found[0], found[1].astype(np.int64)


def _file(folder: Path, name: str, dimensions: int) -> Path | None:
    """The file of that name; some unpackers write a dot for the hyphen before "idx"."""
    names = [f"{name}{mark}idx{dimensions}-ubyte{end}" for mark in "-." for end in ("", ".gz")]
    return next((folder / each for each in names if (folder / each).is_file()), None)


def _read_idx(file: Path, dimensions: int) -> Images:
    """An idx file is two zero bytes, 8 for uint8, the number of dimensions, their sizes in 32 bits, and the content."""
    try:
        content = file.read_bytes()
        if file.suffix == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f'"{file}" cannot be read: {error}') from error
    head = 4 + 4 * dimensions
    if content[:4] != bytes([0, 0, 8, dimensions]) or len(content) < head:
        raise InputError(f'"{file}" does not begin like an idx file of {dimensions} dimension(s) of bytes')
    shape = [int(size) for size in np.frombuffer(content[4:head], ">u4")]
    if len(content) - head != np.prod(shape, dtype=object):
        raise InputError(f'"{file}" should hold {" x ".join(map(str, shape))} bytes and holds {len(content) - head}')
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape)


def _read_npz(file: Path) -> tuple[Images, Labels]:
    try:
        with np.load(file, allow_pickle=False) as arrays:
            parts = [(arrays[f"x_{part}"], arrays[f"y_{part}"]) for part in ("train", "test")]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f'"{file}" cannot be read as x_train, y_train, x_test and y_test: {error}') from error
    return _together(parts, file)


def _together(parts: list[tuple[Any, Any]], source: Path) -> tuple[Images, Labels]:
    for x, y in parts:
        if x.dtype != np.uint8 or x.ndim != 3 or y.shape != x.shape[:1] or x.shape[1:] != parts[0][0].shape[1:]:
            raise InputError(
                f'"{source}": images must be bytes (N, H, W) with as many labels, got {x.shape}, {y.shape}'
            )
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts]).astype(np.int64)
