"""The model to use: trained on all domains."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_data import image_folder, stripes

import domainwise as dw
from domainwise.experiment import records
from domainwise.experiment.settings import resolve
from domainwise.experiment.trial import Trial
from domainwise.files import clear_leftovers
from domainwise.training.fit import fitting

DATA = stripes("abc")
SHORT: dict[str, Any] = {"steps": 20, "evaluate_every": 5, "batch": 8}


def weights(model: dw.Model) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.algorithm.net.parameters()])


@pytest.mark.parametrize("algorithm", ["erm", "arith", "fish"])
def test_it_is_the_training_that_would_hold_out_a_domain_which_is_not_there(algorithm: str, tmp_path: Path) -> None:
    """The fourth domain of a comparison takes no part in its training."""
    model = dw.fit(DATA, algorithm, output=tmp_path / "model", **SHORT)
    compared = dw.compare(stripes("abcd"), algorithm, targets=["d"], seeds=1, output=tmp_path / "out", **SHORT)
    (other,) = compared.outcomes
    assert torch.equal(weights(model), weights(dw.load(other.folder)))
    ours = list(records.read(tmp_path / "model" / "records.jsonl"))
    assert [row["loss"] for row in ours] == [row["loss"] for row in other.records()]
    for mine, its in zip(ours, other.records(), strict=True):
        assert mine["domains"] == {name: its["domains"][name] for name in "abc"}


def test_the_model_knows_every_domain_and_is_found_again(tmp_path: Path) -> None:
    model = dw.fit(DATA, output=tmp_path, steps=60, batch=8)
    for domain in DATA:
        assert np.mean(model.probabilities(domain.images).argmax(1) == domain.labels) > 0.9
    assert torch.equal(weights(dw.load(tmp_path)), weights(model))
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["selected"]["target"], result["selected"]["targets"]) == (None, {})
    assert model.config["trial"]["targets"] == []


def test_the_same_call_again_trains_nothing(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    first = dw.fit(DATA, output=tmp_path, **SHORT)
    again = dw.fit(DATA, output=tmp_path, watch=lambda _, event: events.append(event), **SHORT)
    assert torch.equal(weights(first), weights(again))
    assert events == []


class Killed(BaseException):
    pass


def test_a_fit_that_was_stopped_goes_on(tmp_path: Path) -> None:
    whole = dw.fit(DATA, output=tmp_path / "whole", **SHORT)

    def watch(trial: Trial, event: dict[str, Any]) -> None:
        if event.get("step") == 11 and "validation" in event:
            raise Killed

    with pytest.raises(Killed):
        dw.fit(DATA, output=tmp_path / "half", watch=watch, **SHORT)
    assert not (tmp_path / "half" / "result.json").exists()
    again = dw.fit(DATA, output=tmp_path / "half", **SHORT)
    assert torch.equal(weights(again), weights(whole))


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ({"average": "none"}, "training that has not ended and can go on, with other average:"),
        ({"selection": "last"}, "with other selection:"),
        ({"steps": 21}, "with other steps:"),
        ({"algorithm": "fish"}, "with other algorithm"),
        ({"snapshots": 3}, "with 2 snapshots: ask for as many"),
        ({"snapshots": 0}, "with 2 snapshots: ask for as many"),
    ],
)
def test_what_was_stopped_is_not_lost_to_another_command(
    other: dict[str, Any], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("domainwise.training.checkpoints.AT_MOST", 0.0)
    monkeypatch.setattr("domainwise.training.checkpoints.SHARE", 0)
    same = {"algorithm": "erm", "average": "ema(decay=0.9)", "snapshots": 2, **SHORT}

    def watch(trial: Trial, event: dict[str, Any]) -> None:
        if event.get("step") == 11 and "validation" in event:
            raise Killed

    with pytest.raises(Killed):
        dw.fit(DATA, output=tmp_path, watch=watch, **same)
    with pytest.raises(dw.InputError, match=sentence):
        dw.fit(DATA, output=tmp_path, **{**same, **other})
    notes: list[str] = []
    dw.fit(DATA, output=tmp_path, watch=lambda _, event: notes.append(event.get("note", "")), **same)
    assert any(note.startswith("resumes at step") for note in notes)


def test_snapshots_that_a_model_was_trained_without_are_a_sentence(tmp_path: Path) -> None:
    before = weights(dw.fit(DATA, output=tmp_path, snapshots=2, **SHORT))
    assert torch.equal(weights(dw.fit(DATA, output=tmp_path, snapshots=2, **SHORT)), before)
    assert torch.equal(weights(dw.fit(DATA, output=tmp_path, **SHORT)), before)
    with pytest.raises(dw.InputError, match="trained without these snapshots"):
        dw.fit(DATA, output=tmp_path, snapshots=4, **SHORT)


def test_averaged_weights_are_the_model_where_they_are_asked_for(tmp_path: Path) -> None:
    model = dw.fit(DATA, "erm", average="ema(decay=0.9)", output=tmp_path, **SHORT)
    assert torch.equal(weights(model), weights(dw.load(tmp_path)))
    assert torch.equal(weights(model), weights(dw.load(tmp_path, which="ema")))
    assert not torch.equal(weights(model), weights(dw.load(tmp_path, which="best")))


def test_a_model_is_not_replaced_by_another(tmp_path: Path) -> None:
    before = weights(dw.fit(DATA, output=tmp_path, **SHORT))
    with pytest.raises(dw.InputError, match="holds another model, with other hyperparameters, steps"):
        dw.fit(DATA, output=tmp_path, **{**SHORT, "steps": 21}, set={"inner_lr": 0.5})
    with pytest.raises(dw.InputError, match="holds another model, with other fingerprint"):
        dw.fit(stripes("abcd"), output=tmp_path, **SHORT)
    assert torch.equal(weights(dw.load(tmp_path)), before)


def test_nor_by_one_that_is_chosen_or_averaged_in_another_way(tmp_path: Path) -> None:
    averaged = dw.fit(DATA, "erm", average="ema(decay=0.9)", output=tmp_path, **SHORT)
    with pytest.raises(dw.InputError, match="with other selection:"):
        dw.fit(DATA, "erm", selection="last", output=tmp_path, **SHORT)
    with pytest.raises(dw.InputError, match="with other average:"):
        dw.fit(DATA, "erm", average="ma", output=tmp_path, **SHORT)
    with pytest.raises(dw.InputError, match=r'holds this training with average="ema.*load this model by which="best"'):
        dw.fit(DATA, "erm", output=tmp_path, **SHORT)  # which load would not give
    assert torch.equal(weights(averaged), weights(dw.load(tmp_path)))


def test_of_several_averages_the_one_that_load_gives_is_the_one_to_ask_for(tmp_path: Path) -> None:
    averaged = dw.fit(DATA, "erm", average="ema(decay=0.9),ma(start=2)", output=tmp_path, **SHORT)
    assert torch.equal(weights(averaged), weights(dw.load(tmp_path)))
    again = dw.fit(DATA, "erm", average="ema(decay=0.9)", output=tmp_path, **SHORT)
    assert torch.equal(weights(again), weights(dw.load(tmp_path)))
    with pytest.raises(dw.InputError, match='load this model by which="ma'):
        dw.fit(DATA, "erm", average="ma(start=2)", output=tmp_path, **SHORT)
    assert torch.equal(weights(averaged), weights(dw.load(tmp_path)))


def test_two_at_once_cannot_replace_each_other(tmp_path: Path) -> None:
    """Both have looked at the folder while it was empty."""
    settings = resolve(given=SHORT)
    first, second = (fitting(DATA, name, settings=settings, output=tmp_path) for name in ("erm", "fish"))
    assert first.run()["status"] == "finished"
    with pytest.raises(dw.InputError, match=f"holds the model of another trial, {first.trial.id}"):
        second.run()
    assert dw.load(tmp_path).config["trial"]["algorithm"] == "erm"


def test_what_left_no_model_makes_room(tmp_path: Path) -> None:
    with pytest.raises(dw.InputError, match="has diverged"):
        dw.fit(DATA, "erm", output=tmp_path, set={"lr": 1e30}, **SHORT)
    model = dw.fit(DATA, "erm", output=tmp_path, **SHORT)
    assert torch.equal(weights(model), weights(dw.load(tmp_path)))
    assert len(list(records.read(tmp_path / "records.jsonl"))) == 5


def test_an_average_that_never_begins_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(dw.InputError, match=r"nothing to average yet after 20 updates; .* in .*best$"):
        dw.fit(DATA, "erm", average="swa(start=1000,every=1)", output=tmp_path, **SHORT)
    assert not (tmp_path / "best-average").exists()
    events: list[dict[str, Any]] = []
    for average in ("swa(start=1000,every=1)", "none"):  # nothing is trained again for either
        with suppress(dw.InputError):
            dw.fit(DATA, "erm", average=average, output=tmp_path, watch=lambda _, e: events.append(e), **SHORT)
    assert events == []
    with pytest.warns(UserWarning, match="had nothing to average in .*: this is the model without it"):
        dw.load(tmp_path)


@pytest.mark.parametrize("damage", ["", "{", "[1]", '{"a": 1}', '{"targets": [], "unheard": 1}'])
def test_a_trial_that_cannot_be_read_is_left_alone(damage: str, tmp_path: Path) -> None:
    dw.fit(DATA, output=tmp_path, **SHORT)
    (tmp_path / "trial.json").write_text(damage)
    with pytest.raises(dw.InputError, match="cannot read: use another"):
        dw.fit(DATA, output=tmp_path, **SHORT)


def test_a_trial_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    for name in ("trial.json", "records.jsonl"):
        (tmp_path / name).write_text('{"mine": 1}')
    with pytest.raises(dw.InputError, match="cannot read: use another"):
        dw.fit(DATA, output=tmp_path, **SHORT)
    assert {(tmp_path / name).read_text() for name in ("trial.json", "records.jsonl")} == {'{"mine": 1}'}


def test_a_folder_of_somebody_else_stays_as_it_is(tmp_path: Path) -> None:
    for name in (".gitignore", "notes.txt"):
        (tmp_path / name).write_text("mine")
    with pytest.raises(dw.InputError, match=r"files that are not from domainwise \(.gitignore, notes.txt\)"):
        dw.fit(DATA, output=tmp_path, **SHORT)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".gitignore", "notes.txt"]
    with pytest.raises(dw.InputError, match="is a file"):
        dw.fit(DATA, output=tmp_path / "notes.txt", **SHORT)
    dw.compare(DATA, "erm", targets="a", seeds=1, output=tmp_path / "out", **SHORT)
    for place in ("out", "out/trials/model"):
        with pytest.raises(dw.InputError, match="belongs to a comparison"):
            dw.fit(DATA, output=tmp_path / place, **SHORT)


def test_only_what_a_killed_process_was_writing_is_cleared(tmp_path: Path) -> None:
    kept = [".gitignore", ".lock", "best/.DS_Store", "best/model.safetensors"]
    left = [".trial.json.123.456", "best/.model.safetensors.123"]
    (tmp_path / "best").mkdir()
    for name in (*kept, *left):
        (tmp_path / name).write_text("")
    clear_leftovers(tmp_path)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == kept


def test_what_cannot_be_fitted_is_answered_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(dw.InputError, match="one algorithm, got 2: erm, arith"):
        dw.fit(DATA, "erm,arith", output=tmp_path, **SHORT)
    with pytest.raises(dw.InputError, match="looks at a target, and fit holds none out"):
        dw.fit(DATA, selection="oracle", output=tmp_path, **SHORT)
    with pytest.raises(dw.InputError, match="erm has diverged: "):
        dw.fit(DATA, "erm", output=tmp_path, set={"lr": 1e30}, **SHORT)


def test_the_threads_of_the_caller_stay(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    dw.fit(DATA, output=tmp_path, threads=before + 1, **{**SHORT, "steps": 2})
    assert torch.get_num_threads() == before


Command = Callable[..., tuple[int, str, str]]  # the command line, in an empty folder


def test_a_folder_of_images_becomes_a_model(domainwise: Command, tmp_path: Path) -> None:
    image_folder(tmp_path / "photos", ("art", "photo", "sketch"), count=12)
    words = ("fit", "--data", "photos", "--steps", 30, "--size", 16, "-o", "model")
    code, out, err = domainwise(*words)
    assert code == 0
    assert "arith on all 3 domains of photos, 30 updates" in err
    rows = {name: float(value) for name, value in map(str.split, out.splitlines()[1:5])}
    assert list(rows) == ["art", "photo", "sketch", "mean"]
    assert rows["mean"] == pytest.approx((rows["art"] + rows["photo"] + rows["sketch"]) / 3, abs=0.1)
    assert "domainwise.load('model').predict(images)" in out
    assert domainwise(*words)[1] == out
    told = domainwise("show", "model")[1]
    assert "arith on all domains, seed 0" in told
    assert "No domain was held out" in told
    assert domainwise("balance", "model", "--data", "photos", "--steps", 1)[0] == 0
    picture = ("-o", "surface.svg", "--points", 3, "--steps", 1)
    assert domainwise("surface", "model", "--data", "photos", *picture)[0] == 0
    assert (tmp_path / "surface.svg").is_file()


def test_without_a_folder_every_model_has_its_own(domainwise: Command, tmp_path: Path) -> None:
    for algorithm in ("erm", "arith"):
        domainwise("fit", "--data", "digits", "--steps", 2, "--algorithm", algorithm, "-q")
    domainwise("fit", "--data", "digits", "--steps", 2, "--average", "ema", "-q")
    assert [path.name[:4] for path in (tmp_path / "domainwise-runs").iterdir()] == ["fit-"] * 3


def test_bad_ends_are_told(domainwise: Command) -> None:
    code, _, err = domainwise("fit", "--data", "digits", "--steps", 5, "--set", "lr=1e30", "-o", "model")
    assert code == 1
    assert "arith has diverged: " in err
    assert domainwise("fit", "--data", "digits", "--steps", 5, "-o", "model")[0] == 0
    code, _, err = domainwise("fit", "--data", "digits", "--steps", 6, "-o", "model")
    assert code == 2
    assert "holds another model, with other steps" in err
    code, _, err = domainwise(
        "fit", "--data", "digits", "--steps", 5, "--average", "swa(start=9,every=1)", "-o", "other"
    )
    assert (code, "nothing to average yet after 5 updates" in err) == (2, True)


def test_with_averaged_weights_the_command_tells_of_those(domainwise: Command, tmp_path: Path) -> None:
    code, out, err = domainwise("fit", "--data", "digits", "--steps", 12, "--average", "swad", "-o", "model", "-q")
    result = json.loads((tmp_path / "model" / "result.json").read_text())
    mean = result["averages"]["swad"]["selected"]["validation"]
    assert f"mean    {100 * mean:5.1f}" in out
    assert "domainwise.load('model').predict" in out
    assert (code, err) == (0, "")
    assert f"of their own: validation {100 * mean:.1f} % at step" in " ".join(domainwise("show", "model")[1].split())
