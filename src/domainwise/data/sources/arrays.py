"""Make domains from arrays in memory."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from domainwise.data.domains import PARTS, Domain, Domains, Labels, Values, require_domains
from domainwise.data.sources.classes import class_notes, refuse_spellings
from domainwise.errors import InputError, closest, warn

LARGEST = 2.0**53  # below which a float holds every whole number
FEW = 4  # channels that a picture has at most: where one is no higher than that, but wider and deeper, they come first


def domains(
    arrays: Mapping[str, tuple[Any, Any]],
    *,
    name: str = "arrays",
    classes: Sequence[str] | None = None,
    groups: Mapping[str, Any] | None = None,
    splits: Mapping[str, Any] | None = None,
) -> Domains:
    """Make domains from arrays in memory: ``{"name": (images, labels), ...}``.

    Images are uint8 of shape (N, H, W) or (N, H, W, C), or floats from 0 to 1 of shape (N, H, W, C). Any numbers of
    shape (N, d) are a table, such as measurements or the features of a network, of which every column is scaled to mean
    0 and deviation 1 over the rows that are trained on.

    Args:
        classes: the names of the classes. Labels are whole numbers from 0, or names. Without this argument every number
            up to the largest must occur, and names are in the order of the alphabet; a name that is spelled in two ways
            is refused, and a class that a domain lacks is told of.
        groups: for each domain, what each image belongs to, such as a patient: a group never straddles the split.
        splits: an official split: for each domain, which part each image is in: train, id_val, val, test or id_test.
    """
    made = one_or_more(arrays, name=name, classes=classes, groups=groups, splits=splits)
    require_domains(made.name, made.names)
    if classes is None:  # or else it was said which there are
        counts = {domain.name: Counter(made.classes[label] for label in domain.labels) for domain in made}
        refuse_spellings(counts)
        for note in class_notes(counts):
            warn(f"{name}: {note}")
    return made


def one_or_more(
    arrays: Mapping[str, tuple[Any, Any]],
    *,
    name: str,
    classes: Sequence[str] | None,
    groups: Mapping[str, Any] | None = None,
    splits: Mapping[str, Any] | None = None,
) -> Domains:
    """Return what :func:`domains` does, of a single domain too, which can be trained on though not compared."""
    if not isinstance(arrays, Mapping):
        raise InputError(f'domains are given as {{"name": (images, labels), ...}}, got {_type(arrays)}')
    pairs = {_text("domain", name): _pair(name, given) for name, given in arrays.items()}
    if not pairs:
        raise InputError("no domains were given")
    images = {domain: _values(domain, x) for domain, (x, _) in pairs.items()}
    labels, named = _labels_of({domain: y for domain, (_, y) in pairs.items()}, classes)
    together = {
        domain: np.unique(array, return_inverse=True)[1].astype(np.int64)
        for domain, array in _of_each("groups", groups, images).items()
    }
    fixed = {
        domain: np.array([_part(domain, str(part)) for part in array], np.int8)
        for domain, array in _of_each("splits", splits, images).items()
    }
    items = tuple(Domain(d, images[d], labels[d], groups=together.get(d), fixed=fixed.get(d)) for d in pairs)
    return Domains(_text("data set", name), tuple(named), items, _fingerprint(items, named))


def _pair(name: object, given: object) -> Sequence[Any]:
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != 2:
        raise InputError(f'domain "{name}" is given as (images, labels), got {_type(given)}')
    return given


def _of_each(what: str, given: Mapping[str, Any] | None, images: Mapping[str, Values]) -> dict[str, npt.NDArray[Any]]:
    """The groups or splits of every domain, one for each image; none where nothing is given."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or {*given} != {*images}:
        raise InputError(f"{what} are given for every domain, as in {{{next(iter(images))!r}: [...], ...}}")
    found = {name: _array(f'the {what} of domain "{name}"', array) for name, array in given.items()}
    for name, array in found.items():
        if array.shape != (len(images[name]),):
            raise InputError(f'domain "{name}" has {len(images[name])} images and {what} of shape {array.shape}')
    return found


def _part(domain: str, part: str) -> int:
    if part not in PARTS.values():
        raise InputError(f'"{part}" in domain "{domain}" is no part of a split: {closest(part, [*PARTS.values()])}')
    return [*PARTS.values()].index(part)


def _labels_of(given: Mapping[str, Any], classes: object) -> tuple[dict[str, Labels], list[str]]:
    """The labels of every domain as positions, and the names of the classes."""
    named = None if classes is None else _named(classes)
    arrays = {name: _array(f'the labels of domain "{name}"', y) for name, y in given.items()}
    kinds = {name: array.dtype.kind == "U" or _all_text(array) for name, array in arrays.items()}
    if any(kinds.values()):
        if not all(kinds.values()):
            texts, numbers = (next(name for name, kind in kinds.items() if kind is which) for which in (True, False))
            raise InputError(
                f'the labels of domain "{texts}" are names and those of "{numbers}" are not: use one kind in all'
            )
        named = named or sorted({str(label) for array in arrays.values() for label in array.ravel()})
        return {name: _positions(name, array, named) for name, array in arrays.items()}, named
    numbered = {name: _labels(name, array) for name, array in arrays.items()}
    return numbered, _numbered(list(numbered.values())) if named is None else named


def _all_text(array: npt.NDArray[Any]) -> bool:
    return array.dtype.kind == "O" and array.size > 0 and all(isinstance(label, str) for label in array.ravel())


def _positions(name: str, array: npt.NDArray[Any], classes: Sequence[str]) -> Labels:
    if array.ndim != 1:
        raise InputError(f'the labels of domain "{name}" must be a row of names, got an array of shape {array.shape}')
    position = {label: i for i, label in enumerate(classes)}
    for label in array:
        if str(label) not in position:
            raise InputError(
                f'the label "{label}" of domain "{name}" is none of the classes: {closest(label, classes)}'
            )
    return np.array([position[str(label)] for label in array], np.int64)


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


def _numbered(each: Sequence[Labels]) -> list[str]:
    """Names for the labels. A number that no image has is more often a mark, such as 255 for none, than a class."""
    labels = np.unique(np.concatenate(each))
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
        floats = "" if domain.images.dtype == np.uint8 else str(domain.images.dtype)
        digest.update(f"{domain.images.shape}{floats}".encode())
        for array in (domain.images, domain.labels, domain.groups, domain.fixed):
            if array is not None:
                digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _values(name: str, x: Any) -> Values:
    array = _array(f'the images of domain "{name}"', x)
    if array.ndim == 2 and array.dtype.kind in "uifb":
        with np.errstate(over="ignore"):  # what is too large for 32 bits becomes infinite, and that is refused
            table = np.ascontiguousarray(array, np.float32)
        _require_finite(name, table)
        return table
    if array.ndim == 4 and array.dtype.kind == "f":
        _require_channels_last(name, array.shape)
        _require_from_0_to_1(name, array)
        return np.ascontiguousarray(array, np.float32)
    if array.dtype != np.uint8 or array.ndim not in (3, 4):
        raise InputError(
            f'the images of domain "{name}" must be uint8 of shape (N, H, W) or (N, H, W, C), or floats from 0 to 1 of '
            f"shape (N, H, W, C), or a table of numbers of shape (N, d): got {array.dtype} of shape {array.shape}"
        )
    array = array[..., None] if array.ndim == 3 else array
    _require_channels_last(name, array.shape)
    # Torch takes none that runs backwards, as x[..., ::-1] does.
    return array if min(array.strides, default=0) >= 0 else np.ascontiguousarray(array)


def _require_finite(name: str, array: npt.NDArray[Any]) -> None:
    wrong = ~np.isfinite(array)
    if wrong.any():
        raise InputError(
            f'domain "{name}" has {_where(wrong)} that are not finite numbers (nan, or too large): leave these rows '
            "out, or fill the gaps in"
        )


def _require_from_0_to_1(name: str, images: npt.NDArray[Any]) -> None:
    _require_finite(name, images)
    wrong = (images < 0) | (images > 1)
    if wrong.any():
        raise InputError(
            f'the images of domain "{name}" are floats, which go from 0 to 1, and there are {_where(wrong)} outside '
            f"({images.min():g} to {images.max():g}): divide what goes to 255 by 255, and undo a normalisation, which "
            "is done here"
        )


def _where(wrong: npt.NDArray[Any]) -> str:
    rows = np.flatnonzero(wrong.reshape(len(wrong), -1).any(1))
    first = ", ".join(map(str, rows[:3])) + (", ..." if len(rows) > 3 else "")
    return f"{wrong.sum():,} values in {len(rows):,} of {len(wrong):,} rows (number {first})"


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


def _labels(name: str, array: npt.NDArray[Any]) -> Labels:
    whole = array.dtype.kind in "iubf" and bool((np.abs(array.astype(float)) < LARGEST).all())
    if array.ndim != 1 or not whole or not np.array_equal(array, np.floor(array)):
        raise InputError(
            f'the labels of domain "{name}" must be a row of whole numbers, got {array.dtype} {array.shape}'
        )
    return array.astype(np.int64)


def given_inputs(images: Any, channels: int, table: bool) -> npt.NDArray[Any]:
    """Return what a model is given as an array of images or rows, or refuse what it cannot take."""
    try:
        array = np.asarray(images)
    except ValueError:
        raise InputError("the images differ in shape: give those of one shape at a time") from None
    except (TypeError, RuntimeError) as error:  # a tensor on a GPU, or part of a graph
        raise InputError(f"the images are not an array: {error}") from None
    if array.dtype.kind in "US":
        raise InputError("images are given as arrays; those in files go to predict_files")
    return _row_values(array, channels) if table else _image_values(array, channels)


def _row_values(array: npt.NDArray[Any], columns: int) -> npt.NDArray[Any]:
    array = array[None] if array.ndim == 1 else array
    if array.dtype.kind not in "uifb" or array.ndim != 2 or array.shape[1] != columns:
        raise InputError(f"the rows must be numbers of shape (N, {columns}), got {array.dtype} of {array.shape}")
    with np.errstate(over="ignore"):  # what is too large for 32 bits becomes infinite
        rows = array.astype(np.float32)
    if not np.isfinite(rows).all():
        raise InputError(
            "the rows hold values that are not finite numbers, or too large: leave these rows out, or fill the gaps in"
        )
    return rows


def _image_values(array: npt.NDArray[Any], channels: int) -> npt.NDArray[Any]:
    array = array[None] if array.ndim == 3 else array
    floats = array.dtype.kind == "f"
    if (
        not (floats or array.dtype == np.uint8)
        or array.ndim != 4
        or array.shape[-1] != channels
        or 0 in array.shape[1:]
    ):
        raise InputError(
            f"the images must be uint8, or floats from 0 to 1, of shape (N, H, W, {channels}), got {array.dtype} of "
            f"{array.shape}"
        )
    if floats and not ((array >= 0) & (array <= 1)).all():
        raise InputError("images of floats go from 0 to 1, and these do not: divide what goes to 255 by 255")
    return array.astype(np.float32) if floats else array
