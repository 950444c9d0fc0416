"""What every other part of the program knows about data: named domains that share their classes."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from domainwise.data.arrays import Fixed, Images as Images, Labels as Labels, Ragged, Shapes
from domainwise.errors import InputError, closest


@dataclass(frozen=True, eq=False, repr=False)
class Domain:
    name: str
    images: Images  # (N, H, W, C), in memory or memory-mapped
    labels: Labels  # (N,), positions in Domains.classes
    evaluation: Images | None = None  # (N, E, E, C), from the originals in one resize; None: evaluate on images
    shapes: Shapes | None = None  # (N, 2), height and width of the originals; None: images are pixel for pixel
    originals: Ragged | None = None  # every pixel of originals that differ in size: crop from these, not from images
    groups: Labels | None = None  # (N,): images of one group never straddle a split
    fixed: Fixed | None = None  # (N,): in which part of the split an image belongs, FREE where the seed decides

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self)} images>"


OPTIONAL = ("evaluation", "shapes", "originals", "groups", "fixed")


@dataclass(frozen=True, eq=False)
class Domains:
    """Several domains of one data set. The fingerprint stands for the content, whatever folder it lies in."""

    name: str
    classes: tuple[str, ...]
    items: tuple[Domain, ...]
    fingerprint: str
    home: Path | None = None  # the folder that the arrays are mapped from

    def __post_init__(self) -> None:
        _validate(self)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(domain.name for domain in self.items)

    @property
    def shape(self) -> tuple[int, ...]:
        """(H, W, C) of every image."""
        return self.items[0].images.shape[1:]

    @property
    def evaluation_shape(self) -> tuple[int, ...]:
        """(H, W, C) of every image that is evaluated on."""
        first = self.items[0]
        return (first.images if first.evaluation is None else first.evaluation).shape[1:]

    def __iter__(self) -> Iterator[Domain]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, name: str) -> Domain:
        for domain in self.items:
            if domain.name == name:
                return domain
        raise InputError(f'"{name}" is no domain of {self.name}: {closest(name, self.names)}')

    def save(self, folder: Path) -> None:
        """Write arrays that :meth:`open` maps instead of reading; those that are mapped already are linked to."""
        from domainwise.data.storage import save

        save(self, folder)

    @classmethod
    def open(cls, folder: Path) -> Domains:
        from domainwise.data.storage import load

        return load(folder)


def domains(
    arrays: Mapping[str, tuple[Any, Any]], *, name: str = "arrays", classes: Sequence[str] | None = None
) -> Domains:
    """Domains from arrays in memory: ``{"name": (images, labels), ...}``.

    Images are uint8, of shape (N, H, W) or (N, H, W, C); labels are whole numbers from 0, the same in every domain.
    """
    items = tuple(Domain(str(key), _images(str(key), x), _labels(str(key), y)) for key, (x, y) in arrays.items())
    if not items:
        raise InputError("no domains were given")
    if classes is None:
        classes = [str(i) for i in range(1 + max(int(d.labels.max(initial=0)) for d in items))]
    return Domains(name, tuple(classes), items, fingerprint_of(items, classes))


def fingerprint_of(items: Sequence[Domain], classes: Sequence[str]) -> str:
    """Of the content: names, classes, shapes, pixels and labels."""
    digest = hashlib.sha256(json.dumps([d.name for d in items] + list(classes)).encode())
    for domain in items:
        digest.update(str(domain.images.shape).encode())
        digest.update(np.ascontiguousarray(domain.images).data)
        digest.update(np.ascontiguousarray(domain.labels).data)
    return digest.hexdigest()


def _images(name: str, x: Any) -> Images:
    try:
        array = np.asarray(x)
    except ValueError:
        raise InputError(f'the images of domain "{name}" differ in shape: resize them to one') from None
    if array.dtype != np.uint8 or array.ndim not in (3, 4):
        raise InputError(
            f'the images of domain "{name}" must be uint8 of shape (N, H, W) or (N, H, W, C), '
            f"got {array.dtype} of shape {array.shape}; floats from 0 to 1 become (255 * x).round().astype('uint8')"
        )
    return array[..., None] if array.ndim == 3 else array


def _labels(name: str, y: Any) -> Labels:
    array = np.asarray(y)
    whole = array.dtype.kind in "iub" or (array.dtype.kind == "f" and bool((np.abs(array) < np.inf).all()))
    if array.ndim != 1 or not whole or not np.array_equal(array, np.floor(array)):
        raise InputError(
            f'the labels of domain "{name}" must be a row of whole numbers, got {array.dtype} {array.shape}'
        )
    return array.astype(np.int64)


def _validate(data: Domains) -> None:
    if len(data.items) < 2:
        raise InputError(
            f"{data.name} has only one domain ({', '.join(data.names)}): generalizing to an unseen domain needs "
            "at least one to train on and one to hold out"
        )
    seen: dict[str, str] = {}
    for domain in data.items:
        key = unicodedata.normalize("NFKC", domain.name).casefold()
        if key in seen:
            # ascii() shows what the eye cannot see: composed against decomposed letters, wide ones, capitals
            pair = f'"{seen[key]}" and "{domain.name}" ({seen[key]!a} and {domain.name!a})'
            raise InputError(f"domains {pair} of {data.name} read as the same name: rename one")
        seen[key] = domain.name
        _validate_domain(data, domain)
    present = {int(label) for domain in data.items for label in np.unique(domain.labels)}
    if len(present) < 2:
        only = f'"{data.classes[present.pop()]}"' if present else "none"
        raise InputError(f"all images of {data.name} belong to one class ({only}): there is nothing to tell apart")


def _validate_domain(data: Domains, domain: Domain) -> None:
    if len(domain.images) != len(domain.labels):
        raise InputError(f'domain "{domain.name}" has {len(domain.images)} images and {len(domain.labels)} labels')
    if len(domain) == 0:
        raise InputError(f'domain "{domain.name}" of {data.name} has no images')
    if domain.images.shape[1:] != data.shape:
        raise InputError(
            f'images of domain "{domain.name}" are {domain.images.shape[1:]}, those of "{data.names[0]}" {data.shape}: '
            "all domains must have one shape"
        )
    low, high = int(domain.labels.min()), int(domain.labels.max())
    if low < 0 or high >= len(data.classes):
        raise InputError(
            f'domain "{domain.name}" has label {low if low < 0 else high}, outside 0..{len(data.classes) - 1}'
        )
    _validate_optional(data, domain)


def _validate_optional(data: Domains, domain: Domain) -> None:
    for what in OPTIONAL:
        mine, first = getattr(domain, what), getattr(data.items[0], what)
        if (mine is None) != (first is None):
            raise InputError(f'either all domains of {data.name} have {what} or none, but not "{domain.name}" alone')
        if mine is not None and len(mine) != len(domain):
            raise InputError(f'domain "{domain.name}" has {len(domain)} images and {len(mine)} {what}')
    if domain.evaluation is not None and domain.evaluation.shape[1:] != data.evaluation_shape:
        raise InputError(f'the images of domain "{domain.name}" to evaluate on have another shape than the others')
