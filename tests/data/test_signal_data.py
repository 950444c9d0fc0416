"""Signals, a few channels over time, go the way of images: into domains, minibatches, training and a saved model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from made_trials import Killed, die, remains, run, trial

import domainwise as dw
from domainwise.data.batches.feed import Feed
from domainwise.data.batches.inputs import Inputs, Part, column_scales
from domainwise.data.domains import Domains
from domainwise.data.inspect import survey, write_contact_sheet
from domainwise.errors import InputError
from domainwise.networks.network import build


def waves(count: int = 40, steps: int = 32, scale: float = 1.0) -> Domains:
    """The class is which of two channels has the faster wave, wherever it begins; each domain is louder than before."""
    arrays = {}
    for i, name in enumerate("abc"):
        random = np.random.default_rng(i)
        y = np.arange(count) % 2
        speed = np.where(np.stack([y, 1 - y], 1) == 1, 5, 1)[..., None]
        turn = speed * np.linspace(0, 2 * np.pi, steps) + random.uniform(0, 6, (count, 2, 1))
        x = np.concatenate([np.sin(turn), random.normal(size=(count, 1, steps))], 1)
        arrays[name] = (scale * (i + 1) * x + 100, np.take(["first", "second"], y))
    return dw.domains(arrays, name="waves")


def test_signals_keep_their_numbers_and_names(tmp_path: Path) -> None:
    data = waves()
    data.save(tmp_path / "kept")
    again = Domains.open(tmp_path / "kept")
    for one in (data, again):
        assert (one.form, one.shape, one["b"].images.dtype) == ("signals", (3, 32), np.float32)
        assert "3 channels of 32 steps" in repr(one)
    assert again.fingerprint == data.fingerprint
    assert np.array_equal(again["b"].images, data["b"].images)


def test_bytes_of_three_dimensions_are_grey_images_and_other_numbers_signals_unless_it_is_said() -> None:
    y = [0, 1, 0, 1]
    bytes_ = np.zeros((4, 3, 8), np.uint8)

    def form(x: object, **said: object) -> tuple[str, tuple[int, ...]]:
        data = dw.domains({"a": (x, y), "b": (x, y)}, **said)  # type: ignore[arg-type]
        return data.form, data.shape

    assert form(bytes_) == form(bytes_ / 255, form="images") == ("images", (3, 8, 1))
    assert form(bytes_, form="signals") == form(bytes_.astype(np.int16)) == form(bytes_ / 255) == ("signals", (3, 8))
    square = np.zeros((4, 8, 8))
    with pytest.raises(InputError, match=r"signals of 8 channels over 8 steps. If they are grey images, say form="):
        form(square)
    assert form(square, form="signals") == ("signals", (8, 8))
    assert form(square, form="images") == ("images", (8, 8, 1))
    with pytest.raises(InputError, match='form is "images" or "signals", got \'sound\''):
        form(square, form="sound")


def test_gaps_in_signals_are_a_sentence_that_counts_and_says_where() -> None:
    x = np.zeros((4, 2, 8))
    x[[1, 3], 0, 2:4] = np.nan
    with pytest.raises(InputError, match=r'domain "b" has 4 values in 2 of 4 rows \(number 1, 3\) that are not finite'):
        dw.domains({"a": (np.zeros((4, 2, 8)), [0, 1, 0, 1]), "b": (x, [0, 1, 0, 1])})


def test_domains_of_different_forms_are_refused() -> None:
    y = [0, 1, 0, 1]
    with pytest.raises(InputError, match=r'domain "b" are \(3,\), those of "a" \(2, 8\): all domains must have one sh'):
        dw.domains({"a": (np.zeros((4, 2, 8)), y), "b": (np.zeros((4, 3)), y)})


def test_channels_are_scaled_by_the_signals_that_are_trained_on_and_no_others() -> None:
    data = waves(scale=1000)
    parts = [Part(domain, np.arange(20), "cpu") for domain in data.items[:2]]
    mean, std = column_scales(parts)
    rows = np.concatenate([domain.images[:20] for domain in data.items[:2]]).astype(np.float64)
    assert np.allclose(mean, rows.mean((0, 2)))
    assert np.allclose(std, rows.std((0, 2)))
    x, _ = Feed(parts, Inputs("none", 0, mean, std), 8, 0).draw()[0]
    scaled = torch.from_numpy((rows - rows.mean((0, 2), keepdims=True)) / rows.std((0, 2), keepdims=True)).float()
    nearest = torch.cdist(x.flatten(1), scaled.flatten(1), compute_mode="donot_use_mm_for_euclid_dist")  # type: ignore[union-attr]
    assert nearest.min(1).values.max() < 1e-3


def test_a_wave_is_told_wherever_it_begins_and_its_model_comes_back(tmp_path: Path) -> None:
    data = waves(count=60, scale=1000)
    results = dw.compare(data, "erm,fish,arith,coral", targets="c", seeds=1, steps=10, output=tmp_path / "out")
    assert {one.trial.network for one in results.outcomes} == {"cnn1d"}
    assert all(one.result["status"] == "finished" for one in results.outcomes)
    results.report(tmp_path / "report.html")
    model = dw.fit(data, "arith", steps=60, lr=0.01, output=tmp_path / "model")
    again = dw.load(tmp_path / "model")
    x = data["b"].images
    assert np.array_equal(again.probabilities(x), model.probabilities(x))
    assert again.features(x).shape == (60, 128)
    later = waves(count=60, scale=1000)["a"]
    assert np.mean(again.predict(later.images) == np.take(data.classes, later.labels)) > 0.9
    assert again.predict(x[0]) == again.predict(x)[:1]
    with pytest.raises(InputError, match=r"numbers of shape \(N, 3, 32\), 3 channels of 32 steps, got float32 of \(6"):
        again.predict(x[:, :2])
    with pytest.raises(InputError, match="the signals hold values that are not finite"):
        again.predict(np.full((1, 3, 32), np.nan))
    (tmp_path / "x.png").touch()
    with pytest.raises(InputError, match="takes signals of 3 channels of 32 steps and no images"):
        list(again.predict_files(tmp_path / "x.png"))


def test_a_killed_trial_on_signals_goes_on_exactly(tmp_path: Path) -> None:
    data = waves()
    one = trial(data=data)
    run(one, tmp_path / "whole", data=data)
    with pytest.raises(Killed):
        run(one, tmp_path / "killed", data=data, at=10, then=die)
    assert run(one, tmp_path / "killed", data=data) == ["resumes at step 5"]
    assert remains(tmp_path / "killed") == remains(tmp_path / "whole")


@pytest.mark.parametrize(
    ("algorithm", "settings", "sentence"),
    [
        ("erm", {"augment": "flip"}, "augment='flip' is for images, and waves has signals of 3 channels of 32 steps"),
        ("erm", {"input_size": 32}, "input_size=32 is for images"),
        ("erm", {"network": "mlp"}, "the network mlp is for rows, and waves has signals .*: take cnn1d, or FILE"),
        ("erm", {"features": "frozen"}, "frozen features are those of a pretrained network, and for signals there is"),
        ("probe", {}, "frozen features are those of a pretrained network, and for signals there is"),
    ],
)
def test_what_is_not_for_signals_is_refused(
    tmp_path: Path, algorithm: str, settings: dict[str, object], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        dw.fit(waves(), algorithm, output=tmp_path / "refused", **settings)


def test_signals_are_surveyed_and_have_no_pictures(tmp_path: Path) -> None:
    assert survey(waves()).modes == {"numbers": 120}
    with pytest.raises(InputError, match="waves has signals and no images"):
        write_contact_sheet(waves(), tmp_path / "sheet.png")
    with pytest.raises(InputError, match="cnn1d is for signals, and this is 8 x 8 x 3: take small or mnist"):
        build("cnn1d", (8, 8, 3), 2)


def test_a_network_of_ones_own_takes_signals(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from torch import nn\n"
        "def build(channels, classes):\n"
        "    return nn.Sequential(nn.Conv1d(channels, 8, 5), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten())\n"
    )
    model = dw.fit(waves(), "erm", network=f"{tmp_path}/mine.py:build", steps=3, output=tmp_path / "model")
    assert model.features(waves()["a"].images).shape == (40, 8)


def test_a_model_of_signals_is_exported_with_its_scaling(tmp_path: Path) -> None:
    model = dw.fit(waves(scale=1000), "erm", steps=3, output=tmp_path / "model")
    exported = model.export(tmp_path / "model.pt2")
    assert exported.about["shape"] == ["batch", 3, 32]
    whole = torch.export.load(tmp_path / "model.pt2").module()
    x = waves(scale=1000)["a"].images
    assert np.allclose(whole(torch.from_numpy(x)).detach().numpy(), model.probabilities(x), atol=1e-5)
