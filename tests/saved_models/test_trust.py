"""No code that a folder names is run, unless whoever opens the folder says so and the file is what it was."""

from __future__ import annotations

import hashlib
import json
import os
import py_compile
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import domainwise as dw
from domainwise import InputError
from domainwise.data.sources.digits import digits
from domainwise.experiment.integrity import sealed
from domainwise.saved_models.build import Code

Command = Callable[..., tuple[int, str, str]]
RAN = "ran.txt"
CODE = """
from pathlib import Path

from torch import nn

from domainwise.algorithms import Algorithm, algorithm

with Path(__file__).with_name("ran.txt").open("a") as file:
    file.write("x")


def build(channels, classes):
    return nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten())


@algorithm
class Mine(Algorithm):
    pass
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of a network of its author's, my_net.py, and that file."""
    return _trained(tmp_path_factory.mktemp("network"), network="{file}:build")


@pytest.fixture(scope="module")
def algorithm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _trained(tmp_path_factory.mktemp("algorithm"), algorithm="{file}:Mine")


def _trained(folder: Path, algorithm: str = "erm", **given: str) -> Path:
    file = folder / "my_net.py"
    file.write_text(CODE)
    named = {name: text.format(file=file) for name, text in given.items()}
    dw.fit(digits(), algorithm.format(file=file), steps=2, batch=4, output=folder / "model", **named)
    return folder


@pytest.fixture
def place(network: Path, tmp_path: Path) -> Path:
    """A copy of it, nothing of which has run."""
    return _copied(network, tmp_path / "there")


def _copied(folder: Path, to: Path) -> Path:
    shutil.copytree(folder, to)
    (to / RAN).unlink(missing_ok=True)
    for module in [name for name in sys.modules if name.startswith("_domainwise_my_net")]:
        del sys.modules[module]  # so that the same text is run once more
    file = str(to / "my_net.py")
    _says(to, **{key: file for key in ("file", "network_file") if _config(to)["trial"][key]})
    return to


def _config(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place / "model" / "best" / "config.json").read_text())
    del found["checksum"]  # a folder that means harm would have its own
    return found


def _says(place: Path, **trial: object) -> None:
    """Change what its config.json says of the trial; the hashes are those of the file that lies there."""
    config = _config(place)
    sha256 = hashlib.sha256((place / "my_net.py").read_bytes()).hexdigest()
    config["trial"]["source" if "file" in trial else "network_source"] = sha256
    config["trial"] |= trial
    (place / "model" / "best" / "config.json").write_text(json.dumps(sealed(config)))


def _image(place: Path) -> Path:
    Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(place / "a.png")
    return place / "a.png"


def _named_without_a_folder(place: Path) -> None:
    _says(place, network="my_net.py:build", network_file="")


def _named_by_a_relative_path(place: Path) -> None:
    _says(place, network_file="my_net.py")


def _named_by_an_absolute_path(place: Path) -> None:
    _says(place, network_file=str(place / "my_net.py"))


def _named_upwards(place: Path) -> None:
    (place / "deep" / "er").mkdir(parents=True)
    os.chdir(place / "deep" / "er")
    _says(place, network_file="../../my_net.py")


def _named_through_a_link(place: Path) -> None:
    (place / "link.py").symlink_to("my_net.py")
    _says(place, network_file="link.py", network="link.py:build")


def _named_as_the_algorithm(place: Path) -> None:
    _says(place, network="small", network_file="", algorithm="my_net.py:Mine", file=str(place / "my_net.py"))


def _named_beside_an_algorithm_of_ours(place: Path) -> None:
    _says(place, network="small", network_file="", algorithm="erm", file="my_net.py")


def _named_with_no_ending_of_python(place: Path) -> None:
    shutil.copy(place / "my_net.py", place / "my_net.txt")
    _says(place, network_file="my_net.txt")


WAYS = [
    _named_without_a_folder,
    _named_by_a_relative_path,
    _named_by_an_absolute_path,
    _named_upwards,
    _named_through_a_link,
    _named_as_the_algorithm,
    _named_beside_an_algorithm_of_ours,
    _named_with_no_ending_of_python,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__.strip("_"))
@pytest.mark.parametrize("opening", ["load", "average_runs", "predict", "surface", "balance"])
def test_code_that_a_folder_names_runs_in_no_command(
    opening: str, way: Callable[[Path], None], place: Path, domainwise: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    way(place)
    model = place / "model"
    if opening in ("load", "average_runs"):
        with pytest.raises(InputError) as caught:
            dw.load(model) if opening == "load" else dw.average_runs([model])
        said = str(caught.value)
    else:
        rest = {
            "predict": [_image(place)],
            "surface": ["--data", "digits", "-o", "s.svg"],
            "balance": ["--data", "digits"],
        }
        code, out, said = domainwise(opening, model, *rest[opening])
        assert code == 2
        assert out == ""
    assert not (place / RAN).exists()
    config = _config(place)["trial"]
    assert config["source" if config["file"] else "network_source"] in said
    assert str(place) in said
    assert "--trust-code" in said
    assert "trust_code=True" in said


@pytest.mark.parametrize("what", ["network", "algorithm"])
def test_code_that_is_trusted_and_as_it_was_recorded_runs(
    what: str, request: pytest.FixtureRequest, tmp_path: Path, domainwise: Command
) -> None:
    place = _copied(request.getfixturevalue(what), tmp_path / "copy")
    assert len(dw.load(place / "model", trust_code=True).classes) == 10
    assert (place / RAN).read_text() == "x"
    dw.average_runs([place / "model"], trust_code=True)
    code, out, err = domainwise("predict", place / "model", _image(place), "--trust-code", "-q")
    assert (code, err) == (0, "")
    assert "a.png" in out
    few = ("--data", "digits", "--trust-code", "--steps", 1, "--images", 20, "-q")
    assert domainwise("surface", place / "model", *few, "--points", 3, "-o", "s.svg")[0] == 0
    assert domainwise("balance", place / "model", *few)[0] == 0


def test_code_that_has_changed_since_is_refused_though_it_is_trusted(place: Path, domainwise: Command) -> None:
    before = _config(place)["trial"]["network_source"]
    (place / "my_net.py").write_text(CODE + "# edited\n")
    now = hashlib.sha256((place / "my_net.py").read_bytes()).hexdigest()
    code, _, err = domainwise("predict", place / "model", _image(place), "--trust-code")
    assert code == 2
    assert not (place / RAN).exists()
    assert before in err
    assert now in err
    assert "has changed" in err
    with pytest.raises(InputError, match="has changed"):
        dw.load(place / "model", trust_code=True)


@pytest.mark.parametrize("recorded", ["", None, "?"])
def test_code_without_a_recorded_hash_is_refused_though_it_is_trusted(recorded: object, place: Path) -> None:
    _says(place, network_source=recorded)
    with pytest.raises(InputError, match=r"no hash|no model that this version"):
        dw.load(place / "model", trust_code=True)
    assert not (place / RAN).exists()


def test_code_that_is_not_there_is_a_sentence(place: Path) -> None:
    (place / "my_net.py").unlink()
    for trust in (False, True):
        with pytest.raises(InputError, match=r"my_net\.py"):
            dw.load(place / "model", trust_code=trust)


def test_only_the_text_whose_hash_is_recorded_is_run_and_no_compiled_file_beside_it(place: Path) -> None:
    file = place / "my_net.py"
    good, about = file.read_bytes(), file.stat()
    file.write_text("from pathlib import Path\nPath(__file__).with_name('evil').touch()\n")
    py_compile.compile(str(file), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    file.write_bytes(good)
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))
    dw.load(place / "model", trust_code=True)
    assert not (place / "evil").exists()
    assert (place / RAN).read_text() == "x"


@pytest.mark.parametrize("what", ["network", "algorithm"])
def test_a_file_that_changes_after_it_was_looked_at_is_not_run(
    what: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = _copied(request.getfixturevalue(what), tmp_path / "copy")

    def looked_at(code: Code) -> str:
        code.file.write_text("from pathlib import Path\nPath(__file__).with_name('evil').touch()\n")
        return ""

    monkeypatch.setattr(Code, "problem", looked_at)
    with pytest.raises(InputError, match="has changed"):
        dw.load(place / "model", trust_code=True)
    assert not (place / "evil").exists()


def test_a_fit_trusts_the_files_of_its_own_call_and_not_those_that_its_folder_names(
    place: Path, tmp_path: Path
) -> None:
    own, theirs = tmp_path / "my_net.py", place / "my_net.py"
    shutil.copy(theirs, own)
    common: dict[str, Any] = {"steps": 2, "batch": 4, "network": f"{own}:build", "output": place / "model"}
    again = dw.fit(digits(), "erm", **common)  # the same text elsewhere: that of the call is run
    assert again.algorithm.net.featurizer is not None
    theirs.write_text("raise SystemError")
    dw.fit(digits(), "erm", **common)
    _says(place, algorithm="my_net.py:Mine", file=str(theirs))
    with pytest.raises(InputError, match="--trust-code"):
        dw.fit(digits(), "erm", **common)


def test_a_module_that_lies_beside_a_file_is_found_where_pythonpath_says(tmp_path: Path) -> None:
    (tmp_path / "helper_of_mine.py").touch()
    (tmp_path / "net.py").write_text("import helper_of_mine")
    with pytest.raises(InputError, match=f'PYTHONPATH="{tmp_path}" makes it one'):
        dw.fit(digits(), "erm", steps=2, network=f"{tmp_path / 'net.py'}:build", output=tmp_path / "m")


def test_a_trial_runs_the_text_that_is_in_its_id(tmp_path: Path) -> None:
    from domainwise.algorithms import parse
    from domainwise.experiment.settings import resolve
    from domainwise.training.plan import plan
    from domainwise.training.run_trial import execute

    file = tmp_path / "my_net.py"
    file.write_text(CODE)
    settings = resolve(benchmark="digits", device="cpu", given={"steps": 2, "batch": 4, "network": f"{file}:build"})
    (trial,) = plan(digits(), parse("erm"), [("0",)], [0], settings)
    file.write_text("raise SystemError")
    result = execute(trial, digits(), tmp_path / "trial")
    assert result["status"] == "failed"
    assert "my_net.py has changed" in result["message"]
