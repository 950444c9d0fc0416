"""Datasets of the package wilds are taken as they are; where it is installed, its readings and ours are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import made_wilds
import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import domainwise as dw
from domainwise.data.domains import PARTS
from domainwise.data.sources.listing import Listing
from domainwise.data.sources.open import find_source, open_data
from domainwise.networks.torchvision_compat import import_timm


def made(**others: Any) -> Any:
    """A dataset that looks like one of the package, of two weathers and two cities."""
    metadata = torch.tensor([[i % 2, i // 8, i % 3] for i in range(16)])
    about = {
        "dataset_name": "streets",
        "metadata_fields": ["weather", "city", "y"],
        "metadata_map": {"weather": ["sun", "rain"]},
        "metadata_array": metadata,
        "split_dict": {"train": 0, "val": 1, "test": 2, "extra": 3},
        "split_array": np.array([0] * 10 + [1, 1, 2, 2, 2, 3]),
        "y_array": metadata[:, 2],
        "n_classes": 3,
        "get_subset": None,
        "get_input": lambda i: Image.new("L", (6, 6), 10 * i),
    }
    return SimpleNamespace(**{**about, **others})


def test_a_dataset_of_the_package_is_read_item_by_item_with_its_splits() -> None:
    with pytest.warns(UserWarning, match="streets: 1 of 16 items are in no known split"):
        data = dw.domains(made())
    assert (data.name, data.names, data.classes) == ("streets", ("sun", "rain"), ("0", "1", "2"))
    for offset, domain in enumerate(data):
        rows = [i for i in range(15) if i % 2 == offset]
        assert domain.labels.tolist() == [i % 3 for i in rows]
        assert domain.images[:, 0, 0, 0].tolist() == [10 * i for i in rows]
        assert domain.fixed is not None
        assert [PARTS[part] for part in domain.fixed] == [
            "train" if i < 10 else "val" if i < 12 else "test" for i in rows
        ]


def test_a_known_dataset_is_opened_from_its_folder(tmp_path: Path) -> None:
    root = made_wilds.camelyon17(tmp_path / "data", side=8)
    given = made(dataset_name="camelyon17", data_dir=str(root / "camelyon17_v1.0"), split_scheme="official")
    opened = dw.open_data(given, 8, cache=tmp_path / "cache")
    assert opened.fingerprint == dw.open_data(f"camelyon17={root}", 8, cache=tmp_path / "cache").fingerprint
    with pytest.raises(dw.InputError, match="split by mixed-to-test, and its folder is read by the official split"):
        dw.open_data(made(dataset_name="camelyon17", data_dir=str(root), split_scheme="mixed-to-test"))
    with pytest.raises(dw.InputError, match="the folder of streets is not read, only those of camelyon17"):
        dw.open_data(made())


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")  # of the package
@pytest.mark.parametrize(
    ("name", "module", "cls", "paths"),
    [
        ("camelyon17", "camelyon17_dataset", "Camelyon17Dataset", lambda told: told._input_array),
        ("iwildcam", "iwildcam_dataset", "IWildCamDataset", lambda told: [f"train/{x}" for x in told._input_array]),
        ("fmow", "fmow_dataset", "FMoWDataset", lambda told: [f"images/rgb_img_{i}.png" for i in told.full_idxs]),
    ],
)
def test_every_file_has_the_label_and_the_split_that_the_package_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str, cls: str, paths: Callable[[Any], list[str]]
) -> None:
    monkeypatch.setenv("OUTDATED_IGNORE", "1")  # or its import calls home
    import_timm()  # torchvision, which the package imports, may need help
    pytest.importorskip("wilds", reason="the package wilds is not installed")
    pytest.importorskip("pytz", reason="the package wilds needs pytz")
    root = getattr(made_wilds, name)(tmp_path)
    (folder,) = root.iterdir()
    (folder / f"RELEASE_{folder.name.partition('_')[2]}.txt").touch()
    told = getattr(import_module(f"wilds.datasets.{module}"), cls)(root_dir=str(root))
    split = {number: part for part, number in told.split_dict.items()}
    theirs = {
        path: (int(label), split[int(part)])
        for path, label, part in zip(paths(told), told.y_array, told.split_array, strict=True)
        if int(part) >= 0
    }
    ours = find_source(f"{name}={root}")
    assert isinstance(ours, Listing)
    position = {label: i for i, label in enumerate(ours.classes)}
    if name == "fmow":
        position = told.category_to_idx  # of all 62
    assert {file.relative: (position[file.class_name], PARTS[file.fixed]) for file in ours.files} == theirs


@pytest.mark.filterwarnings("ignore")  # what pandas says of the package
def test_every_text_has_the_label_and_the_split_that_the_package_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTDATED_IGNORE", "1")
    import_timm()
    pytest.importorskip("wilds", reason="the package wilds is not installed")
    from wilds.datasets.amazon_dataset import AmazonDataset
    from wilds.datasets.civilcomments_dataset import CivilCommentsDataset

    for name, cls in {"amazon": AmazonDataset, "civilcomments": CivilCommentsDataset}.items():
        root = getattr(made_wilds, name)(tmp_path / name)
        (folder,) = root.iterdir()
        (folder / f"RELEASE_{folder.name.partition('_')[2]}.txt").touch()
        with pd.option_context("future.infer_string", False):  # which the package was written without
            told = cls(root_dir=str(root))
        split = {number: part for part, number in told.split_dict.items()}
        theirs = Counter((int(y), split[int(part)]) for y, part in zip(told.y_array, told.split_array, strict=True))
        ours: Counter[tuple[int, str]] = Counter()
        for domain in open_data(f"{name}={root}"):
            assert domain.fixed is not None
            ours.update((int(y), PARTS[part]) for y, part in zip(domain.labels, domain.fixed, strict=True))
        if name == "amazon":
            assert ours == theirs
        else:  # a comment to train on may be in several domains
            held = [key for key in theirs if key[1] != "train"]
            assert {key: ours[key] for key in held} == {key: theirs[key] for key in held}
            assert all(ours[y, "train"] >= theirs[y, "train"] for y in (0, 1))
