"""RotatedMNIST and ColoredMNIST, made as DomainBed makes them from the files that MNIST is distributed in."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from domainwise.data.arrays import Images, Labels
from domainwise.data.domains import Domains, domains
from domainwise.errors import InputError

ANGLES = (0, 15, 30, 45, 60, 75)
FLIPS = {"+90%": 0.1, "+80%": 0.2, "-90%": 0.9}  # how often the colour does not agree with the label
NOISE = 0.25  # how often the label does not agree with the digit
SEED = 0  # of the shuffle and the colours: the domains are those of DomainBed with --seed 0, in every trial
PLACES = ("", "MNIST/raw", "MNIST", "mnist", "raw")
NAMES = "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte"


def rotated_mnist(folder: Path) -> Domains:
    """All 70,000 digits dealt into six domains, each turned by an angle (degrees, counter-clockwise)."""
    images, labels = _shuffled(folder)[:2]
    n = len(ANGLES)
    arrays = {str(angle): (_turned(images[i::n], angle), labels[i::n]) for i, angle in enumerate(ANGLES)}
    return domains(arrays, name="rotated_mnist", classes=[str(digit) for digit in range(10)])


def colored_mnist(folder: Path) -> Domains:
    """Is it below five? In two channels, one of them empty: which one goes with the label, but not in every domain."""
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
    """Training and test images together, in a random order; and the coin that the same generator goes on to toss."""
    import torch

    images, labels = read_mnist(folder)
    generator = torch.Generator().manual_seed(SEED)
    order = torch.randperm(len(images), generator=generator).numpy()

    def chance(p: float, count: int) -> Any:
        return (torch.rand(count, generator=generator) < p).numpy()

    return images[order], labels[order], chance


def _turned(images: Images, angle: int) -> Images:
    return np.stack([np.asarray(Image.fromarray(each).rotate(angle, Image.Resampling.BILINEAR)) for each in images])


def read_mnist(folder: Path) -> tuple[Images, Labels]:
    """All images (N, H, W) and labels, the training images first."""
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
    """Some unpackers write a dot for the hyphen before "idx"."""
    names = [f"{name}{mark}idx{dimensions}-ubyte{end}" for mark in "-." for end in ("", ".gz")]
    return next((folder / each for each in names if (folder / each).is_file()), None)


def _read_idx(file: Path, dimensions: int) -> Images:
    """Two zero bytes, 8 for uint8, the number of dimensions; their sizes as big-endian 32 bits; the content."""
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
