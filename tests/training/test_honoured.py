"""What was asked for is what the network sees, what trial.json says and what ``show`` says; or it is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st
from made_data import image_folder, stripes

import domainwise as dw
from domainwise import InputError
from domainwise.__main__ import main
from domainwise.algorithms import parse
from domainwise.cli.commands.report import explained
from domainwise.data.batches.augment import Augmentation
from domainwise.experiment.presets import PRESETS
from domainwise.experiment.records import read
from domainwise.experiment.settings import resolve
from domainwise.experiment.trial import Trial
from domainwise.networks.network import Network
from domainwise.saved_models.evaluation import Evaluator
from domainwise.training import setup
from domainwise.training.loop import run
from domainwise.training.plan import plan


@dataclass
class Seen:
    """What went through the network of a trial, looked at from the inside."""

    net: Network | None = None
    training: list[tuple[int, ...]] = field(default_factory=list)  # shapes of minibatches, in order
    evaluated: list[tuple[int, ...]] = field(default_factory=list)
    low: set[bool] = field(default_factory=set)  # whether in bfloat16
    boxes: int = 0  # images that were augmented

    @contextmanager
    def watching(self) -> Iterator[Seen]:
        make, parameters = setup.network_of, Augmentation.parameters

        def made(*arguments: Any, **named: Any) -> Network:
            self.net = make(*arguments, **named)
            self.net.featurizer.register_forward_pre_hook(self._look)
            return self.net

        def drawn(recipe: Augmentation, n: int, *rest: Any) -> Any:
            self.boxes += n
            return parameters(recipe, n, *rest)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(setup, "network_of", made)
            patch.setattr(Augmentation, "parameters", drawn)
            yield self

    def _look(self, module: torch.nn.Module, given: tuple[torch.Tensor]) -> None:
        (self.training if module.training else self.evaluated).append(tuple(given[0].shape))
        self.low.add(torch.is_autocast_enabled("cpu"))


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return image_folder(tmp_path_factory.mktemp("data") / "photos", ("art", "ink", "photo"), count=5, side=14)


def some(values: dict[str, list[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of the settings, each with one of its values."""
    return st.fixed_dictionaries({}, optional={name: st.sampled_from(those) for name, those in values.items()})


GIVEN = some(
    {
        "input_size": [9, 14, 20],
        "train_size": [9, 14, 20],
        "batch": [2, 5],
        "evaluate_every": [1, 2],
        "select_every": [1, 2, 3],
        "holdout": [0.2, 0.5],
        "augment": ["none", "flip", "domainbed"],
        "validation": ["plain", "augmented"],
        "balanced": [True, False],
        "precision": ["fp32", "bf16"],
        "dropout": [0.0, 0.25],
        "freeze_batch_norm": [True, False],
        "selection": ["validation", "pooled", "last"],
        "test": ["main", "all"],
        "lr": [1e-4, 2e-3],
        "weight_decay": [0.0, 1e-3],
        "inner_lr": [0.02],
    }
)
SPECS = ["erm", "arith", "reptile", "fish(domainwise=False, inner='momentum')", "arith(inner_steps=2)"]


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from(["folder", "arrays", "command line"]),
    preset=st.sampled_from(sorted(PRESETS)),
    spec=st.sampled_from(SPECS),
    steps=st.integers(1, 5),
    asked=GIVEN,
)
def test_what_was_asked_for_is_what_was_seen_written_down_and_shown(
    photos: Path, tmp_path_factory: pytest.TempPathFactory, kind: str, preset: str, spec: str, steps: int, asked: dict
) -> None:
    if spec == "erm":
        asked.pop("inner_lr", None)
    out, seen = tmp_path_factory.mktemp("out"), Seen()
    asked = {"network": "small", "weights": "none", "steps": steps, "input_size": 14, **asked}
    with pytest.MonkeyPatch.context() as patch, seen.watching(), suppress(InputError):
        patch.setattr(Evaluator, "walk", lambda evaluator, step: {})  # minibatches of its own, which train nothing
        trained(kind, photos, preset, spec, asked, out)
    homes = list((out / "trials").glob("*")) if (out / "trials").exists() else []
    if seen.net is None:  # refused, then, and nothing else may be
        assert not homes
        assert "train_size" in asked
        assert kind != "command line"
        return
    (home,) = homes
    trial = Trial.from_json(json.loads((home / "trial.json").read_text()))
    for name, value in asked.items():
        own = {**trial.to_json(), **trial.hyperparameters}
        assert own[name] == value, name
        assert trial.origins[name] == "given"
    check_seen(seen, trial, home)
    check_shown(" ".join(explained(home).split()), trial)


def trained(kind: str, photos: Path, preset: str, spec: str, asked: dict[str, Any], out: Path) -> None:
    if kind == "command line":
        sets = [f"--set={name}={value}" for name, value in asked.items()]
        words = ["run", "--data", photos, "--algorithm", spec, "--target", "ink", "--preset", preset, *sets]
        words += ["--device", "cpu", "-q", "-o", out, "--keep", "none"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["domainwise", *map(str, words)])
            with pytest.raises(SystemExit) as end:
                main()
        assert not end.value.code
    else:
        data = dw.folders(photos, size=14) if kind == "folder" else stripes("ink", 12, side=14)
        target = data.names[1]
        dw.compare(data, spec, targets=target, seeds=1, preset=preset, output=out, device="cpu", keep="none", **asked)


def check_seen(seen: Seen, trial: Trial, home: Path) -> None:
    assert seen.net is not None
    channels = 3 if trial.data == "photos" else 1
    pictures = {shape[1:] for shape in [*seen.training, *seen.evaluated]}
    assert pictures == {(channels, trial.input_size, trial.input_size)}
    walks = trial.algorithm != "erm"
    passes = 2 * trial.hyperparameters["inner_steps"] if walks else 1  # two sources
    assert [shape[0] for shape in seen.training] == [trial.batch if walks else 2 * trial.batch] * trial.steps * passes
    assert seen.net.head.out_features == 2
    assert seen.net.dropout.p == trial.dropout
    assert seen.net.freeze_batch_norm == trial.freeze_batch_norm
    assert seen.low == {trial.precision == "bf16"}
    found = list(read(home / "records.jsonl"))
    last = trial.steps - 1
    assert [one["step"] for one in found] == sorted({*range(0, trial.steps, trial.evaluate_every), last})
    size = 12 if trial.data == "stripes" else 10
    held = int(size * trial.holdout)
    counts = found[0]["domains"]
    (target,) = trial.targets
    assert {part: scores["count"] for part, scores in counts[target].items()} == {"main": size - held, "holdout": held}
    assert all(parts["holdout"]["count"] == held for name, parts in counts.items() if name != target)
    drawn = sum(shape[0] for shape in seen.training) + (trial.validation == "augmented") * len(found) * 2 * held
    assert seen.boxes == (0 if trial.augment == "none" else drawn)
    step = json.loads((home / "result.json").read_text())["selected"]["step"]
    assert step % trial.select_every == 0 or step == last


def check_shown(said: str, trial: Trial) -> None:
    assert f"seen at {trial.input_size} x {trial.input_size} pixels, stored with a side of {trial.size}" in said
    assert f"augmentation in training: {trial.augment}" in said
    assert f"{trial.steps} steps of {trial.batch} images" in said
    assert f"precision {trial.precision}" in said
    assert ("all classes drawn equally often" in said) == trial.balanced
    assert ("batch-norm frozen" in said) == trial.freeze_batch_norm
    assert f"dropout {trial.dropout:g}" in said
    assert f"every {trial.evaluate_every} steps" in said
    assert f"{100 * trial.holdout:.0f} % of every domain held out" in said
    for name, value in trial.hyperparameters.items():
        assert (
            f"{name}={value:g}" if isinstance(value, float) else f"{name}={'0.0' if value is None else value}"
        ) in said


def planned(data: dw.Domains, preset: str = "quick", **asked: Any) -> Trial:
    chosen = resolve(preset, benchmark=data.name, device="cpu", given={"steps": 4, **asked})
    return plan(data, parse("arith"), [(data.names[0],)], [0], chosen)[0]


def test_the_digits_are_enlarged_where_that_is_asked_for() -> None:
    seen = Seen()
    with seen.watching():
        list(run(planned(dw.digits(), input_size=32, batch=2), dw.digits()))
    assert {shape[1:] for shape in seen.training} == {(1, 32, 32)}


def test_images_that_are_there_are_seen_as_they_are_where_only_the_quick_preset_says_otherwise() -> None:
    trial = planned(stripes())
    assert (trial.input_size, trial.size, trial.origins["input_size"]) == (8, 8, "the data")
    assert planned(stripes(), "domainbed", network="small").input_size == 224


def test_images_that_were_made_small_are_not_made_large_again(photos: Path) -> None:
    data = dw.folders(photos, size=8)
    for asked in ({"preset": "domainbed", "network": "resnet50.v1", "weights": "none"}, {"input_size": 224}):
        with pytest.raises(InputError, match=r"were resized to 8 x 8 when they were read: open them with size=224"):
            planned(data, **asked)
    assert planned(data, "domainbed", network="small", input_size=8).input_size == 8


def test_images_that_are_not_square_are_squeezed_only_where_that_is_asked_for() -> None:
    wide = dw.domains({name: (np.zeros((10, 6, 9, 1), np.uint8), [0, 1] * 5) for name in "ab"})
    with pytest.raises(InputError, match="6 x 9, and networks see squares here: give input_size"):
        planned(wide)
    assert planned(wide, input_size=6).input_size == 6


@pytest.mark.parametrize(("asked", "refused"), [(4, True), (8, False), (20, False), ("original", False)])
def test_a_size_to_keep_files_in_is_refused_for_images_that_were_read(asked: int | str, refused: bool) -> None:
    if not refused:
        assert planned(stripes(), train_size=asked).train_size == asked
        return
    with pytest.raises(InputError, match="says in which size images are kept when files are read"):
        planned(stripes(), train_size=asked)


def test_a_share_to_hold_out_is_refused_where_the_data_says_what_is_held_out() -> None:
    data = stripes()
    fixed = tuple(replace(domain, fixed=np.arange(30, dtype=np.int8) % 2) for domain in data)
    data = dw.Domains(data.name, data.classes, fixed, data.fingerprint)
    assert planned(data).holdout == 0.2
    with pytest.raises(InputError, match=r"holdout=0\.5 would change nothing"):
        planned(data, holdout=0.5)


NET = """
from torch import nn
from domainwise import Network

def build(channels, classes):
    body = nn.Sequential(nn.Flatten(), nn.Linear(64 * channels, 8), nn.BatchNorm1d(8))
    return Network(body, nn.Linear(8, classes), dropout=0.5)
"""


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"dropout": 0.0}, "dropout=0.0 was asked for"),
        ({"freeze_batch_norm": True}, "freeze_batch_norm=True was asked"),
    ],
)
def test_what_a_network_of_ones_own_does_otherwise_is_refused(tmp_path: Path, asked: dict, sentence: str) -> None:
    (tmp_path / "net.py").write_text(NET)
    network = f"{tmp_path / 'net.py'}:build"
    with pytest.raises(InputError, match=sentence):
        list(run(planned(stripes(), network=network, **asked), stripes()))
    assert len(list(run(planned(stripes(), network=network, dropout=0.25), stripes()))) > 1


@pytest.mark.parametrize(("wrong", "meant"), [("step", "steps"), ("size", "input_size"), ("iner_lr", "inner_lr")])
def test_a_setting_that_is_not_known_gets_a_hint(wrong: str, meant: str) -> None:
    with pytest.raises(InputError, match=f'"{wrong}", and no setting is called that: did you mean {meant}'):
        planned(stripes(), **{wrong: 20})


@pytest.mark.parametrize(("spec", "used"), [("arith", 0.01), ("fish(inner='momentum')", 0.001),
                                            ("maml(inner='adam')", 0.004), ("arith(inner_lr=0.5)", 0.5)])  # fmt: skip
def test_the_step_size_of_a_walk_is_shown_as_it_is_used(tmp_path: Path, spec: str, used: float) -> None:
    results = dw.compare(stripes(), spec, targets="c", seeds=1, steps=1, lr=0.004, output=tmp_path, keep="none")
    (outcome,) = results.outcomes
    assert f"inner_lr={used:g}" in explained(outcome.folder)
    assert results.frame()["hyper.inner_lr"].tolist() == [used]
    page = results.report(tmp_path / "report.html").read_text()
    assert ">None<" not in page
    assert f"{used:g}" in page
    kept = json.loads((outcome.folder / "trial.json").read_text())["hyperparameters"]["inner_lr"]
    assert kept == (0.5 if used == 0.5 else None)  # what was left open stays so in the id
