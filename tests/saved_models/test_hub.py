"""A model that is shared on the hub is the same model anywhere, brings no code, and a hub in trouble is a sentence."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub import constants
from made_data import stripes
from made_hub import Hub, local_hub

import domainwise as dw
from domainwise import InputError
from domainwise.networks import pretrained

Command = Callable[..., tuple[int, str, str]]
QUICK = {"steps": 4, "evaluate_every": 2, "batch": 4}
IMAGES = stripes()["a"].images


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with local_hub(tmp_path / "cache", monkeypatch) as hub:
        yield hub


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> dw.Model:
    return dw.fit(stripes(), "erm", output=tmp_path_factory.mktemp("model"), **QUICK)


def test_a_shared_model_is_the_same_model_elsewhere(hub: Hub, model: dw.Model) -> None:
    address = model.push_to_hub("user/model", private=True)
    assert address == f"{constants.ENDPOINT}/user/model"
    assert hub.private == {"user/model": True}
    loaded = dw.load("hf:user/model")
    assert np.array_equal(loaded.probabilities(IMAGES), model.probabilities(IMAGES))
    assert loaded.card == model.card
    assert np.array_equal(loaded.card.made_from, model.card.made_from)


def test_a_revision_stays_as_it_is(hub: Hub, model: dw.Model, tmp_path: Path) -> None:
    model.push_to_hub("user/model")
    first = hub.revision("user/model")
    dw.fit(stripes(), "arith", output=tmp_path / "other", **QUICK).push_to_hub("user/model")
    assert dw.load("hf:user/model").config["trial"]["algorithm"] == "arith"
    assert hub.revision("user/model") != first
    with pytest.raises(InputError, match=r'user/model on the hub has no revision "gone"'):
        dw.load("hf:user/model@gone")


def test_only_the_files_of_a_model_travel(hub: Hub, model: dw.Model) -> None:
    assert model.folder is not None
    (model.folder / "mine.py").write_text("print('mine')")
    model.push_to_hub("user/model")
    assert sorted(hub.files["user/model"]) == sorted(
        ["README.md", "card.json", "config.json", "estimate.npz", "made_from.npy", "model.safetensors"]
    )
    hub.files["user/model"]["evil.py"] = b"raise SystemExit"
    folder = dw.load("hf:user/model").folder
    assert folder is not None
    assert not [*folder.rglob("*.py")]
    hub.files["user/model"]["featurizer.safetensors"] = b"of a model before"
    model.push_to_hub("user/model")
    assert "featurizer.safetensors" not in hub.files["user/model"]
    assert "evil.py" in hub.files["user/model"]  # which is not ours to remove


def test_the_card_on_the_hub_says_how_to_load_it(hub: Hub, model: dw.Model) -> None:
    model.push_to_hub("user/model")
    card = hub.files["user/model"]["README.md"].decode()
    assert card.startswith("---\nlibrary_name: domainwise\npipeline_tag: image-classification\n")
    assert "domainwise predict hf:user/model IMAGES" in card
    assert "THIS_FOLDER" not in card
    assert model.folder is not None
    kept = (model.folder / "README.md").read_text()
    (model.folder / "README.md").unlink()  # as of a trial, which was kept without one
    model.push_to_hub("user/model")
    (model.folder / "README.md").write_text(kept)
    assert "It says which of 2 classes an input belongs to: low, high." in hub.files["user/model"]["README.md"].decode()


def test_code_that_a_shared_model_names_is_not_run_unless_it_is_here_and_trusted(hub: Hub, tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text("from torch import nn\n\n\ndef build(channels, classes):\n    return nn.Flatten()\n")
    own = dw.fit(stripes(), "erm", network=f"{file}:build", output=tmp_path / "own", **QUICK)
    own.push_to_hub("user/own")
    assert not [name for name in hub.files["user/own"] if name.endswith(".py")]
    assert str(tmp_path).encode() not in b"".join(hub.files["user/own"].values())
    with pytest.raises(InputError, match=r"add --trust-code \(in Python: trust_code=True\)"):
        dw.load("hf:user/own")
    assert np.array_equal(dw.load("hf:user/own", trust_code=True).probabilities(IMAGES), own.probabilities(IMAGES))
    file.unlink()
    with pytest.raises(InputError, match="there is no such file: put back the one whose sha256 is"):
        dw.load("hf:user/own", trust_code=True)


def test_commands_take_a_model_of_the_hub_and_share_one(hub: Hub, model: dw.Model, domainwise: Command) -> None:
    assert model.folder is not None
    code, out, _ = domainwise("export", model.folder, "-o", "hf:user/model", "--private")
    assert (code, hub.private) == (0, {"user/model": True})
    assert "domainwise.load('hf:user/model')" in out
    code, out, _ = domainwise("export", "hf:user/model", "-o", "model.pt2")
    assert (code, Path("model.pt2").is_file()) == (0, True)
    code, _, said = domainwise("export", model.folder, "-o", "model.pt2", "--private")
    assert (code, "--private is for a model on the hub" in said) == (2, True)


def test_weights_that_lie_in_no_folder_are_not_taken_for_those_that_do(hub: Hub, tmp_path: Path) -> None:
    dw.fit(stripes(), "erm", output=tmp_path / "one", **QUICK)
    average = dw.average_runs([tmp_path / "one"])
    with pytest.raises(InputError, match="only a model that lies in a folder can be shared"):
        average.push_to_hub("user/model")
    loaded = dw.load(tmp_path / "one")
    with torch.no_grad():
        next(loaded.algorithm.net.parameters()).add_(1)
    with pytest.raises(InputError, match="no longer holds the weights that this model has"):
        loaded.push_to_hub("user/model")
    assert not hub.files


def test_without_a_hub_what_was_downloaded_is_used_and_said_to_be(
    hub: Hub, model: dw.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.push_to_hub("user/model")
    hub.files["user/model"]["other.txt"] = b"which is never fetched"
    dw.load("hf:user/model")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.warns(UserWarning, match="the user/model that was downloaded before"):
        loaded = dw.load("hf:user/model")
    assert np.array_equal(loaded.probabilities(IMAGES), model.probabilities(IMAGES))
    with pytest.raises(InputError, match="cannot be reached from here, and it was not downloaded before"):
        dw.load("hf:user/never")


def test_a_hub_in_trouble_is_a_sentence_within_seconds(
    hub: Hub, model: dw.Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="the hub has no user/model that you may see"):
        dw.load("hf:user/model")
    for wrong in ("hf:model", "hf:", "hf:a/b/c", "hf:../model"):
        with pytest.raises(InputError, match='is named as in "hf:user/model"'):
            dw.load(wrong)
    with pytest.raises(InputError, match="leave out @main"):
        model.push_to_hub("user/model@main")
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.setattr(pretrained, "_PATIENCE", 0.5)
    started = time.monotonic()
    with pytest.raises(InputError, match="user/model cannot be shared: the hub cannot be reached from here"):
        model.push_to_hub("user/model")
    with pytest.raises(InputError, match="the hub cannot be reached from here, and it was not downloaded before"):
        dw.load("hf:user/model")
    assert time.monotonic() - started < 30
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "none"))
    with pytest.raises(InputError, match="log in with hf auth login, or set HF_TOKEN"):
        model.push_to_hub("user/model")
