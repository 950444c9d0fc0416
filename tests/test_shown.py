"""What Python users look at: short, in a notebook too, and complete where they compute with it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from made_data import stripes

import domainwise as dw

SHORT = {"targets": "c", "seeds": 1, "steps": 6, "evaluate_every": 3}
DATA = stripes()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dw.Results:
    return dw.compare(DATA, "erm,arith", output=tmp_path_factory.mktemp("out"), **SHORT)


def test_what_is_shown_is_short_and_escaped(results: dw.Results) -> None:
    model = dw.load(results.outcomes[0].folder)
    assert repr(results).startswith(f"<Results in {results.folder}: erm, arith on c; trials: 2 finished>")
    assert repr(DATA).startswith("<Domains stripes: a 30, b 30, c 30; 8 x 8 x 1; ")
    assert "2 classes" in repr(DATA)
    assert repr(model).startswith("<Model erm, small, 2 classes (")
    images = np.zeros((4, 8, 8, 3), np.uint8)
    strange = dw.domains({"<b>": (images, [0, 1, 0, 1]), "d" * 999: (images + 1, [0, 1, 1, 0])})
    for shown in (results, DATA, model, strange):
        assert len(repr(shown)) < 500
        assert shown._repr_html_().startswith("<")
    assert "<b>" not in strange._repr_html_()
    many = {f"domain {i}": (images + i, [0, 1, 0, 1]) for i in range(40)}
    assert "and 34 more" in repr(dw.domains(many))


def test_the_frame_has_the_settings_and_the_curves_every_evaluation(results: dw.Results) -> None:
    frame, curves = results.frame(), results.curves()
    assert {"draw", "network", "weights", "steps", "batch", "input_size", "average"} <= {*frame.columns}
    assert frame["steps"].tolist() == [6, 6]
    target = curves[(curves["domain"] == "c") & (curves["part"] == "main")]
    for row in frame.itertuples():
        own = target[(target["id"] == row.id) & (target["step"] == row.step)]
        assert own["accuracy"].tolist() == [row.target_accuracy]
    assert sorted(set(curves["step"])) == [0, 3, 5]


def test_the_head_makes_the_probabilities_of_the_features(results: dw.Results) -> None:
    model, images = dw.load(results.outcomes[0].folder), DATA["a"].images[:5]
    features, head = model.features(images), model.algorithm.net.head
    logits = features @ head.weight.detach().numpy().T + head.bias.detach().numpy()
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(model.probabilities(images), expected, atol=1e-5)
    assert model.features(images[:0]).shape == (0, features.shape[1])


def test_looking_at_results_writes_nothing_and_whoever_may_read_one_file_may_read_all(results: dw.Results) -> None:
    def files() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in results.folder.rglob("*")}

    before = files()
    again = dw.Results.open(results.folder)
    assert again.table() == results.table()
    again.frame(), again.curves(), again.answer(), repr(again)
    assert files() == before
    if os.name != "nt":
        saved = {path.name: path.stat().st_mode for path in results.folder.glob("trials/*/best/*")}
        assert saved["model.safetensors"] == saved["config.json"]


def test_what_is_called_otherwise_here_is_named(tmp_path: Path) -> None:
    for said, meant in (("step", "steps"), ("learning_rate", "lr"), ("size", "input_size")):
        with pytest.raises(dw.InputError, match=f"did you mean {meant}"):
            dw.compare(DATA, "erm", output=tmp_path, **{said: 20})


def test_a_comparison_that_is_taken_for_a_model_names_the_models_in_it(results: dw.Results) -> None:
    first = min(str(one.folder) for one in results.outcomes)
    with pytest.raises(dw.InputError, match=r"whose trials kept 2\. Give one .* for c, seed 0;") as error:
        dw.load(results.folder)
    assert first in str(error.value)
    assert f"domainwise fit --from {results.folder}" in str(error.value)
