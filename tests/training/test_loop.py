from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from made_data import stripes

from domainwise import InputError
from domainwise.acceleration.shared_device import directly
from domainwise.algorithms import parse
from domainwise.data.batches.feed import Feed
from domainwise.data.batches.inputs import Inputs, Part
from domainwise.data.domains import Domain
from domainwise.data.splits import split
from domainwise.experiment import records
from domainwise.experiment.results import result_in
from domainwise.experiment.selection import by_validation, summary, validation
from domainwise.experiment.settings import resolve
from domainwise.experiment.trial import Trial
from domainwise.training.loop import run
from domainwise.training.loss_log import Diverged
from domainwise.training.plan import plan
from domainwise.training.run_options import RunOptions
from domainwise.training.run_trial import execute
from domainwise.training.setup import set_up

DATA = stripes()


def trial(text: str = "arith", *, target: str = "c", seed: int = 0, average: str = "none", **given: object) -> Trial:
    settings = resolve(given={"steps": 25, "evaluate_every": 10, **given})
    (one,) = plan(DATA, parse(text), [(target,)], [seed], settings, average)
    return one


def untimed(found: list[records.Record]) -> list[records.Record]:
    return [{key: value for key, value in record.items() if key != "seconds"} for record in found]


def test_records_come_at_the_published_steps_and_at_the_last() -> None:
    assert [record["step"] for record in run(trial(), DATA)] == [0, 10, 20, 24]


def test_a_run_learns_and_says_how_well_on_every_domain() -> None:
    record = list(run(trial(steps=60, evaluate_every=30), DATA))[-1]
    assert validation(record, ["c"]) > 0.9
    assert set(record["domains"]["a"]) == {"holdout"}
    assert set(record["domains"]["c"]) == {"main", "holdout"}
    assert record["domains"]["c"]["main"]["count"] == 24
    assert record["domains"]["c"]["holdout"]["count"] == 6


@pytest.mark.parametrize("text", ["erm", "arith", "reptile", "fish(inner='adam', inner_steps=2)"])
def test_same_seed_same_records(text: str) -> None:
    torch.manual_seed(1)
    first = untimed(list(run(trial(text), DATA)))
    torch.manual_seed(2)
    torch.rand(5)
    second = untimed(list(run(trial(text), DATA)))
    assert first == second
    assert first != untimed(list(run(trial(text, seed=1), DATA)))


def test_a_run_leaves_the_callers_random_numbers_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    list(run(trial(), DATA))
    assert torch.equal(torch.rand(3), expected)


def test_evaluating_more_often_does_not_change_training() -> None:
    seldom, often = (list(run(trial(evaluate_every=n), DATA))[-1]["domains"] for n in (20, 1))
    assert seldom == often


def test_the_target_is_never_trained_on() -> None:
    """With the target's labels turned round, all that is learned stays the same."""
    turned = stripes()
    turned.items[2].labels[:] = 1 - turned.items[2].labels
    before, after = list(run(trial(), DATA))[-1], list(run(trial(), turned))[-1]
    for source in "ab":
        assert before["domains"][source] == after["domains"][source]
    accuracy = before["domains"]["c"]["main"]["accuracy"]
    assert after["domains"]["c"]["main"]["accuracy"] == pytest.approx(1 - accuracy)


def test_training_uses_the_main_part_only() -> None:
    _, holdout = split(30, 0.2, 0, 0)
    changed = stripes()
    changed.items[0].images[holdout] = 0
    before, after = (list(run(trial(), data))[-1]["domains"]["b"] for data in (DATA, changed))
    assert before == after


def feed(**options: object) -> Feed:
    """Two domains of 300 and 100 images; the first has class 0, the second class 1 and, one in ten, class 2."""
    labels = [np.zeros(300, np.int64), np.where(np.arange(100) % 10, 1, 2)]
    made = [Domain(str(i), np.full((len(y), 2, 2, 1), i, np.uint8), y) for i, y in enumerate(labels)]
    parts = [Part(domain, np.arange(len(domain)), "cpu") for domain in made]
    return Feed(parts, Inputs("none", 2), batch=50, seed=0, **options)


def shares(feed: Feed, times: int = 40) -> list[float]:
    drawn = torch.cat([y for _ in range(times) for _, y in feed.draw()])
    return [(drawn == label).float().mean().item() for label in range(3)]


def test_minibatches_are_of_one_domain_each_and_as_many_as_asked() -> None:
    assert [set(y.tolist()) <= kinds for (_, y), kinds in zip(feed().draw(), ({0}, {1, 2}), strict=True)] == [
        True,
        True,
    ]
    drawn = feed().draw(3)
    assert [len(fresh) for fresh in drawn] == [3, 3]
    assert all(x.shape == (50, 1, 2, 2) and len(y) == 50 for fresh in drawn for x, y in fresh)
    assert all((x.mean() > 0) == bool(i) for i, fresh in enumerate(drawn) for x, _ in fresh)


def test_pooled_minibatches_are_drawn_in_proportion_to_size() -> None:
    assert shares(feed()) == pytest.approx([0.5, 0.45, 0.05], abs=0.03)
    assert shares(feed(pooled=True)) == pytest.approx([0.75, 0.225, 0.025], abs=0.03)


def test_balanced_minibatches_have_every_class_equally_often() -> None:
    assert shares(feed(balanced=True)) == pytest.approx([0.5, 0.25, 0.25], abs=0.03)
    assert shares(feed(balanced=True, pooled=True)) == pytest.approx([1 / 3] * 3, abs=0.03)


@pytest.mark.parametrize("average", ["swad(converge=2, tolerance=3)", "ema(decay=0.9)", "ma(start=5)"])
def test_an_averaged_model_is_reported_beside_the_plain_one_and_changes_nothing_of_it(tmp_path: Path, average) -> None:
    settings = {"steps": 60, "evaluate_every": 5}
    plain = execute(trial(**settings), DATA, tmp_path / "plain")
    both = execute(trial(**settings, average=average), DATA, tmp_path / "both")
    assert both["id"] == plain["id"]
    assert both["selected"] == plain["selected"]
    numbers = both["averages"][average]
    assert numbers["selected"]["validation"] > 0.8
    lines = list(records.read(tmp_path / "both" / "records.jsonl"))
    assert untimed([{k: v for k, v in line.items() if k != "averages"} for line in lines]) == untimed(
        list(records.read(tmp_path / "plain" / "records.jsonl"))
    )
    assert numbers["last"]["targets"]["c"] == lines[-1]["averages"][average]["c"]["main"]["accuracy"]


def test_the_plain_model_is_selected_on_its_own_grid(tmp_path: Path) -> None:
    result = execute(trial(steps=41, evaluate_every=1, select_every=20), DATA, tmp_path)
    assert result["selected"]["step"] in (0, 20, 40)
    assert len(list(records.read(tmp_path / "records.jsonl"))) == 41


def test_the_selected_models_counts_agree_with_its_accuracies(tmp_path: Path) -> None:
    result = execute(trial(), DATA, tmp_path)
    counts = json.loads((tmp_path / "counts.json").read_text())["model"]
    confusion = np.array(counts["c"]["main"]["confusion"])
    assert np.trace(confusion) / confusion.sum() == pytest.approx(result["selected"]["targets"]["c"])
    assert sum(counts["a"]["holdout"]["calibration"]["count"]) == 6
    assert "confusion" not in (tmp_path / "records.jsonl").read_text()


def test_augmented_validation_changes_validation_only() -> None:
    plain, augmented = (list(run(trial(augment="flip", validation=how), DATA))[-1] for how in ("plain", "augmented"))
    assert plain["loss"] == augmented["loss"]
    assert plain["domains"]["c"] == augmented["domains"]["c"]
    assert plain["domains"]["a"] != augmented["domains"]["a"]


def test_divergence_names_the_step_the_leg_and_what_to_try() -> None:
    with pytest.raises(Diverged) as error:
        list(run(trial("arith(inner_lr=1e30, lr=1e30)"), DATA))
    assert 0 <= error.value.step < 25
    sentence = str(error.value)
    assert f"at step {error.value.step} on leg" in sentence
    assert 'domain "' in sentence
    assert "a smaller inner_lr than 1e+30" in sentence


def test_domains_that_are_all_too_small_to_hold_out_from_are_a_sentence() -> None:
    with pytest.raises(InputError, match="none of the domains that are trained on has images to hold out 20% of"):
        list(run(trial(), stripes(size=4)))


def test_a_trial_leaves_its_settings_records_and_result(tmp_path: Path) -> None:
    heard = []
    result = execute(trial(), DATA, tmp_path, watch=lambda _, event: heard.append(event))
    lines = list(records.read(tmp_path / "records.jsonl"))
    assert result == result_in(tmp_path, files=True)
    assert Trial.from_json(json.loads((tmp_path / "trial.json").read_text())) == trial()
    assert {**summary(by_validation(lines, ["c"]), ["c"])}.items() <= result["selected"].items()
    assert [event["step"] for event in heard if "validation" in event] == [1, 11, 21, 25]
    assert result["status"] == "finished"
    assert result["versions"]["torch"] == str(torch.__version__)


def test_a_trial_that_diverges_or_fails_has_a_result_that_says_so(tmp_path: Path) -> None:
    diverged = execute(trial("erm(lr=1e20)"), DATA, tmp_path / "1")
    assert (diverged["status"], diverged["selected"]) == ("diverged", None)
    assert f"at step {diverged['step']}" in diverged["message"]
    failed = execute(replace(trial(), network="nothing"), DATA, tmp_path / "2")
    assert failed["status"] == "failed"
    assert 'no network "nothing"' in failed["message"]


def test_selection_takes_the_first_best_validation_and_never_looks_at_the_target() -> None:
    def record(step: int, a: float, b: float, c: float) -> records.Record:
        parts = {name: {"holdout": {"accuracy": value}} for name, value in (("a", a), ("b", b))}
        return {"step": step, "domains": {**parts, "c": {"main": {"accuracy": c}, "holdout": {"accuracy": c}}}}

    found = [record(0, 0.5, 0.5, 0.9), record(1, 0.9, 0.7, 0.1), record(2, 0.8, 0.8, 0.8), record(3, 1.0, 0.5, 1.0)]
    chosen = by_validation(found, ["c"])
    assert summary(chosen, ["c"]) == {"step": 1, "validation": pytest.approx(0.8), "target": 0.1, "targets": {"c": 0.1}}


def test_an_id_depends_on_what_determines_the_run_and_on_nothing_else() -> None:
    base = trial()
    assert replace(base, label="other", file="elsewhere.py").id == base.id
    for change in ({"seed": 1}, {"fingerprint": "x"}, {"source": "x"}, {"steps": 26}, {"targets": ("a",)}):
        assert replace(base, **change).id != base.id
    assert trial("arith(lr=0.001)").id == base.id  # what a small network gets anyway
    assert trial("arith(lr=0.002)").id != base.id


def test_records_survive_a_line_cut_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    records.append(path, {"step": 1, "loss": float("nan"), "nested": [float("inf"), 2.0]})
    with path.open("a") as file:
        file.write('{"step": 2, "lo')
    assert list(records.read(path)) == [{"step": 1, "loss": None, "nested": [None, 2.0]}]
    assert list(records.read(tmp_path / "none.jsonl")) == []


def test_an_average_with_batch_norm_is_evaluated_with_statistics_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "normed.py").write_text(
        "from torch import nn\n"
        "def build(channels, classes):\n"
        "    return nn.Sequential(nn.Conv2d(channels, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())\n"
    )
    given = {"network": f"{tmp_path / 'normed.py'}:build", "input_size": 8, "steps": 60, "evaluate_every": 20}
    plain = execute(trial(**given), DATA, tmp_path / "plain")
    both = execute(trial(**given, average="ema(decay=0.99)"), DATA, tmp_path / "both")
    assert both["status"] == "finished", both["message"]
    assert both["selected"] == plain["selected"]  # the model's own statistics are back after every evaluation
    assert both["averages"]["ema(decay=0.99)"]["last"]["validation"] > 0.8
    setup = set_up(trial(**given), DATA, RunOptions(), print, directly)
    norm = next(module for module in setup.algorithm.net.modules() if isinstance(module, torch.nn.BatchNorm2d))
    before = norm.running_mean.clone()
    with setup.evaluator.averaged([p.detach() for p in setup.algorithm.net.parameters()]):
        assert not torch.allclose(norm.running_mean, before, atol=1e-3)
    assert torch.equal(norm.running_mean, before)


@pytest.mark.parametrize("validation", ["plain", "augmented"])
def test_evaluating_all_adds_what_the_sources_are_trained_on_and_changes_no_other_number(validation: str) -> None:
    one = trial(validation=validation, augment="flip", average="ema")
    few, every = list(run(one, DATA)), list(run(one, DATA, RunOptions(evaluate_all=True)))
    for before, after in zip(few, every, strict=True):
        both = ((record["domains"], record["averages"]["ema"]) for record in (before, after))
        for some, all_of_them in zip(*both, strict=True):
            for name, parts in all_of_them.items():
                assert list(parts) == ["main", "holdout"]
                assert parts["holdout"] == some[name]["holdout"]
                assert name not in one.targets or parts == some[name]
        assert (after["step"], after["loss"]) == (before["step"], before["loss"])
