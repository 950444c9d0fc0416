from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from made_damage import INSIDE, LOOKING, WAYS, Campaign, files

BOARD = find_spec("tensorboard") is not None
FEW = ("status", "predict", "check")
SOME = (
    ("trials/{id}/result.json", "flipped"),
    ("trials/{id}/trial.json", "empty"),
    ("trials/{id}/records.jsonl", "cut"),
    ("trials/{id}/best/model.safetensors", "flipped"),
)


def test_damage_costs_one_trial_is_said_and_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = Campaign({name: LOOKING[name] for name in FEW})
    wrong = [said for file, way in SOME for said in run.damage(file.format(id=run.id), way)]
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
