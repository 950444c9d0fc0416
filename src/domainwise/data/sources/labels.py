"""Read labels that are given as numbers or as names, and the names of the classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from domainwise.data.domains import Labels
from domainwise.data.sources.values import array_of
from domainwise.errors import InputError, closest

LARGEST = 2.0**53  # below which a float holds every whole number


def labels_of(given: Mapping[str, Any], classes: object) -> tuple[dict[str, Labels], list[str]]:
    """The labels of every domain as positions, and the names of the classes."""
    named = None if classes is None else _named(classes)
    arrays = {name: array_of(f'the labels of domain "{name}"', y) for name, y in given.items()}
    kinds = {name: array.dtype.kind == "U" or _alltext_of(array) for name, array in arrays.items()}
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


def _alltext_of(array: npt.NDArray[Any]) -> bool:
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


def _labels(name: str, array: npt.NDArray[Any]) -> Labels:
    whole = array.dtype.kind in "iubf" and bool((np.abs(array.astype(float)) < LARGEST).all())
    if array.ndim != 1 or not whole or not np.array_equal(array, np.floor(array)):
        raise InputError(
            f'the labels of domain "{name}" must be a row of whole numbers, got {array.dtype} {array.shape}'
        )
    return array.astype(np.int64)


def _named(classes: object) -> list[str]:
    if isinstance(classes, str) or not isinstance(classes, Sequence | np.ndarray):
        raise InputError(f'classes must be the names of all classes, as in ["cat", "dog"], got {type_of(classes)}')
    names = [text_of("class", name) for name in classes]
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


def text_of(what: str, name: object) -> str:
    """The name as a text: numbers are names too."""
    if isinstance(name, bool) or not isinstance(name, str | int | np.integer) or not str(name).strip():
        raise InputError(f"the name of a {what} must be a text that is not empty, got {name!r}")
    return str(name)


def type_of(given: object) -> str:
    return f'the text "{given}"' if isinstance(given, str) else f"an object of type {type(given).__name__}"
