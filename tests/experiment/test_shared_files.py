"""What people share names files without the folders they lie in; this machine remembers where they are."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from made_data import image_folder, stripes

import domainwise as dw
from domainwise.networks.network import build
from domainwise.networks.weight_files import save_tensors

Command = Callable[..., tuple[int, str, str]]
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


def test_a_zipped_folder_of_results_says_the_same_elsewhere_without_its_data_and_its_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, domainwise: Command
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    photos = image_folder(here / "photos", ("day", "dusk", "night"), side=16)
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    monkeypatch.setenv("DOMAINWISE_CACHE", str(here / "cache"))
    asked = {"seeds": 2, "steps": 4, "batch": 4, "evaluate_every": 2, "network": "small"}
    before = dw.compare(str(photos), ["erm", "arith"], output=here / "results", report=False, **asked)
    table, sentence, power = before.table(), before.recommend().sentence, str(dw.power(before))
    said = {command: domainwise(command, here / "results") for command in ("show", "status")}
    shutil.make_archive(str(tmp_path / "results"), "zip", here, "results")

    image_folder(there / "my copy", ("day", "dusk", "night"), side=16)
    shutil.rmtree(here)
    shutil.unpack_archive(tmp_path / "results.zip", there)
    monkeypatch.setenv("XDG_CACHE_HOME", str(there / "cache"))
    monkeypatch.setenv("DOMAINWISE_CACHE", str(there / "cache"))
    for command, (_, out, _) in said.items():
        code, now, _ = domainwise(command, there / "results")
        assert (code, now.replace(str(there), str(here))) == (0, out)
    after = dw.Results.open(there / "results")
    assert after.table() == table
    assert after.recommend().sentence == sentence
    assert str(dw.power(after)) == power
    assert not dw.check(there / "results").damaged
    code, out, _ = domainwise("report", there / "results")
    assert (code, table in out, (there / "results" / "report.html").is_file()) == (0, True, True)
    code, _, told = domainwise("fit", "--from", there / "results", "-o", "model")
    assert (code, "are not in the cache of decoded images: name them with --data" in told) == (2, True)
    code, out, _ = domainwise("fit", "--from", there / "results", "--data", there / "my copy", "-o", "model")
    assert (code, "At a new site expect" in out) == (0, True)
