from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from made_damage import FIT_REPAIRED, INSIDE, LOOKING, OF_A_MODEL, WAYS, Campaign, files

BOARD = find_spec("tensorboard") is not None
FEW = ("status", "predict", "check")
SOME = (
    ("trials/{id}/result.json", "flipped"),
    ("trials/{id}/trial.json", "empty"),
    ("trials/{id}/records.jsonl", "cut"),
    ("trials/{id}/best/model.safetensors", "flipped"),
)
OF_FIT = (("trial.json", "gone"), ("records.jsonl", "cut"), ("best/card.json", "an empty object"))


def test_damage_costs_one_trial_is_said_and_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = Campaign({name: LOOKING[name] for name in FEW})
    wrong = [said for file, way in SOME for said in run.damage(file.format(id=run.id), way)]
    assert not wrong, "\n".join(wrong)


def test_a_damaged_model_of_fit_is_said_and_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = Campaign(OF_A_MODEL, {}, FIT_REPAIRED)
    wrong = [said for file, way in OF_FIT for said in run.damage(file, way)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_every_damage_to_every_file_of_a_model_of_fit_is_said_and_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = Campaign(OF_A_MODEL, {}, FIT_REPAIRED)
    named = sorted(path.relative_to("whole").as_posix() for path in Path("whole").rglob("*") if path.is_file())
    assert {"best/card.json", "best/made_from.npy", "outcomes.npz", "trial.json"} <= {*named}
    wrong = [said for file in named for way in WAYS for said in run.damage(file, way)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_every_damage_to_every_file_is_said_by_every_command_and_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = Campaign(LOOKING | {name: words for name, words in INSIDE.items() if name != "tensorboard" or BOARD})
    named = files(run.id)
    wrong = [said for file in named for way in WAYS for said in run.damage(file, way)]
    print(f"{len(named) * len(WAYS)} damages, {run.asked} commands, {len(wrong)} wrong")
    assert not wrong, "\n".join(wrong)
