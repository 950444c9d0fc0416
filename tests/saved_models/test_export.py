"""An exported file computes what the model does, says how it is used, and is there only if both are so."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from made_data import image_folder, stripes
from test_docs import ROOT, blocks

import domainwise as dw
from domainwise import InputError
from domainwise.networks.network import build
from domainwise.saved_models import export as module
from domainwise.saved_models.card import Card, Expectation

Command = Callable[..., tuple[int, str, str]]
WARM = Card(Expectation("erm", {"a": 0.5, "b": 0.75}, temperature=2.5))
QUICK = {"steps": 4, "evaluate_every": 2, "batch": 4}
RANDOM = np.random.default_rng(3)


def opened(file: Path) -> tuple[Callable[[npt.NDArray[Any]], npt.NDArray[Any]], dict[str, Any]]:
    """A file as another program opens it: from an array to probabilities, and what the file says of itself."""
    if file.suffix == ".pt2":
        told = {"domainwise.json": ""}
        program = torch.export.load(BytesIO(file.read_bytes()), extra_files=told).module()
        return lambda x: program(torch.from_numpy(x)).detach().numpy(), json.loads(told["domainwise.json"])
    import onnxruntime

    session = onnxruntime.InferenceSession(file.read_bytes())
    about = json.loads(session.get_modelmeta().custom_metadata_map["domainwise.json"])
    return lambda x: session.run(["probabilities"], {about["input"]: x})[0], about


@pytest.fixture(scope="module")
def grey(tmp_path_factory: pytest.TempPathFactory) -> dw.Model:
    return dw.fit(stripes(), "erm", output=tmp_path_factory.mktemp("grey"), **QUICK)


@pytest.fixture(scope="module")
def colour(tmp_path_factory: pytest.TempPathFactory) -> dw.Model:
    """A head on frozen features of a network of its own mean and deviation."""
    weights = tmp_path_factory.mktemp("weights") / "weights.pt"
    torch.save(build("test_resnet", (32, 32, 3), 2).featurizer.state_dict(), weights)
    photos = dw.folders(image_folder(tmp_path_factory.mktemp("photos"), side=32), size=32)
    frozen = {"features": "frozen", "network": "test_resnet", "weights": str(weights), "input_size": 32}
    return dw.fit(photos, "erm", output=tmp_path_factory.mktemp("colour"), **frozen, **QUICK)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> dw.Model:
    rows = {name: (RANDOM.normal(shift, (1, 9, 1000), (30, 3)), np.arange(30) % 3) for shift, name in enumerate("ab")}
    return dw.fit(dw.domains(rows), "arith", output=tmp_path_factory.mktemp("table"), **QUICK)


@pytest.mark.parametrize(("of", "ending"), [("grey", ".pt2"), ("colour", ".onnx"), ("table", ".onnx")])
def test_an_exported_file_gives_the_models_probabilities_for_any_number_of_inputs(
    of: str, ending: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    model = replace(request.getfixturevalue(of), card=WARM)
    done = model.export(tmp_path / f"model{ending}")
    run, about = opened(done.file)
    size, channels = model.config["input_size"], model.config["channels"]
    for count in (1, 4):
        pixels = RANDOM.integers(0, 256, (count, size, size, channels)).astype(np.uint8)
        rows = RANDOM.normal(0, (1, 9, 1000), (count, 3)).astype(np.float32) if of == "table" else pixels
        assert about["shape"] == ["batch", *rows.shape[1:]]
        assert about["dtype"] == str(rows.dtype)
        assert np.abs(run(rows) - model.probabilities(rows)).max() < 1e-5
    assert (about["classes"], about["temperature"]) == ([*model.classes], 2.5)
    assert about["expectation"] == model.expectation
    assert done.difference < 1e-5
    assert done.size == done.file.stat().st_size


def test_the_docs_program_classifies_files_as_the_model_does_where_this_library_is_not(tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos", ("daylight", "night"), count=3, side=12)
    model = dw.fit(dw.folders(photos, size=8), "erm", output=tmp_path / "model", **QUICK)
    model.export(tmp_path / "model.onnx")
    (program,) = [block for block in blocks(ROOT / "docs" / "share.md", "python") if "onnxruntime" in block]
    assert len([line for line in program.splitlines() if line and "import" not in line]) <= 10
    without = "import sys\nsys.modules['domainwise'] = None\n"
    done = subprocess.run([sys.executable, "-c", without + program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    files = sorted(photos.glob("night/*/*.png"))
    for line, one in zip(done.stdout.splitlines(), model.predict_files(*files), strict=True):
        file, name, probability = line.split()
        assert (tmp_path / file, name) == (Path(one.file), one.class_name)
        assert float(probability) == pytest.approx(one.probability, abs=1e-4)


def test_the_command_says_where_the_file_is_and_how_far_it_is_from_the_model(
    domainwise: Command, grey: dw.Model, tmp_path: Path
) -> None:
    assert grey.folder is not None
    code, out, _ = domainwise("export", grey.folder, "-o", "new/model.pt2")
    assert code == 0
    assert out.startswith("new/model.pt2 (")
    assert "uint8 of shape (N, 8, 8, 1), grey" in out
    assert domainwise("export", grey.folder, "-o", "new/model.pt2", "-q")[:2] == (0, "")  # its own is replaced
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["model.pt2"]


def test_a_file_that_computes_something_else_is_not_kept(
    grey: dw.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(program: Any, about: Any) -> Any:
        content, run = module._pt2(program, about)
        return content, lambda x: run(x) + 0.01 * (len(x) == 5)

    monkeypatch.setitem(module.MAKERS, ".pt2", wrong)
    with pytest.raises(InputError, match=r"model\.pt2 was not written: .* by up to 1\.0e-02, which is more than 1e-04"):
        grey.export(tmp_path / "model.pt2")
    assert not [*tmp_path.iterdir()]


def test_nothing_that_was_not_exported_is_replaced(grey: dw.Model, tmp_path: Path) -> None:
    for name in ("a.onnx", "a.pt2"):
        (tmp_path / name).write_text("mine")
        with pytest.raises(InputError, match="holds something that was not made here"):
            grey.export(tmp_path / name)
        assert (tmp_path / name).read_text() == "mine"
    with pytest.raises(InputError, match=r'exported as \.onnx or \.pt2: let "model" end in one of these'):
        grey.export("model")


def test_without_its_packages_onnx_says_which_and_pt2_needs_none(
    grey: dw.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("onnx", "onnxruntime", "onnxscript"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=r"pip install 'domainwise\[onnx\]'"):
        grey.export(tmp_path / "model.onnx")
    assert grey.export(tmp_path / "model.pt2").file.is_file()


def test_an_algorithm_that_answers_for_a_whole_batch_is_not_exported(tmp_path: Path) -> None:
    model = dw.fit(stripes(), "arm", output=tmp_path / "arm", **QUICK)
    with pytest.raises(InputError, match="arm cannot be exported: it does not answer with its network alone"):
        model.export(tmp_path / "model.pt2")


NETWORK = """
from torch import nn


class Looks(nn.Module):
    def forward(self, x):
        return x.mean((2, 3)) if {condition} else x.amax((2, 3))


def build(channels, classes):
    return Looks()
"""


@pytest.mark.parametrize(("condition", "follows"), [("x.shape[1] == 1", True), ("x.sum() > 0", False)])
def test_a_trusted_network_is_exported_without_its_code_if_torch_can_follow_it(
    condition: str, follows: bool, tmp_path: Path, domainwise: Command
) -> None:
    (tmp_path / "net.py").write_text(NETWORK.format(condition=condition))
    dw.fit(stripes(), "erm", network=f"{tmp_path / 'net.py'}:build", output=tmp_path / "own", **QUICK)
    code, _, said = domainwise("export", tmp_path / "own", "-o", "model.pt2")
    assert code == 2
    assert "--trust-code" in said
    code, _, said = domainwise("export", tmp_path / "own", "-o", "model.pt2", "--trust-code")
    assert (code, (tmp_path / "model.pt2").is_file()) == ((0, True) if follows else (2, False)), said
    if not follows:
        assert "net.py:build cannot be written as .pt2: " in said
        assert "Traceback" not in said
