"""What every other part of the program knows about data: named domains that share their classes."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from domainwise.data.arrays import Fixed, Images as Images, Labels as Labels, Ragged, Shapes
from domainwise.errors import InputError, closest, require


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

    given_as: ClassVar[str] = "domains, such as dw.folders(DIR), dw.domains({...}) or dw.digits()"

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
        require("the name of a domain", name, str)
        for domain in self.items:
            if domain.name == name:
                return domain
        raise InputError(f'"{name}" is no domain of {self.name}: {closest(name, self.names)}')

    def save(self, folder: Path) -> None:
        """Write arrays that :meth:`open` maps instead of reading; those that are mapped already are linked to."""
        from domainwise.data.decoded.array_files import save

        save(self, folder)

    @classmethod
    def open(cls, folder: Path) -> Domains:
        from domainwise.data.decoded.array_files import load

        return load(folder)


def domains(
    arrays: Mapping[str, tuple[Any, Any]], *, name: str = "arrays", classes: Sequence[str] | None = None
) -> Domains:
    """Domains from arrays in memory: ``{"name": (images, labels), ...}``.

    Images are uint8, of shape (N, H, W) or (N, H, W, C); labels are whole numbers from 0, the same in every domain.
    ``classes`` names them; without names every number up to the largest must occur.
    """
    if not isinstance(arrays, Mapping):
        raise InputError(f'domains are given as {{"name": (images, labels), ...}}, got {_kind(arrays)}')
    items = tuple(_domain(name, given) for name, given in arrays.items())
    if not items:
        raise InputError("no domains were given")
    classes = _numbered(items) if classes is None else _named(classes)
    return Domains(_text("data set", name), tuple(classes), items, fingerprint_of(items, classes))


def _domain(name: object, given: object) -> Domain:
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != 2:
        raise InputError(f'domain "{name}" is given as (images, labels), got {_kind(given)}')
    return Domain(_text("domain", name), _images(str(name), given[0]), _labels(str(name), given[1]))


def _text(what: str, name: object) -> str:
    """Numbers are names too."""
    if isinstance(name, bool) or not isinstance(name, str | int | np.integer) or not str(name).strip():
        raise InputError(f"the name of a {what} must be a text that is not empty, got {name!r}")
    return str(name)


def _named(classes: object) -> list[str]:
    if isinstance(classes, str) or not isinstance(classes, Sequence | np.ndarray):
        raise InputError(f'classes must be the names of all classes, as in ["cat", "dog"], got {_kind(classes)}')
    names = [_text("class", name) for name in classes]
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise InputError(f'class "{twice[0]}" is named more than once')
    return names


def _numbered(items: Sequence[Domain]) -> list[str]:
    """Names for the labels. A number that no image has is more often a mark, such as 255 for none, than a class."""
    labels = np.unique(np.concatenate([domain.labels for domain in items]))
    labels = labels[labels >= 0]  # the others are told of where their domain is looked at
    if len(labels) and labels[-1] != len(labels) - 1:
        missing = int(np.flatnonzero(labels != np.arange(len(labels)))[0])
        raise InputError(
            f"the labels go up to {labels[-1]}, but only {len(labels)} of them occur, and {missing} does not: number "
            "the classes from 0 without a gap, or name them all with classes=[...]"
        )
    return [str(label) for label in labels]


def _kind(given: object) -> str:
    return f'the text "{given}"' if isinstance(given, str) else f"an object of type {type(given).__name__}"


def fingerprint_of(items: Sequence[Domain], classes: Sequence[str]) -> str:
    """Of the content: names, classes, shapes, pixels and labels."""
    digest = hashlib.sha256(json.dumps([d.name for d in items] + list(classes)).encode())
    for domain in items:
        digest.update(str(domain.images.shape).encode())
        digest.update(np.ascontiguousarray(domain.images).data)
        digest.update(np.ascontiguousarray(domain.labels).data)
    return digest.hexdigest()


def _images(name: str, x: Any) -> Images:
    array = _array(f'the images of domain "{name}"', x)
    if array.dtype != np.uint8 or array.ndim not in (3, 4):
        raise InputError(
            f'the images of domain "{name}" must be uint8 of shape (N, H, W) or (N, H, W, C), '
            f"got {array.dtype} of shape {array.shape}; floats from 0 to 1 become (255 * x).round().astype('uint8')"
        )
    array = array[..., None] if array.ndim == 3 else array
    _require_channels_last(name, array.shape)
    # Torch takes none that runs backwards, as x[..., ::-1] does.
    return array if min(array.strides, default=0) >= 0 else np.ascontiguousarray(array)


LARGEST = 2.0**53  # below which a float holds every whole number


def _array(what: str, given: Any) -> npt.NDArray[Any]:
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        raise InputError(f"{what} are partly masked, and nothing here knows of masks: leave these images out")
    try:
        return np.asarray(given)
    except ValueError:
        raise InputError(f"{what} differ in shape: make them of one") from None
    except (TypeError, RuntimeError) as error:  # a tensor that is sparse, on a GPU, or part of a graph
        raise InputError(f"{what} are no array: {error}") from None


FEW = 4  # channels that a picture has at most: where one is no higher than that, but wider and deeper, they come first


def _require_channels_last(name: str, shape: tuple[int, ...]) -> None:
    _, height, width, channels = shape
    many = height < width == channels  # squares of more bands than a picture has
    if min(width, channels) > FEW and (height <= FEW or many):
        raise InputError(
            f'the images of domain "{name}" have shape {shape}, which reads as {height} x {width} pixels of {channels} '
            "channels: channels come last, (N, H, W, C); x.transpose(0, 2, 3, 1) does that to an array, "
            "x.permute(0, 2, 3, 1) to a tensor"
        )
    if 1 in (height, width):
        raise InputError(
            f'the images of domain "{name}" are {height} x {width} pixels, rows of numbers rather than pictures: give '
            "images of shape (N, H, W) or (N, H, W, C), as in x.reshape(-1, H, W)"
        )


def _labels(name: str, y: Any) -> Labels:
    array = _array(f'the labels of domain "{name}"', y)
    whole = array.dtype.kind in "iubf" and bool((np.abs(array.astype(float)) < LARGEST).all())
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
    if len(domain) == 0 or 0 in domain.images.shape:
        raise InputError(f'domain "{domain.name}" of {data.name} has no images, or none with pixels')
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
