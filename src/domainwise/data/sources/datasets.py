"""Read a torch ``Dataset`` once, item by item, into arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from domainwise.errors import InputError
from domainwise.terminal import lively, pace

FEW = 4  # channels that a picture has at most


def is_dataset(given: object) -> bool:
    """Whether this gives items one by one, as a torch ``Dataset`` does; no pair, array or table does that."""
    plain = isinstance(given, Sequence | Mapping | np.ndarray) or hasattr(given, "__array__")
    return not plain and hasattr(given, "__getitem__") and (hasattr(given, "__len__") or hasattr(given, "__iter__"))


def read_dataset(name: str, dataset: Any) -> tuple[Any, list[Any]]:
    """Return the inputs and the labels of a dataset, whose items are pairs (x, y).

    Tensors of pictures have their channels first, as torch has them, and get them last. What is random in an item is
    drawn once.
    """
    inputs, labels = [], []
    for i, item in enumerate(_items(name, dataset)):
        if not isinstance(item, Sequence) or isinstance(item, str) or len(item) != 2:
            kind = f"{len(item)} things" if isinstance(item, tuple | list) else f"a {type(item).__name__}"
            raise InputError(f'item {i} of the dataset "{name}" must be a pair (x, y), and is {kind}')
        inputs.append(_array(item[0]))
        labels.append(item[1] if isinstance(item[1], str) else np.asarray(item[1]).item())
    if not inputs:
        raise InputError(f'the dataset "{name}" has no items')
    return _stacked(name, inputs), labels


def _items(name: str, dataset: Any) -> Iterator[Any]:
    if not hasattr(dataset, "__len__"):  # nobody knows how many there are
        yield from dataset
        return
    with pace(f"items of {name}", quiet=not lively(None)) as tick:
        for i in range(len(dataset)):
            yield dataset[i]
            tick(i + 1, len(dataset))


def _array(x: Any) -> Any:
    if isinstance(x, Mapping):
        return {str(name): np.asarray(value) for name, value in x.items()}
    if isinstance(x, str):
        return x
    array = np.asarray(x)
    first = hasattr(x, "permute") and array.ndim == 3 and array.shape[0] <= FEW < array.shape[2]
    return array.transpose(1, 2, 0) if first else array


def _stacked(name: str, inputs: Sequence[Any]) -> Any:
    first = inputs[0]
    if isinstance(first, str):
        return list(inputs)
    if isinstance(first, Mapping):
        odd = next((i for i, x in enumerate(inputs) if not isinstance(x, Mapping) or x.keys() != first.keys()), None)
        if odd is not None:
            raise InputError(f'items 0 and {odd} of the dataset "{name}" have other fields')
        return {field: _stacked(f"{name}, {field}", [x[field] for x in inputs]) for field in first}
    odd = next((i for i, x in enumerate(inputs) if np.shape(x) != first.shape), None)
    if odd is not None:
        raise InputError(
            f'items 0 and {odd} of the dataset "{name}" have the shapes {first.shape} and {np.shape(inputs[odd])}: '
            "give all of them one, as with a transform that resizes"
        )
    return np.stack(inputs)
