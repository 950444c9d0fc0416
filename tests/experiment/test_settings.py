from __future__ import annotations

import json
from dataclasses import fields

import pytest
from made_data import stripes
from typer.testing import CliRunner

from domainwise import InputError
from domainwise.algorithms import hypers, parse
from domainwise.algorithms._spec import builtin
from domainwise.cli import app
from domainwise.data.sources.benchmarks import BENCHMARKS as KNOWN
from domainwise.experiment.presets import PRESETS, TITLES
from domainwise.experiment.settings import BENCHMARKS, BESIDE, Settings, resolve
from domainwise.training.plan import plan


def test_every_preset_says_everything() -> None:
    own = {f.name for f in fields(Settings)} - BESIDE
    assert {name: set(preset) & own for name, preset in PRESETS.items()} == dict.fromkeys(PRESETS, own)
    walking = set(hypers(builtin("arith")))
    assert all(set(preset) - own <= walking for preset in PRESETS.values())  # hyperparameters of algorithms
    assert set(TITLES) == set(PRESETS) == set(BENCHMARKS)


def test_domainbed_is_the_published_protocol() -> None:
    pacs = resolve("domainbed", benchmark="pacs")
    assert (pacs.network, pacs.weights, pacs.freeze_batch_norm) == ("resnet50", "pretrained", True)
    assert (pacs.lr, pacs.weight_decay, pacs.batch, pacs.dropout) == (5e-5, 0.0, 32, 0.0)
    assert (pacs.steps, pacs.evaluate_every, pacs.holdout) == (5001, 300, 0.2)
    assert (pacs.augment, pacs.validation, pacs.test, pacs.selection) == (
        "domainbed",
        "augmented",
        "main",
        "validation",
    )
    assert resolve("domainbed", benchmark="domainnet").evaluate_every == 1000
    mnist = resolve("domainbed", benchmark="rotated_mnist")
    assert (mnist.network, mnist.lr, mnist.batch, mnist.evaluate_every) == ("mnist", 1e-3, 64, 100)


@pytest.mark.parametrize("benchmark", ["pacs", "vlcs", "officehome", "terraincognita", "domainnet"])
def test_steps_and_evaluations_of_a_preset_are_those_of_the_benchmarks_table(benchmark: str) -> None:
    settings = resolve("domainbed", benchmark=benchmark)
    assert (settings.steps, settings.evaluate_every) == (KNOWN[benchmark].steps, KNOWN[benchmark].evaluate_every)


@pytest.mark.parametrize(("benchmark", "every"), [("pacs", 100), ("officehome", 100), ("vlcs", 50), ("domainnet", 500)])
def test_swad_evaluates_more_often_on_plain_images_and_selects_on_domainbeds_grid(benchmark: str, every: int) -> None:
    swad, domainbed = (resolve(preset, benchmark=benchmark) for preset in ("swad", "domainbed"))
    assert (swad.evaluate_every, swad.validation) == (every, "plain")
    assert swad.select_every == domainbed.evaluate_every


def test_each_layer_goes_over_the_one_before_and_leaves_its_name() -> None:
    settings = resolve("domainbed", benchmark="domainnet", device="cpu", given={"batch": 16, "inner_lr": 0.02})
    origins = settings.origins
    assert (settings.batch, origins["batch"]) == (16, "given")
    assert (settings.precision, origins["precision"]) == ("fp32", "device cpu")
    assert origins["evaluate_every"] == "benchmark domainnet"
    assert origins["lr"] == "preset domainbed"
    assert settings.given_to_all()["inner_lr"] == 0.02
    assert resolve("domainbed", device="cpu", given={"precision": "bf16"}).precision == "bf16"


def test_a_network_chosen_by_hand_brings_what_it_needs() -> None:
    backbone = resolve(given={"network": "resnet18"})
    assert (backbone.weights, backbone.input_size, backbone.augment, backbone.lr) == (
        "pretrained",
        224,
        "domainbed",
        5e-5,
    )
    assert backbone.origins["lr"] == "network resnet18"
    own = resolve("domainbed", given={"network": "my_net.py:build"})
    assert (own.weights, own.lr) == ("none", 1e-3)
    assert resolve("domainbed", given={"network": "resnet50"}).origins["lr"] == "preset domainbed"


def test_few_steps_are_still_evaluated_about_ten_times() -> None:
    settings = resolve("domainbed", benchmark="pacs", given={"steps": 50})
    assert (settings.evaluate_every, settings.select_every) == (5, 5)
    assert resolve("domainbed", given={"steps": 10_000}).evaluate_every == 300


def test_without_augmentation_one_array_serves_training_and_evaluation() -> None:
    settings = resolve(given={"input_size": 48})
    assert settings.train_size == 48
    assert resolve(given={"input_size": 48, "train_size": "original"}).train_size == "original"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"steps": 0}, "steps must be a whole number from 1 up"),
        ({"batch": 2.5}, "batch must be a whole number"),
        ({"holdout": 1.0}, "holdout must be between 0 and 1"),
        ({"precision": "fp8"}, "precision must be one of fp32, tf32, bf16"),
        ({"augment": "mixup"}, "augment must be one of"),
        ({"train_size": "huge"}, 'or "original"'),
    ],
)
def test_a_setting_that_cannot_be_is_a_sentence(given: dict, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        resolve(given=given)
    assert sentence in str(error.value)


def test_a_precision_that_a_cpu_has_not_is_not_written_down_for_one() -> None:
    assert resolve(device="cuda", given={"precision": "tf32"}).precision == "tf32"
    with pytest.raises(InputError, match="a CPU has not: take fp32"):
        resolve(device="cpu", given={"precision": "tf32"})


def test_an_unknown_preset_is_a_sentence() -> None:
    with pytest.raises(InputError, match='no preset "domainbd": did you mean domainbed'):
        resolve("domainbd")


def test_presets_are_shown_with_where_each_value_came_from() -> None:
    runner = CliRunner()
    assert "domainbed" in runner.invoke(app, ["presets", "list"]).output
    shown = runner.invoke(app, ["presets", "show", "swad", "--benchmark", "vlcs", "--set", "dropout=0.1"]).output
    lines = {words[0]: words[1:] for words in map(str.split, shown.splitlines()) if words and words[1] != "of"}
    assert lines["evaluate_every"] == ["50", "benchmark", "vlcs"]
    assert lines["dropout"] == ["0.1", "given"]
    assert "batch of arm 8 algorithm arm" in " ".join(shown.split())
    assert set(lines) >= set(PRESETS["swad"])


def test_a_machine_can_be_measured() -> None:
    names = ["erm", "arith(inner='momentum', inner_steps=2)"]
    arguments = ["bench", "--network", "small", "--size", "16", "--updates", "2", "--threads", "1", "--device", "cpu"]
    arguments += ["--algorithms", ",".join(names)]
    timings = json.loads(CliRunner().invoke(app, [*arguments, "--format", "json"]).stdout)
    assert [timing["algorithm"] for timing in timings] == names
    assert all(timing["update_ms"] > 0 for timing in timings)
    lines = CliRunner().invoke(app, arguments).stdout.splitlines()
    assert [line[: len(names[1])].rstrip() for line in lines] == ["algorithm", *names]  # whole, however long
    assert len({len(line) for line in lines}) == 1


@pytest.mark.parametrize(
    ("name", "values"), [("dropout", (0, 0.0, -0.0)), ("weight_decay", (0, -0.0)), ("lr", (1, 1.0))]
)
def test_one_setting_is_one_trial_however_its_number_is_written(name: str, values: tuple[float, ...]) -> None:
    made = [plan(stripes(), parse("erm"), [("a",)], [0], resolve(given={name: value})) for value in values]
    assert len({trial.id for (trial,) in made}) == 1
