"""Tables and images of floats go the way of images: into domains, minibatches, training and a saved model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_trials import Killed, die, remains, run, trial

import domainwise as dw
from domainwise.data.batches.feed import Feed
from domainwise.data.batches.inputs import Inputs, Part, column_scales
from domainwise.data.domains import Domains
from domainwise.data.inspect import survey, write_contact_sheet
from domainwise.data.sources.arrays import domains
from domainwise.errors import InputError
from domainwise.networks.network import build


def table(count: int = 40, columns: int = 5, scale: float = 1.0) -> Domains:
    """The class is the sign of the first column, whatever its scale; each domain is moved along another one."""
    arrays = {}
    for i, name in enumerate("abc"):
        x = np.random.default_rng(i).normal(size=(count, columns))
        y = np.where(x[:, 0] > 0, "up", "down")
        x[:, 1 + i] += 3
        arrays[name] = (scale * x, y)
    return domains(arrays, name="table")


def floats(seed: int = 0) -> Domains:
    arrays = {}
    for i, name in enumerate("ab"):
        x = np.random.default_rng(seed + i).random((30, 8, 8, 3))
        arrays[name] = (x, (x[:, :4].mean((1, 2, 3)) > x[:, 4:].mean((1, 2, 3))).astype(int))
    return domains(arrays)


def test_a_table_keeps_its_numbers_names_and_groups(tmp_path: Path) -> None:
    data = domains(
        {"a": (np.arange(8).reshape(4, 2), ["x", "y", "x", "y"]), "b": (np.ones((2, 2), bool), ["y", "x"])},
        groups={"a": ["p", "p", "q", "q"], "b": [7, 9]},
    )
    assert data.form == "rows"
    assert data.shape == (2,)
    assert data.classes == ("x", "y")
    data.save(tmp_path / "kept")
    for one in (data, Domains.open(tmp_path / "kept")):
        assert one["a"].images.dtype == np.float32
        assert one["a"].images.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
        assert one["a"].labels.tolist() == [0, 1, 0, 1]
        assert one["a"].groups is not None
        assert one["a"].groups.tolist() == [0, 0, 1, 1]
        assert one.fingerprint == data.fingerprint


def test_the_fingerprint_tells_tables_by_values_types_and_groups() -> None:
    pixels = np.zeros((4, 2, 2, 1), np.uint8)
    y = [0, 1, 0, 1]
    made = [
        domains(dict.fromkeys("ab", (x, y)), groups=groups)
        for x, groups in [
            (pixels, None), (pixels / 255, None), (pixels.reshape(4, 4), None), (pixels.reshape(4, 4) + 1, None),
            (pixels, {"a": y, "b": y}),
        ]
    ]  # fmt: skip
    assert len({data.fingerprint for data in made}) == len(made)


SOUND = (np.zeros((4, 2)), [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (
            (np.array([[0, np.nan], [0, 0], [np.inf, 1e300], [0, 0]]), [0, 1, 0, 1]),
            r"domain \"b\" has 3 values in 2 of 4 rows \(number 0, 2\) that are not finite numbers",
        ),
        ((np.zeros((4, 3)), [0, 1, 0, 1]), "all domains must have one shape"),
        ((np.array([["1", "2"]] * 4), [0, 1, 0, 1]), r"or a table of numbers of shape \(N, d\): got <U1"),
        ((np.zeros((4, 2)), ["x", "y", "x", "y"]), 'the labels of domain "b" are names and those of "a" are not'),
    ],
)
def test_a_bad_table_is_a_sentence_that_counts_and_says_where(bad: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        domains({"a": SOUND, "b": bad})


def test_floats_out_of_range_are_a_sentence_that_counts_and_says_where() -> None:
    images = np.zeros((6, 4, 4, 3))
    images[[2, 5], 0, 0] = 200
    with pytest.raises(InputError, match=r"6 values in 2 of 6 rows \(number 2, 5\) outside \(0 to 200\): divide"):
        domains({"a": (images, [0, 1] * 3), "b": (images, [0, 1] * 3)})


def test_a_name_that_is_no_class_is_named_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r'label "cst" of domain "b" is none of the classes: did you mean cat\?'):
        domains({"a": (SOUND[0], ["cat", "dog"] * 2), "b": (SOUND[0], ["cst", "dog"] * 2)}, classes=["cat", "dog"])


def test_groups_are_whole_for_every_domain_and_as_long_as_it() -> None:
    with pytest.raises(InputError, match="groups are given for every domain"):
        domains({"a": SOUND, "b": SOUND}, groups={"a": [0, 0, 1, 1]})
    with pytest.raises(InputError, match=r'domain "b" has 4 images and groups of shape \(3,\)'):
        domains({"a": SOUND, "b": SOUND}, groups={"a": [0, 0, 1, 1], "b": [0, 0, 1]})


def test_columns_are_scaled_by_the_rows_that_are_trained_on_and_no_others() -> None:
    data = table(scale=1000)
    parts = [Part(domain, np.arange(20), "cpu") for domain in data.items[:2]]
    mean, std = column_scales(parts)
    rows = np.concatenate([domain.images[:20] for domain in data.items[:2]]).astype(np.float64)
    assert np.allclose(mean, rows.mean(0))
    assert np.allclose(std, rows.std(0))
    x, y = Feed(parts, Inputs("none", 0, mean, std), 8, 0).draw()[0]
    assert x.shape == (8, 5)  # type: ignore[union-attr]
    scaled = torch.from_numpy((rows - mean) / std).float()
    nearest = torch.cdist(x, scaled, compute_mode="donot_use_mm_for_euclid_dist").min(1)  # type: ignore[arg-type]
    assert nearest.values.max() < 1e-5
    labels = torch.from_numpy(np.concatenate([domain.labels[:20] for domain in data.items[:2]]))
    assert torch.equal(labels[nearest.indices], y)  # type: ignore[arg-type]


def test_a_column_that_never_changes_is_left_at_zero() -> None:
    x = np.full((4, 2), 0.1)
    x[:, 1] = [1, 2, 3, 4]
    data = domains({"a": (x, [0, 1, 0, 1]), "b": (x, [0, 1, 0, 1])})
    mean, std = column_scales([Part(data["a"], np.arange(4), "cpu")])
    assert std[0] == 1
    assert abs(mean[0] - 0.1) < 1e-8


@pytest.mark.parametrize("algorithm", ["erm", "arith", "coral"])
@pytest.mark.parametrize("network", ["mlp", "linear"])
def test_a_table_is_learned_whatever_its_scale_and_its_model_comes_back(
    tmp_path: Path, algorithm: str, network: str
) -> None:
    data = table(scale=1000)
    model = dw.fit(data, algorithm, network=network, lr=0.02, steps=150, output=tmp_path / "model")
    again = dw.load(tmp_path / "model")
    rows = data["a"].images
    assert np.array_equal(again.probabilities(rows), model.probabilities(rows))
    right = np.mean([model.predict(domain.images) == np.take(data.classes, domain.labels) for domain in data])
    assert right > 0.9
    assert model.predict(rows[0]) == model.predict(rows)[:1]


def test_a_table_is_compared_with_every_domain_held_out(tmp_path: Path) -> None:
    results = dw.compare(table(), "erm,fish", seeds=1, steps=60, output=tmp_path / "out")
    assert "mlp" in (next((tmp_path / "out" / "trials").iterdir()) / "trial.json").read_text()
    assert [outcome.result["status"] for outcome in results.outcomes] == ["finished"] * 6


@pytest.mark.parametrize("data", [table(), floats()], ids=["a table", "images of floats"])
def test_a_killed_trial_goes_on_exactly(tmp_path: Path, data: Domains) -> None:
    one = trial(data=data)
    if "c" not in data.names:
        one = replace(one, targets=("b",))
    run(one, tmp_path / "whole", data=data)
    with pytest.raises(Killed):
        run(one, tmp_path / "killed", data=data, at=10, then=die)
    assert run(one, tmp_path / "killed", data=data) == ["resumes at step 5"]
    assert remains(tmp_path / "killed") == remains(tmp_path / "whole")


def test_what_is_for_images_alone_is_refused_for_a_table_and_the_other_way_round(tmp_path: Path) -> None:
    for settings, sentence in [
        ({"augment": "domainbed"}, "augment='domainbed' is for images, and table has rows of 5 columns"),
        ({"input_size": 32}, "input_size=32 is for images"),
        ({"network": "resnet18"}, "the network resnet18 is for images, and table has rows of 5 columns: take mlp"),
    ]:
        with pytest.raises(InputError, match=sentence):
            dw.fit(table(), "erm", output=tmp_path / "refused", **settings)
    with pytest.raises(InputError, match="the network mlp is for rows, and digits has images"):
        dw.fit(dw.digits(), "erm", network="mlp", output=tmp_path / "refused")
    with pytest.raises(InputError, match="resnet18 is for images, and this is 5 columns: take mlp, linear"):
        build("resnet18", (5,), 2)
    model = dw.fit(table(), "erm", steps=2, output=tmp_path / "model")
    with pytest.raises(InputError, match=r"numbers of shape \(N, 5\), 5 columns, got float64 of \(2, 4\)"):
        model.predict(np.zeros((2, 4)))
    with pytest.raises(InputError, match="not finite"):
        model.predict(np.full((2, 5), np.nan))
    with pytest.raises(InputError, match="not finite numbers, or too large"):
        model.predict(np.full((2, 5), 1e39))
    image = tmp_path / "x.png"
    image.touch()
    with pytest.raises(InputError, match="takes rows of 5 columns and no images"):
        list(model.predict_files(image))
    with pytest.raises(InputError, match="and of those there are no pictures"):
        write_contact_sheet(table(), tmp_path / "sheet.png")
    assert survey(table()).modes == {"numbers": 120}


def test_images_of_floats_train_like_the_bytes_they_are_equal_to(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (24, 8, 8, 3)).astype(np.uint8)
    labels = np.arange(24) % 2
    both = []
    for i, x in enumerate((pixels, pixels / 255)):
        data = domains({"a": (x, labels), "b": (x[::-1], labels)})
        model = dw.fit(data, "erm", steps=3, augment="domainbed", output=tmp_path / str(i))
        both.append(model.probabilities(x))
    assert np.abs(both[0] - both[1]).max() < 1e-4
    write_contact_sheet(floats(), tmp_path / "sheet.png")
    assert (tmp_path / "sheet.png").is_file()


def test_arrays_whose_classes_are_spelled_in_two_ways_or_missing_are_told_as_folders_are() -> None:
    x = np.zeros((4, 2))
    with pytest.raises(InputError, match=r'domain "b" has class "Dog " and no "dog".*: did you mean "dog"'):
        domains({name: (x, ["cat", "Dog " if name == "b" else "dog"] * 2) for name in "abc"})
    arrays = {"a": (x, [0, 1, 0, 1]), "b": (x, [0, 1, 2, 1])}
    with pytest.warns(UserWarning, match='only domain "b" has class "2".*no source shows it'):
        domains(arrays)
    assert domains(arrays, classes=["x", "y", "z"]).classes == ("x", "y", "z")
