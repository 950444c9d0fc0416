"""What people share names files without the folders they lie in; this machine remembers where they are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from made_data import stripes

import domainwise as dw
from domainwise.networks.network import build
from domainwise.networks.weight_files import save_tensors

MINE = """
from domainwise.algorithms import Algorithm, algorithm
from torch import nn

@algorithm
class Mine(Algorithm):
    pass

def net():
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(4))
"""


def test_no_file_that_is_shared_says_in_which_folder_something_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOMAINWISE_CACHE", str(tmp_path / "cache"))
    secret, data = tmp_path / "home of somebody", stripes()
    secret.mkdir()
    (secret / "mine.py").write_text(MINE)
    save_tensors(build("small", data.shape, 2).featurizer.state_dict(), secret / "start.safetensors")
    asked = {"targets": "c", "seeds": 1, "steps": 2, "output": tmp_path / "out"}
    dw.compare(data, [f"{secret}/mine.py:Mine"], weights=secret / "start.safetensors", network="small", **asked)
    dw.fit(data, f"{secret}/mine.py:Mine", steps=2, output=tmp_path / "model")
    for file in [*(tmp_path / "out").rglob("*"), *(tmp_path / "model").rglob("*")]:
        assert file.is_dir() or secret.name.encode() not in file.read_bytes(), file
    assert dw.load(tmp_path / "model", trust_code=True).predict(data["a"].images[:2])
    results = dw.Results.open(tmp_path / "out", data=data)
    assert dw.fit(results, output=tmp_path / "again", trust_code=True).card.expected is not None

    shutil.rmtree(tmp_path / "cache")  # another machine
    with pytest.raises(dw.InputError, match="there is no such file: put back the one whose sha256 is"):
        dw.load(tmp_path / "model", trust_code=True)
    monkeypatch.chdir(secret)  # where the file lies beside whoever runs it
    assert dw.load(tmp_path / "model", trust_code=True).predict(data["a"].images[:2])
