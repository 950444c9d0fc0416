"""A torch Dataset is read once, and becomes the same data as the arrays it is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, TensorDataset

import domainwise as dw
from domainwise.errors import InputError

Y = [0, 1, 0, 1]
PIXELS = np.random.default_rng(0).integers(0, 256, (4, 8, 6, 3)).astype(np.uint8)


class Items(Dataset[Any]):
    def __init__(self, items: list[Any]) -> None:
        self.items, self.read = items, 0

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: int) -> Any:
        self.read += 1
        return self.items[i]


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(zip(PIXELS, Y, strict=True))


@pytest.mark.parametrize(
    ("dataset", "arrays"),
    [
        (Items([*zip(PIXELS, Y, strict=True)]), PIXELS),
        (Stream(), PIXELS),
        (Items([(Image.fromarray(image), y) for image, y in zip(PIXELS, Y, strict=True)]), PIXELS),
        (TensorDataset(torch.from_numpy(PIXELS), torch.tensor(Y)), PIXELS),
        (TensorDataset(torch.from_numpy(PIXELS).permute(0, 3, 1, 2) / 255, torch.tensor(Y)), PIXELS.astype("f") / 255),
        (TensorDataset(torch.arange(8.0).view(4, 2), torch.tensor(Y)), np.arange(8.0).reshape(4, 2)),
        (TensorDataset(torch.ones(4, 2, 9), torch.tensor(Y)), np.ones((4, 2, 9))),
        (Items([("so so", 0), ("no", 1), ("so", 0), ("no no", 1)]), ["so so", "no", "so", "no no"]),
        (
            Items([({"input_ids": torch.tensor([i, 3])}, y) for i, y in enumerate(Y)]),
            {"input_ids": [[i, 3] for i in range(4)]},
        ),
    ],
    ids=["arrays", "stream", "pictures", "bytes", "channels first", "table", "signals", "texts", "dicts"],
)
def test_a_dataset_is_its_arrays(dataset: Any, arrays: Any) -> None:
    read = dw.domains({"a": dataset, "b": dataset})
    assert read.fingerprint == dw.domains({"a": (arrays, Y), "b": (arrays, Y)}).fingerprint
    if isinstance(dataset, Items):
        assert dataset.read == 8  # every item once for each domain


@pytest.mark.parametrize(
    ("items", "sentence"),
    [
        ([], 'the dataset "b" has no items'),
        ([np.zeros(2)] * 4, 'item 0 of the dataset "b" must be a pair \\(x, y\\), and is a ndarray'),
        ([(1, 2, 3)], "must be a pair \\(x, y\\), and is 3 things"),
        ([(np.zeros(2), 0), (np.zeros(3), 1)], r'items 0 and 1 of the dataset "b" have the shapes \(2,\) and \(3,\)'),
        ([({"x": np.zeros(2)}, 0), ({"y": np.zeros(2)}, 1)], 'items 0 and 1 of the dataset "b" have other fields'),
    ],
)
def test_a_bad_dataset_is_a_sentence(items: list[Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        dw.domains({"a": (np.zeros((4, 2)), Y), "b": Items(items)})
