"""What cannot be meant is refused with a sentence before anything starts, from Python and on the command line alike."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import domainwise as dw
from domainwise import InputError
from domainwise.algorithms import create
from domainwise.api import prepare
from domainwise.experiment.settings import resolve
from domainwise.training.targets import seeds_of

SHORT = ["--data", "digits", "--targets", "75", "--seeds", 1, "--dry-run"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--set", "holdout=nan"], "holdout must be between 0 and 1, got 'nan'"),
        (["--set", "dropout=nan"], "dropout must be a number from 0 up, below 1"),
        (["--set", "lr=None"], "lr must be a number above 0, got None"),
        (["--set", "lr=1e999"], "lr must be a number above 0, got inf"),
        (["--set", "balanced=maybe"], "balanced must be True or False, got 'maybe'"),
        (["--set", "freeze_batch_norm=7"], "freeze_batch_norm must be True or False, got 7"),
        (["--set", "weights="], "weights must be a name or a file, got ''"),
        (["--steps", 10**12], "steps must be a whole number from 1 up to 1,000,000,000"),
        (["--size", 10**6], "input_size must be a whole number from 1 up to 16,384"),
        (["--timeout", "inf"], "timeout is in seconds"),
        (["--timeout", "1e9"], "timeout is in seconds"),
        (["--threads", 10**6], "threads must be a whole number from 1 up to"),
        (["--processes", 10**6], "processes must be a whole number from 1 up to"),
        (["--snapshots", 10**6], "from 0 to the 300 updates, got 1000000"),
        (["--network", "missing.py:f"], "there is no file "),
        (["--network", "resnet5O"], 'there is no network "resnet5O": did you mean'),
        (["--weights", "pretrained"], "there are no pretrained weights for small"),
        (["--device", "cpu:3"], "a CPU is one however many cores"),
        (["--device", "gpu"], '"gpu" is not a device'),
        (["--seeds", 10**9], "seeds says how many, so 1 to"),
        (["--seeds", "0-9999", "--targets", "pairs"], "trials, and the most are 100,000"),
        (["--targets", "75,75"], "target 75 is named more than once"),
        (["--targets", "75+75"], "domain 75 is named more than once"),
        (["--targets", ""], 'is not a domain of digits'),
    ],
)  # fmt: skip
def test_a_comparison_is_refused(domainwise, options: list[Any], sentence: str) -> None:
    code, out, said = domainwise("compare", "--algorithms", "erm", *SHORT, *options)
    assert (code, out) == (2, "")
    assert said.startswith("domainwise: ")
    assert sentence in said


def test_what_is_named_twice_is_refused(domainwise) -> None:
    for named in ("erm,erm", "all,all", "all,erm", "erm, ERM"):
        assert "is named more than once" in domainwise("compare", "--algorithms", named, *SHORT)[2]
    assert domainwise("compare", "--algorithms", "arith,arith(inner_steps=2)", *SHORT)[0] == 0


@pytest.mark.parametrize(
    "options",
    [
        ["--set", "lr=1e-3", "--set", "lr=1e-4"],
        ["--steps", 3, "--set", "steps=4"],
        ["--size", 8, "--set", "input_size=9"],
    ],
)
def test_a_setting_with_two_values_is_refused(domainwise, options: list[Any]) -> None:
    assert "is given twice, as " in domainwise("compare", "--algorithms", "erm", *SHORT, *options)[2]


def test_a_setting_with_two_values_is_refused_in_python_and_beside_an_algorithm(tmp_path: Path) -> None:
    for function in (dw.compare, dw.fit):
        with pytest.raises(InputError, match="steps is given twice, as 3 and as 4"):
            function(dw.digits(), "erm", steps=3, set={"steps": 4}, output=tmp_path)
    with pytest.raises(InputError, match="lr is given twice"):
        prepare(dw.digits(), "erm(lr=1e-3, lr=1e-4)")


@pytest.mark.parametrize("spec", ["arith(inner='adam', inner_lr=0)", "fish(outer='interpolate', inner_lr=0)"])
def test_a_walk_that_cannot_move_as_it_is_asked_to_is_refused_before_anything_starts(domainwise, spec: str) -> None:
    code, out, said = domainwise("compare", "--algorithms", spec, *SHORT)
    assert (code, out) == (2, "")
    assert "inner_lr" in said


@pytest.mark.parametrize("name", [None, 3, b"erm", ["erm"]])
def test_an_algorithm_is_named_by_a_text(name: object) -> None:
    with pytest.raises(InputError, match="name must be a text, got"):
        create(name)  # type: ignore[arg-type]


def test_masked_arrays_are_refused_where_something_is_masked() -> None:
    x, y = np.zeros((4, 8, 8, 1), np.uint8), np.arange(4) % 2
    assert len(dw.domains({"a": (np.ma.array(x), y), "b": (x, y)})) == 2
    for given in ((np.ma.array(x, mask=x == 0), y), (x, np.ma.array(y, mask=y == 1))):
        with pytest.raises(InputError, match='of domain "a" are partly masked'):
            dw.domains({"a": given, "b": (x, y)})


def test_run_is_of_one_algorithm(domainwise) -> None:
    for named in ("all", "erm,arith"):
        code, out, said = domainwise("run", "--data", "digits", "--algorithm", named, "--target", "75", "--dry-run")
        assert (code, out) == (2, "")
        assert "run is of one algorithm" in said


@pytest.mark.parametrize(
    ("options", "sentence"),
    [(["--benchmark", "pasc"], "did you mean pacs"), (["--set", "nope=3"], 'is called "nope"')],
)
def test_a_preset_is_shown_with_nothing_that_is_not_known(domainwise, options: list[str], sentence: str) -> None:
    code, out, said = domainwise("presets", "show", "quick", *options)
    assert (code, out) == (2, "")
    assert sentence in said
    assert domainwise("presets", "show", "quick", "--set", "inner_lr=0.02")[0] == 0


def test_an_address_without_a_cluster_is_refused(domainwise) -> None:
    code, _, said = domainwise("sweep", "--algorithms", "erm", *SHORT, "--address", "127.0.0.1:6379")
    assert code == 2
    assert said.endswith("the address is of a Ray cluster: ask for the engine ray too, or leave it out\n")


def test_nothing_is_written_below_a_file(domainwise, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    for output in ("file", "file/below", "file/below/it", 300 * "x"):
        assert domainwise("compare", "--algorithms", "erm", *SHORT, "-o", output)[0] == 2
        assert domainwise("fit", "--data", "digits", "-o", output)[0] == 2
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"network": "resnet5O"}, 'there is no network "resnet5O"'),
        ({"device": "cuda:99"}, '"cuda:99" is not here'),
        ({"device": "gpu"}, '"gpu" is not a device'),
        ({"device": 0}, "device must be a text, got 0"),
        ({"threads": 10**6}, "threads must be a whole number"),
        ({"threads": 0}, "threads must be a whole number"),
        ({"seed": 1.5}, "a whole number, got .*1.5"),
        ({"seed": -1}, "whole numbers? from 0 up"),
        ({"snapshots": 21}, "from 0 to the 20 updates"),
        ({"lr": None}, "lr must be a number above 0"),
        ({"balanced": 1}, "balanced must be True or False"),
    ],
)
def test_python_hears_the_same_sentences(tmp_path: Path, given: dict[str, Any], sentence: str) -> None:
    digits = dw.digits()
    with pytest.raises(InputError, match=sentence):
        dw.fit(digits, "erm", output=tmp_path / "fit", **{"steps": 20, **given})
    if "seed" in given:
        given = {"seeds": [given["seed"]]}
    with pytest.raises(InputError, match=sentence):
        dw.compare(digits, "erm", output=tmp_path / "compare", **{"steps": 20, **given})
    with pytest.raises(InputError, match="processes must be a whole number from 1"):
        dw.compare(digits, "erm", output=tmp_path / "compare", steps=20, processes=0)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> dw.Model:
    return dw.fit(dw.digits(), "erm", steps=2, output=tmp_path_factory.mktemp("model"))


PIXELS = np.zeros((3, 16, 16, 1), np.uint8)


@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        ("a.jpg", "those in files go to predict_files"),
        (["a.jpg", "b.jpg"], "those in files go to predict_files"),
        ([PIXELS[0], PIXELS[0, :8]], "the images differ in shape"),
        (PIXELS[:, :0], r"must be uint8, .* of shape \(N, H, W, 1\), got uint8 of \(3, 0, 16, 1\)"),
        (PIXELS - 1.0, "images of floats go from 0 to 1"),
        (None, "must be uint8"),
        (torch.zeros(3, 16, 16, 1, requires_grad=True), "the images are not an array"),
    ],
)
def test_a_model_is_given_images(model: dw.Model, images: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        model.predict(images)


def test_a_model_takes_images_in_any_direction_and_none_at_all(model: dw.Model) -> None:
    pixels = dw.digits()["0"].images[:5]
    assert model.predict(pixels[:, ::-1]) == model.predict(pixels[:, ::-1].copy())
    assert model.predict(pixels[:0]) == []


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: dw.compare("photos", "erm"), '"photos" is neither a file nor a folder nor embedded data'),
        (lambda: dw.compare(3, "erm"), r"data must be domains, such as dw.open_data\(DIR\).* or a text .* got 3"),
        (lambda: dw.fit(None), "data must be domains"),
        (lambda: dw.compare(dw.digits(), 3), "algorithms must be a text or a class or algorithm or a list of them"),
        (lambda: dw.compare(dw.digits(), "erm", threads="2"), "threads must be a whole number or None, got '2'"),
        (lambda: dw.compare(dw.digits(), "erm", set="lr=1"), "set must be a dictionary or None"),
        (lambda: dw.compare(dw.digits(), "erm", keep="some"), 'keep must be "best" or "none" or "all"'),
        (lambda: dw.compare(dw.digits(), "erm", output="a\0b"), "output holds a NUL character, which no name can have"),
        (lambda: dw.load(3), "folder must be a path or a text, got 3"),
        (lambda: dw.load("model", device="cuda:99"), '"cuda:99" is not here'),
        (lambda: dw.folders(None), "path must be a text or a path, got None"),
        (lambda: dw.average_runs("model"), "folders must be a list of them"),
        (lambda: dw.follow(3), "folder must be a path or a text"),
        (lambda: dw.Results.open(3), "folder must be a path or a text"),
    ],
)
def test_arguments_of_another_type_are_a_sentence(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call()


def test_files_are_given_one_by_one(model: dw.Model) -> None:
    with pytest.raises(InputError, match=r"model.predict_files\(\*files\)"):
        list(model.predict_files(["a.jpg", "b.jpg"]))
    with pytest.raises(InputError, match="a file must be a text or a path, got 3"):
        list(model.predict_files(3))


def test_output_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no disk here that is always full")
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "domainwise", "presets", "list"]
        end = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path)
    assert (end.returncode, end.stderr.count("\n")) == (1, 1)
    assert end.stderr.startswith("domainwise: cannot read or write the output: No space left on device")


@pytest.mark.parametrize(
    ("algorithms", "more", "sentence"),
    [
        ("mldg(held_out=2)", {}, 'mldg(held_out=2): held_out has no effect with pairs="cyclic", which pairs every'),
        ("mldg", {"set": {"held_out": 2}}, "mldg: held_out has no effect"),
        ("mldg(pairs='halves', held_out=2)", {}, 'held_out has no effect with pairs="halves"'),
        ("erm,arith(outer='interpolate',lr=0.1)", {}, 'lr has no effect with outer="interpolate", which goes by'),
        ("fish(outer='interpolate')", {"lr": 0.1}, "lr has no effect"),
    ],
)
def test_what_another_setting_leaves_without_effect_is_refused_where_it_is_given(
    algorithms: str, more: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError) as error:
        prepare(dw.digits(), algorithms, settings=resolve(given={**more.pop("set", {}), **more}))
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("algorithms", "given"),
    [
        ("mldg(held_out=2, pairs='split')", {}),
        ("mldg,erm", {"lr": 0.1}),
        ("erm,arith(outer='interpolate')", {"lr": 0.1}),  # erm goes by it
        ("fish(outer='interpolate', inner='adam', lr=0.1)", {}),  # the step of its walk
        ("mldg", {"pairs": "split", "held_out": 2}),
    ],
)
def test_what_has_an_effect_somewhere_is_taken(algorithms: str, given: dict[str, Any]) -> None:
    assert prepare(dw.digits(), algorithms, settings=resolve(given=given)).trials
    assert prepare(dw.digits(), "mldg", settings=resolve(), draws=3).trials  # of which some draw held_out=2


def test_seeds_that_are_named_twice_are_refused() -> None:
    for seeds in ("0,0", "1-3,2", [4, 5, 4]):
        with pytest.raises(InputError, match=r"seed \d is named more than once"):
            seeds_of(seeds)
