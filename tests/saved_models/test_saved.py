from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from made_data import stripes

import domainwise as dw
from domainwise import InputError
from domainwise.algorithms import parse
from domainwise.experiment.records import read
from domainwise.experiment.settings import resolve
from domainwise.experiment.trial import Trial
from domainwise.saved_models.card import Expectation, write
from domainwise.training.plan import plan
from domainwise.training.run_trial import execute

DATA = stripes()


def trained(folder: Path, text: str = "arith", *, seed: int = 0, average: str = "none", **given: object) -> dict:
    settings = resolve(given={"steps": 40, "evaluate_every": 5, **given})
    (trial,) = plan(DATA, parse(text), [("c",)], [seed], settings, average)
    return execute(trial, DATA, folder)


def accuracy(model: dw.Model, rows: np.ndarray) -> float:
    domain = DATA["c"]
    names = [DATA.classes[i] for i in domain.labels[rows]]
    return float(np.mean(np.array(model.predict(domain.images[rows])) == names))


@pytest.mark.parametrize("text", ["arith", "arm"])
def test_the_saved_model_is_the_selected_one(tmp_path: Path, text: str) -> None:
    result = trained(tmp_path, text)
    model = dw.load(tmp_path)
    from domainwise.data.splits import split

    main, _ = split(30, 0.2, 0, 2)
    assert accuracy(model, main) == pytest.approx(result["selected"]["target"])
    assert model.config["step"] == result["selected"]["step"]
    assert model.classes == ("low", "high")


def test_arm_predicts_in_the_groups_that_it_was_evaluated_in(tmp_path: Path) -> None:
    result = trained(tmp_path, "arm", batch=8)
    from domainwise.data.splits import split

    main, _ = split(30, 0.2, 0, 2)
    rows = dw.load(tmp_path).probabilities(DATA["c"].images[main])
    found = -np.log(rows[np.arange(len(main)), DATA["c"].labels[main]]).mean()
    (record,) = (one for one in read(tmp_path / "records.jsonl") if one["step"] == result["selected"]["step"])
    assert found == pytest.approx(record["domains"]["c"]["main"]["loss"], rel=1e-4)
    old = json.loads((tmp_path / "best" / "config.json").read_text())
    del old["checksum"]
    assert old.pop("recalled") == {"support": 8}
    (tmp_path / "best" / "config.json").write_text(json.dumps(old))
    assert dw.load(tmp_path).algorithm.support == 0  # as those that were saved before this was


RECALLS = """
from domainwise.algorithms import Algorithm, algorithm


@algorithm
class Recalls(Algorithm):
    memory = recalled = ("seen",)

    def prepare(self, batches):
        self.seen = {value}
"""


def test_an_algorithm_recalls_what_it_says_as_it_was_at_the_step_that_was_kept(tmp_path: Path) -> None:
    file = tmp_path / "recalls.py"
    file.write_text(RECALLS.format(value="self.updates"))
    result = trained(tmp_path / "a", f"{file}:Recalls", selection="validation")
    model = dw.load(tmp_path / "a", trust_code=True)
    assert model.algorithm.seen == result["selected"]["step"] < 39
    file.write_text(RECALLS.format(value="batches[0][0]"))
    result = trained(tmp_path / "b", f"{file}:Recalls")
    assert result["status"] == "failed"
    assert "what it recalls must be numbers and texts" in result["message"]
    assert result["step"] == 0  # not after hours


def test_the_averaged_model_is_saved_like_any_other(tmp_path: Path) -> None:
    result = trained(tmp_path, average="ma(start=5)")
    from domainwise.data.splits import split

    main, _ = split(30, 0.2, 0, 2)
    numbers = result["averages"]["ma(start=5)"]["selected"]
    assert accuracy(dw.load(tmp_path, which="best-average"), main) == pytest.approx(numbers["target"])


def test_a_model_answers_with_names_and_probabilities_for_images_of_any_size(tmp_path: Path) -> None:
    trained(tmp_path)
    model = dw.load(tmp_path)
    one = np.zeros((20, 30, 1), np.uint8)
    assert model.predict(one)[0] in ("low", "high")
    rows = model.probabilities(DATA["a"].images)
    assert rows.shape == (30, 2)
    assert np.allclose(rows.sum(1), 1)
    with pytest.raises(InputError, match="must be uint8, or floats"):
        model.predict(np.zeros((2, 8, 8, 3), np.uint8))
    with pytest.raises(InputError, match="images of floats go from 0 to 1"):
        model.predict(np.full((2, 8, 8, 1), 255.0))
    floats = DATA["a"].images / 255
    assert np.abs(model.probabilities(floats) - rows).max() < 1e-5


def test_what_is_saved_can_run_no_code(tmp_path: Path) -> None:
    trained(tmp_path)
    assert sorted(path.name for path in (tmp_path / "best").iterdir()) == ["config.json", "model.safetensors"]
    json.loads((tmp_path / "best" / "config.json").read_text())


def test_a_folder_without_a_model_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no saved model"):
        dw.load(tmp_path)


def test_runs_that_share_an_initialisation_are_averaged(tmp_path: Path) -> None:
    for i, lr in enumerate((1e-3, 2e-3, 5e-4)):
        trained(tmp_path / str(i), lr=lr)
    folders = [tmp_path / str(i) for i in range(3)]
    uniform = dw.average_runs(folders)
    states = [dw.load(folder).algorithm.net.state_dict() for folder in folders]
    for name, value in uniform.algorithm.net.state_dict().items():
        torch.testing.assert_close(value, torch.stack([state[name] for state in states]).mean(0))
    best = dw.average_runs(folders, DATA)
    assert accuracy(best, np.arange(30)) > 0.6


def test_an_average_promises_nothing_that_one_of_its_models_does(tmp_path: Path) -> None:
    for i, lr in enumerate((1e-3, 2e-3)):
        model = dw.fit(DATA, "erm", lr=lr, steps=4, output=tmp_path / str(i))
        trial = Trial.from_json(model.config["trial"])
        write(
            tmp_path / str(i) / "best",
            DATA,
            trial,
            model.config,
            Expectation("erm", {"a": 0.5, "b": 0.7}, temperature=3.0),
        )
    assert dw.load(tmp_path / "0").card.temperature == 3
    assert dw.average_runs([tmp_path / "0", tmp_path / "1"]).card.temperature == 1


def test_runs_from_other_weights_or_data_are_refused(tmp_path: Path) -> None:
    trained(tmp_path / "0")
    trained(tmp_path / "1", seed=1)
    with pytest.raises(InputError, match="initial"):
        dw.average_runs([tmp_path / "0", tmp_path / "1"])
    with pytest.raises(InputError, match="other data"):
        dw.average_runs([tmp_path / "0"], stripes(size=40))
    with pytest.raises(InputError, match="named more than once"):
        dw.average_runs([tmp_path / "0", tmp_path / "0"])
    with pytest.raises(InputError, match="no models to average"):
        dw.average_runs([])


def test_measures_beside_accuracy_are_in_the_result(tmp_path: Path) -> None:
    result = trained(tmp_path)
    measures = result["selected"]["measures"]
    assert set(measures) == {"balanced_accuracy", "macro_f1", "calibration_error", "worst_domain", "worst_accuracy"}
    record = next(r for r in read(tmp_path / "records.jsonl") if r["step"] == result["selected"]["step"])
    assert (measures["worst_domain"], measures["worst_accuracy"]) == ("c", record["domains"]["c"]["main"]["accuracy"])


def test_a_saved_model_is_not_taken_for_another_one_of_its_trial(tmp_path: Path) -> None:
    dw.fit(stripes(), "erm", average="ema", steps=2, batch=4, output=tmp_path)
    for home, which in (("best", "ema"), ("best", "nonsense"), ("best-average", "best"), ("best-average", "ma")):
        with pytest.raises(dw.InputError, match=r"is itself .*, or give the folder of the trial"):
            dw.load(tmp_path / home, which=which)
    for home, which in (("best", "best"), ("best-average", "ema"), ("best-average", None)):
        assert dw.load(tmp_path / home, which=which).config.get("average") == (None if home == "best" else "ema")


def test_an_average_that_never_came_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(dw.InputError, match="ma had nothing to average yet after 2 updates"):
        dw.fit(stripes(), "erm", average="ma", steps=2, batch=4, output=tmp_path / "model")
    with pytest.warns(UserWarning, match="ma had nothing to average in .*: this is the model without it"):
        dw.load(tmp_path / "model")
    results = dw.compare(
        stripes(), "erm", targets="c", seeds=1, average="ma,ema", steps=2, batch=4, output=tmp_path / "results"
    )
    assert "ma had nothing to average yet in 1 of 1 trials." in " ".join(results.table().split())


def test_a_home_folder_is_the_same_to_all_that_write_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    dw.compare(DATA, "erm", targets="c", seeds=1, steps=1, output="~/results")
    dw.fit(DATA, "erm", steps=1, output="~/model")
    assert len(dw.Results.open("~/results").outcomes) == 1
    assert dw.load("~/model").classes == DATA.classes
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
