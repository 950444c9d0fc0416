"""The network that suits the data and the machine is chosen once, and what follows from it is seen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from made_folders import draw
from made_weights import cached, offline_hub

import domainwise as dw
from domainwise import InputError
from domainwise.api import prepare
from domainwise.averaging import canonical
from domainwise.data.sources.open import find_source
from domainwise.errors import Note
from domainwise.experiment import integrity
from domainwise.experiment.settings import resolve
from domainwise.networks import pretrained
from domainwise.training.suited_settings import automatic, averages_for, suited

CACHE = "resnet18.tv_in1k"
TINY = "test_resnet.r160_in1k"  # one to train in a moment


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return offline_hub(tmp_path / "hub", monkeypatch)


@pytest.fixture
def tiny(hub: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, where a tiny network is the one to begin with."""
    monkeypatch.setattr(pretrained, "_TO_BEGIN_WITH", {"cpu": (TINY,), "cuda": (TINY,)})
    return hub


def photographs(side: int = 224) -> dw.Domains:
    random = np.random.default_rng(0)
    arrays = {name: (random.integers(0, 255, (10, side, side, 3), np.uint8), [0, 1] * 5) for name in "ab"}
    return dw.domains(arrays, name="photographs")


def test_weights_at_hand_are_taken_with_settings_that_suit_them_and_the_machine(hub: Path) -> None:
    cached(hub, CACHE)
    cached(hub, "resnet50.tv_in1k")
    for device, network, batch in (("cpu", "resnet18", 8), ("cuda", "resnet50", 32)):
        found = automatic(resolve(device=device), photographs(), device=device)
        assert (found.network, found.weights, found.batch) == (network, "pretrained", batch)
        assert (found.input_size, found.lr, found.freeze_batch_norm) == (224, 5e-5, True)
        assert (
            found.origins["network"]
            == found.origins["steps"]
            == f"auto, weights in the cache, on a {'CPU' if device == 'cpu' else 'GPU'}"
        )
    own = automatic(resolve(device="cpu", given={"steps": 40, "lr": 1e-3}), photographs())
    assert (own.network, own.steps, own.evaluate_every, own.lr, own.origins["lr"]) == ("resnet18", 40, 4, 1e-3, "given")


def test_on_a_gpu_weights_are_averaged_beside_unless_told_otherwise(hub: Path) -> None:
    cached(hub, "resnet50.tv_in1k")

    def average(device: str, average: str = "auto", **given: object) -> str:
        settings = automatic(resolve(device=device, given=given), photographs(), device=device)
        return averages_for(settings, average)

    assert average("cuda") == canonical("ma(start=100)")
    assert average("cuda", steps=40) == canonical("ma(start=8)")
    assert average("cuda", "none") == average("cpu") == average("cuda", network="resnet18") == "none"
    assert average("cpu", "swad") == "swad"
    assert averages_for(resolve("swad"), "auto") == averages_for(resolve(benchmark="digits"), "auto") == "none"


def test_without_weights_the_trials_are_those_of_the_small_network_and_the_table_says_what_that_means(
    hub: Path,
) -> None:
    asked = {"targets": "a", "seeds": 1}
    auto, small = (
        prepare(photographs(64), "erm", settings=resolve(device="cpu", given=given), **asked)
        for given in ({}, {"network": "small"})
    )
    assert [trial.id for trial in auto.trials] == [trial.id for trial in small.trials]
    assert auto.folder == small.folder
    assert auto.trials[0].origins["network"] == "auto, no pretrained weights at hand"
    results = dw.compare(photographs(64), "erm", **asked, steps=1, output="out")
    assert "The network small was trained from nothing" in " ".join(results.table().split())
    assert "The network small was trained from nothing" in results.report("page.html").read_text(encoding="utf-8")
    assert "from nothing" not in dw.compare(photographs(16), "erm", **asked, steps=1, output="tiny").table()


@pytest.mark.parametrize("preset", ["domainbed", "swad"])
def test_published_presets_and_small_images_never_change(preset: str, hub: Path) -> None:
    cached(hub, CACHE)
    with pytest.raises(InputError, match=f"the preset {preset} says which network"):
        resolve(preset, given={"network": "auto"})
    assert automatic(resolve(preset), photographs()) == resolve(preset)
    assert automatic(resolve(), photographs(32)).network == "small"
    assert resolve(benchmark="digits").network == resolve(benchmark="rotated_mnist").network == "small"
    table = dw.domains({name: (np.random.default_rng(0).normal(size=(10, 3)), [0, 1] * 5) for name in "ab"})
    assert prepare(table, "erm").trials[0].network == "mlp"


def test_what_was_chosen_stays_whatever_is_at_hand_later(tiny: Path) -> None:
    def compared(**where: str) -> dw.Results:
        return dw.compare(photographs(64), "erm", targets="a", seeds=1, steps=1, batch=1, **where)

    before = [compared(**where) for where in ({}, {"output": "out"})]
    cached(tiny, TINY, whole=True)
    after = [compared(**where) for where in ({}, {"output": "out"})]
    assert [one.outcomes[0].trial.id for one in before] == [one.outcomes[0].trial.id for one in after]
    assert after[0].outcomes[0].trial.network == "small"
    chosen = compared(output="other")
    assert chosen.outcomes[0].trial.network == TINY
    for file in tiny.rglob("model.safetensors"):
        file.unlink()
    assert compared(output="other").outcomes[0].trial.id == chosen.outcomes[0].trial.id


def test_a_folder_of_an_earlier_version_goes_on_with_the_small_network_that_it_began_with(tiny: Path) -> None:
    asked = {"targets": "a", "seeds": 1, "steps": 1, "output": "out"}
    begun = dw.compare(photographs(64), "erm", **asked).outcomes[0]
    about = integrity.read(begun.folder / "trial.json")
    origins = {
        name: "preset quick" if origin.startswith("auto") else origin for name, origin in about["origins"].items()
    }
    (begun.folder / "trial.json").write_text(json.dumps(integrity.sealed({**about, "origins": origins})))
    Path("out/auto.json").unlink()
    cached(tiny, TINY, whole=True)
    assert [one.trial.id for one in dw.compare(photographs(64), "erm", **asked).outcomes] == [begun.trial.id]


def test_fit_chooses_as_compare_does_and_remembers(tiny: Path) -> None:
    cached(tiny, TINY, whole=True)
    asked = {"steps": 1, "batch": 1, "output": "model"}
    assert dw.fit(photographs(64), "erm", **asked).config["trial"]["network"] == TINY
    for file in tiny.rglob("model.safetensors"):
        file.unlink()
    assert dw.fit(photographs(64), "erm", **asked).config["trial"]["network"] == TINY


def folder(where: Path) -> Path:
    for domain in ("a", "b"):
        for kind, colour in (("cat", (9, 9, 9)), ("dog", (200, 9, 9))):
            for i in range(5):
                draw(where / "photos" / domain / kind / f"{i}.png", (*colour[:2], 10 * i + (domain == "b")), (80, 70))
    return where / "photos"


def test_weights_that_cannot_be_had_end_a_comparison_and_fail_no_trial(tiny: Path, tmp_path: Path) -> None:
    asked = {"targets": "a", "seeds": 1, "steps": 1, "batch": 1, "network": TINY, "input_size": 64, "probe": False}
    with pytest.raises(InputError, match=r"the pretrained weights of test_resnet\.r160_in1k could not be downloaded"):
        dw.compare(photographs(64), "erm", **asked, output="out")
    assert not [*(tmp_path / "out").glob("trials/*/result.json")]
    cached(tiny, TINY, whole=True)
    assert dw.compare(photographs(64), "erm", **asked, output="out").outcomes[0].result["status"] == "finished"
    for file in tiny.rglob("model.safetensors"):
        file.unlink()
    assert len(dw.compare(photographs(64), "erm", **asked, output="out").outcomes) == 1  # nothing is missing


def test_fit_says_what_a_small_network_from_nothing_means(hub: Path, tmp_path: Path, domainwise) -> None:
    code, out, err = domainwise("fit", "--data", folder(tmp_path), "--algorithm", "erm", "--steps", 1, "-o", "model")
    assert code == 0
    assert "network small" in err
    assert "The network small was trained from nothing" in out


def test_images_of_files_are_not_enlarged_and_python_sees_what_the_command_sees(tiny: Path, tmp_path: Path) -> None:
    cached(tiny, TINY)
    found = find_source(str(folder(tmp_path)))
    there = automatic(resolve(device="cpu"), found)
    assert (there.network, there.input_size, there.train_size) == (TINY, 80, 80)
    opened = suited(resolve(device="cpu"), dw.open_data(str(tmp_path / "photos")))
    assert (opened.network, opened.input_size) == (TINY, 80)
    small = tmp_path / "small"
    for domain in "ab":
        draw(small / domain / "cat" / "0.png", (1, 2, 3), (28, 28))
    assert automatic(resolve(), find_source(str(small))).origins["network"] == "auto, images of 28 pixels"


def test_a_file_of_weights_brings_its_network_and_is_asked_for_again(
    hub: Path, tmp_path: Path, domainwise, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = cached(hub, TINY, whole=True).rename(tmp_path / "test_resnet.mine.safetensors")
    compare = ["compare", "--data", folder(tmp_path), "--algorithms", "erm", "--targets", "a", "--seeds", 1]
    compare += ["--steps", 1, "--batch", 1, "--size", 32, "-o", "out", "--no-probe"]
    code, _, said = domainwise(*compare, "--weights", weights)
    assert code == 0
    assert "network test_resnet, with weights from a file (auto, the network of these weights, on a CPU)" in said
    assert str(tmp_path) not in (tmp_path / "out" / "auto.json").read_text()
    code, _, said = domainwise(*compare)
    assert code == 2
    assert "out began with the weights test_resnet.mine.safetensors" in said
    assert domainwise(*compare, "--weights", weights)[0] == 0
    assert len([*(tmp_path / "out" / "trials").iterdir()]) == 1
    shown = domainwise("show", "out")[1]
    assert "auto, the network of these weights, on a CPU: network" in " ".join(shown.split())


def test_what_has_been_run_is_shown_without_the_weights_and_what_is_missing_says_that_it_needs_them(
    tiny: Path, tmp_path: Path, domainwise
) -> None:
    cached(tiny, TINY, whole=True)
    compare = ["compare", "--data", folder(tmp_path), "--algorithms", "erm", "--seeds", 1, "--steps", 1, "--batch", 1]
    compare += ["--size", 32, "-o", "out"]
    first = domainwise(*compare, "--targets", "a")
    for file in tiny.rglob("model.safetensors"):
        file.unlink()
    again = domainwise(*compare, "--targets", "a")
    assert (again[0], again[1]) == (first[0], first[1]) == (0, first[1])
    code, _, said = domainwise(*compare, "--targets", "b")
    assert code == 2
    assert f"the pretrained weights of {TINY} could not be downloaded" in said


@pytest.mark.parametrize("damage", ["{", "{}", '{"choices": 3}', '{"choices": {"photographs": {"reason": "?"}}}'])
def test_a_damaged_memory_is_told_of_and_made_again(hub: Path, tmp_path: Path, damage: str) -> None:
    asked = {"targets": "a", "seeds": 1, "steps": 1, "output": "out"}
    dw.compare(photographs(64), "erm", **asked)
    (tmp_path / "out" / "auto.json").write_text(damage)
    (found,) = dw.check(tmp_path / "out").damaged
    assert "auto.json is damaged" in str(found)
    with pytest.warns(Note, match="auto.json is damaged: .*, and the network is chosen anew"):
        dw.compare(photographs(64), "erm", **asked)
    assert json.loads((tmp_path / "out" / "auto.json").read_text())["choices"]["photographs"]["settings"]
