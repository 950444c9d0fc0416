"""What a comparison recommends is trained on all domains, and its model says what to expect of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from made_data import image_folder, stripes

import domainwise as dw
from domainwise import InputError
from domainwise.errors import Note
from domainwise.experiment.trial import Trial
from domainwise.networks.network import build
from domainwise.networks.weight_files import save_tensors
from domainwise.report.expectation import expectation
from domainwise.report.results import Results

DATA = stripes("abc")
SHORT: dict[str, Any] = {"steps": 12, "evaluate_every": 4, "batch": 8}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("results") / "out"
    return dw.compare(DATA, "erm,arith(inner_lr=0.03)", seeds=1, average="ema(decay=0.5)", output=folder, **SHORT)


def weights(model: dw.Model) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.algorithm.net.parameters()])


def test_it_is_the_training_of_the_recommended_settings_on_all_domains(results: Results, tmp_path: Path) -> None:
    row = results.recommend()
    model = dw.fit(results, output=tmp_path / "model")
    average, named = row.average or "none", row.trial.label
    plain = dw.fit(DATA, named, average=average, output=tmp_path / "plain", **SHORT)
    assert torch.equal(weights(model), weights(plain))
    assert model.card.expected == expectation(results, row)
    assert plain.card.expected is None
    assert model.config["trial"]["id"] == plain.config["trial"]["id"]
    assert (model.config["trial"]["targets"], model.config["trial"]["fingerprint"]) == ([], DATA.fingerprint)
    again = dw.fit(Results.open(results.folder, data=DATA), output=tmp_path / "model")
    assert torch.equal(weights(again), weights(model))
    assert dw.load(tmp_path / "model").expectation == model.expectation
    assert model.expectation.startswith("At a new site expect ")


def test_an_average_that_is_recommended_is_the_model(results: Results, tmp_path: Path) -> None:
    averaged = tuple(one for one in results.outcomes if one.averaged)
    model = dw.fit(replace(results, outcomes=averaged), output=tmp_path)
    assert model.config["average"] == "ema(decay=0.5)"
    assert model.card.expected is not None
    assert dw.load(tmp_path, which="best").card.expected is None  # which was not what was compared


class Killed(BaseException):
    pass


def test_one_that_was_killed_goes_on_to_the_same_model(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("domainwise.training.checkpoints.AT_MOST", 0.0)
    monkeypatch.setattr("domainwise.training.checkpoints.SHARE", 0)
    whole = dw.fit(results, output=tmp_path / "whole")
    notes: list[str] = []

    def kill(trial: Trial, event: dict[str, Any]) -> None:
        if event.get("step") == 9 and "validation" in event:
            raise Killed

    with pytest.raises(Killed):
        dw.fit(results, output=tmp_path / "half", watch=kill)
    again = dw.fit(results, output=tmp_path / "half", watch=lambda _, event: notes.append(event.get("note", "")))
    assert any(note.startswith("resumes at step") for note in notes)
    assert torch.equal(weights(again), weights(whole))
    assert again.card.expected == whole.card.expected
    for name in ("card.json", "made_from.npy", "README.md"):
        home = f"best{'-average' * bool(whole.config.get('average'))}"
        assert (tmp_path / "half" / home / name).read_bytes() == (tmp_path / "whole" / home / name).read_bytes()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"steps": 5}, r"trained as it was compared, .*: leave out steps, or give data"),
        ({"algorithm": "erm", "average": "ma"}, "leave out algorithm, average"),
        ({"algorithm": "arith"}, "leave out algorithm, or"),
        ({"set": {"inner_lr": 0.1}}, "leave out inner_lr"),
        ({"weights": "w.pt"}, r"started from no file \(weights=none\)"),
        ({"seed": -1}, "a seed is a whole number from 0 up to 1,000,000,000, got -1"),
    ],
)
def test_what_the_comparison_has_said_cannot_be_said_again(
    results: Results, given: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=sentence):
        dw.fit(results, output=tmp_path, **given)
    assert not [*tmp_path.iterdir()]


def test_trials_that_were_asked_for_and_have_no_result_are_told_of(results: Results, tmp_path: Path) -> None:
    fewer = replace(results, outcomes=tuple(one for one in results.outcomes if one.trial.targets != ("a",)))
    with pytest.warns(Note, match=r"2 of 6 trials that were asked for in .*out have no result yet"):
        model = dw.fit(fewer, output=tmp_path)
    assert model.card.expected is not None
    assert set(model.card.expected.sites) == {"b", "c"}


def test_other_data_are_a_sentence_and_so_are_none(results: Results, tmp_path: Path) -> None:
    for data, sentence in {
        None: r"the data of .*out \(stripes\) are not in the cache of decoded images: name them with --data",
        stripes("abd"): "of other data than stripes is now, by its fingerprint",
        replace(stripes("abc", side=16), fingerprint=DATA.fingerprint): "with sides of 16, .* open them with size=8",
    }.items():
        with pytest.raises(InputError, match=sentence):
            dw.fit(Results.open(results.folder, data=data), output=tmp_path / "model")
    with pytest.raises(InputError, match="belongs to a comparison: give the model a folder of its own"):
        dw.fit(results, output=results.folder)


def test_what_is_no_data_is_refused_when_results_are_opened(results: Results) -> None:
    with pytest.raises(InputError, match="data must be domains"):
        Results.open(results.folder, data="digits")  # type: ignore[arg-type]


def test_results_of_a_table_are_fitted_in_python_alone(domainwise: Command, tmp_path: Path) -> None:
    x, y = torch.randn(12, 3).numpy(), [0, 1] * 6
    dw.compare(dw.domains({"a": (x, y), "b": (-x, y)}), "erm", seeds=1, steps=1, output=tmp_path / "out")
    code, _, said = domainwise("fit", "--from", tmp_path / "out", "--data", "digits", "-o", tmp_path / "model")
    assert code == 2
    assert "(arrays), which --data cannot name: in Python, dw.fit(Results.open(" in said


def test_the_weights_that_the_comparison_started_from_are_those_again(tmp_path: Path) -> None:
    data = stripes("ab", side=16)
    file, other, moved = (tmp_path / f"{name}.safetensors" for name in ("start", "other", "moved"))
    for place in (file, other):
        save_tensors(build("small", data.shape, 2).featurizer.state_dict(), place)
    results = dw.compare(data, "erm", seeds=1, weights=file, output=tmp_path / "out", **SHORT)
    before = weights(dw.fit(results, output=tmp_path / "model"))
    file.rename(moved)
    with pytest.raises(InputError, match=r"are not in .*start.safetensors any more: name it with --weights"):
        dw.fit(results, output=tmp_path / "again")
    with pytest.raises(InputError, match=r"other.safetensors are not those that these networks started from"):
        dw.fit(results, weights=other, output=tmp_path / "again")
    assert torch.equal(weights(dw.fit(results, weights=moved, output=tmp_path / "again")), before)


def test_an_algorithm_of_ones_own_is_run_only_where_it_is_trusted(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from domainwise.algorithms import Algorithm, algorithm\n@algorithm\nclass Mine(Algorithm): pass\n")
    dw.compare(stripes("ab"), f"{file}:Mine", seeds=1, output=tmp_path / "out", **SHORT)
    results = Results.open(tmp_path / "out", data=stripes("ab"))
    with pytest.raises(InputError, match=r"algorithm, mine.py:Mine, .* add --trust-code"):
        dw.fit(results, output=tmp_path / "model")
    assert dw.fit(results, output=tmp_path / "model", trust_code=True).card.expected is not None
    file.write_text(file.read_text() + "# changed\n")
    with pytest.raises(InputError, match="has changed since"):
        dw.fit(results, output=tmp_path / "other", trust_code=True)


Command = Callable[..., tuple[int, str, str]]


def test_from_a_comparison_to_predictions_on_the_command_line(domainwise: Command, tmp_path: Path) -> None:
    image_folder(tmp_path / "photos", ("art", "photo", "sketch"), count=8)
    image_folder(tmp_path / "others", ("art", "photo", "sketch"), count=9)
    options = ("--seeds", 1, "--steps", 8, "--size", 16, "--processes", 1, "-q", "-o", "results")
    assert domainwise("compare", "--data", "photos", "--algorithms", "erm,arith", *options)[0] == 0
    code, _, said = domainwise("fit", "--from", "results", "--cache", "empty", "-o", "model")
    assert (code, "name them with --data" in said) == (2, True)
    code, _, said = domainwise("fit", "--from", "results", "--data", "others", "-o", "model")
    assert (code, "of other data than others is now" in said) == (2, True)
    code, _, said = domainwise(
        "fit", "--from", "results", "--data", "photos", "--steps", 9, "--set", "lr=1", "-o", "model"
    )
    assert (code, "leave out steps, lr, or give data" in said) == (2, True)
    assert not (tmp_path / "model").exists()
    code, out, said = domainwise("fit", "--from", "results", "--data", "photos", "-o", "model")
    row, model = Results.open(tmp_path / "results").recommend(), dw.load(tmp_path / "model")
    assert code == 0
    assert row.sentence in said
    assert model.expectation in out
    assert "card: model/best/README.md" in out
    assert domainwise("fit", "--from", "results", "-o", "again", "-q")[0] == 0  # the images are in the cache
    assert torch.equal(weights(dw.load(tmp_path / "again")), weights(model))
    assert model.expectation in " ".join(domainwise("show", "model")[1].split())
    code, out, said = domainwise("predict", "model", "photos/art")
    assert (code, model.expectation in said) == (0, True)
    assert "the model was made from 16 of these 16 images" in said
    assert "no data: give" in domainwise("fit", "-o", "model")[2]


def test_embedded_data_need_no_name(domainwise: Command) -> None:
    options = ("--data", "digits", "--targets", "0,15", "--seeds", 1, "--steps", 2, "--processes", 1)
    domainwise("compare", "--algorithms", "erm", *options, "-q", "-o", "results")
    assert "At a new site expect" in domainwise("fit", "--from", "results", "-o", "model", "-q")[1]
