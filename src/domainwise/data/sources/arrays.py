"""Make domains from arrays in memory."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from domainwise.data.domains import Domain, Domains, Images, Labels
from domainwise.errors import InputError

LARGEST = 2.0**53  # below which a float holds every whole number
FEW = 4  # channels that a picture has at most: where one is no higher than that, but wider and deeper, they come first


def domains(
    arrays: Mapping[str, tuple[Any, Any]], *, name: str = "arrays", classes: Sequence[str] | None = None
) -> Domains:
    """Make domains from arrays in memory: ``{"name": (images, labels), ...}``.

    Images are uint8, of shape (N, H, W) or (N, H, W, C); labels are whole numbers from 0, the same in every domain.
    ``classes`` names them; without names every number up to the largest must occur.
    """
    if not isinstance(arrays, Mapping):
        raise InputError(f'domains are given as {{"name": (images, labels), ...}}, got {_type(arrays)}')
    items = tuple(_domain(name, given) for name, given in arrays.items())
    if not items:
        raise InputError("no domains were given")
    classes = _numbered(items) if classes is None else _named(classes)
    return Domains(_text("data set", name), tuple(classes), items, _fingerprint(items, classes))


def _domain(name: object, given: object) -> Domain:
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != 2:
        raise InputError(f'domain "{name}" is given as (images, labels), got {_type(given)}')
    return Domain(_text("domain", name), _images(str(name), given[0]), _labels(str(name), given[1]))


def _text(what: str, name: object) -> str:
    """The name as a text: numbers are names too."""
    if isinstance(name, bool) or not isinstance(name, str | int | np.integer) or not str(name).strip():
        raise InputError(f"the name of a {what} must be a text that is not empty, got {name!r}")
    return str(name)


def _named(classes: object) -> list[str]:
    if isinstance(classes, str) or not isinstance(classes, Sequence | np.ndarray):
        raise InputError(f'classes must be the names of all classes, as in ["cat", "dog"], got {_type(classes)}')
    names = [_text("class", name) for name in classes]
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise InputError(f'class "{twice[0]}" is named more than once')
    return names


def _numbered(items: Sequence[Domain]) -> list[str]:
    """Names for the labels. A number that no image has is more often a mark, such as 255 for none, than a class."""
    labels = np.unique(np.concatenate([domain.labels for domain in items]))
    labels = labels[labels >= 0]  # the others are refused where their domain is checked
    if len(labels) and labels[-1] != len(labels) - 1:
        missing = int(np.flatnonzero(labels != np.arange(len(labels)))[0])
        raise InputError(
            f"the labels go up to {labels[-1]}, but only {len(labels)} of them occur, and {missing} does not: number "
            "the classes from 0 without a gap, or name them all with classes=[...]"
        )
    return [str(label) for label in labels]


def _type(given: object) -> str:
    return f'the text "{given}"' if isinstance(given, str) else f"an object of type {type(given).__name__}"


def _fingerprint(items: Sequence[Domain], classes: Sequence[str]) -> str:
    """Return a hash of the content: names, classes, shapes, pixels and labels."""
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


def _array(what: str, given: Any) -> npt.NDArray[Any]:
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        raise InputError(f"{what} are partly masked, and nothing here knows of masks: leave these images out")
    try:
        return np.asarray(given)
    except ValueError:
        raise InputError(f"{what} differ in shape: make them of one") from None
    except (TypeError, RuntimeError) as error:  # a tensor that is sparse, on a GPU, or part of a graph
        raise InputError(f"{what} are not an array: {error}") from None


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
