"""Python opens and compares what the command line does, with the same cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_data import image_folder

import domainwise as dw


def test_data_is_opened_from_what_the_command_line_takes_and_decoded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "open_data" in dir(dw)
    assert dw.open_data("digits").fingerprint == dw.digits().fingerprint
    root, cache = image_folder(tmp_path / "photos", ("art", "sketch")), tmp_path / "cache"
    first = dw.open_data(root, 8, cache=cache)
    assert first.shape == (8, 8, 3)
    assert first.fingerprint == dw.folders(root).fingerprint
    monkeypatch.setattr("domainwise.data.decoded.decode_all.read_rgb", None)
    assert dw.open_data(root, 8, cache=cache).home == first.home
    assert dw.open_data("digits", 16).fingerprint == dw.digits().fingerprint
    with pytest.raises(dw.InputError, match="digits have 16 x 16 pixels and are read in no other size"):
        dw.open_data("digits", 32)
    with pytest.raises(dw.InputError, match="neither a file nor a folder"):
        dw.open_data("nowhere")


def test_images_are_opened_as_pretrained_networks_see_them_and_not_enlarged(tmp_path: Path) -> None:
    small, large = (image_folder(tmp_path / str(side), ("a", "b"), side=side, count=2) for side in (20, 300))
    assert dw.open_data(small).evaluation_shape == (20, 20, 3)
    assert dw.open_data(large).evaluation_shape == (224, 224, 3)
    (large / "a" / "cat" / "0.png").write_bytes((small / "a" / "cat" / "0.png").read_bytes())  # the first of them
    assert dw.open_data(large).evaluation_shape == (224, 224, 3)


def test_a_comparison_opens_its_data_in_the_size_that_it_needs(tmp_path: Path) -> None:
    root = image_folder(tmp_path / "photos", ("art", "sketch"))
    asked = {"targets": "art", "seeds": 1, "steps": 2, "input_size": 12, "output": tmp_path / "out"}
    results = dw.compare(root, "erm", **asked)
    assert [one.trial.input_size for one in results.outcomes] == [12]
    again = dw.compare(dw.open_data(root, 12), "erm", **asked)
    assert [one.trial.id for one in again.outcomes] == [one.trial.id for one in results.outcomes]
