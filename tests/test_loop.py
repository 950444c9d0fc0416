from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from made_data import stripes

from domainwise import InputError, records
from domainwise.algorithms import parse
from domainwise.data.splits import split
from domainwise.loop import Diverged, run
from domainwise.select import by_validation, summary, validation
from domainwise.sweep.execute import execute
from domainwise.sweep.plan import Settings, plan
from domainwise.trial import Trial

DATA = stripes()


def trial(text: str = "arith", *, target: str = "c", seed: int = 0, **settings: object) -> Trial:
    (one,) = plan(DATA, parse(text), [target], [seed], Settings(**{"steps": 25, "evaluate_every": 10, **settings}))
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


def test_pooled_minibatches_are_drawn_in_proportion_to_size() -> None:
    from domainwise.data.sampling import Sampler

    parts = [(torch.full((n, 1, 1, 1), i, dtype=torch.uint8), torch.full((n,), i)) for i, n in enumerate((300, 100))]
    apart, pooled = (Sampler(parts, 50, 0, pooled=p) for p in (False, True))
    assert [set(y.tolist()) for _, y in apart.draw()] == [{0}, {1}]
    share = torch.cat([y for _ in range(40) for _, y in pooled.draw()]).float().mean().item()
    assert share == pytest.approx(0.25, abs=0.03)
    assert [len(fresh) for fresh in apart.draw(3)] == [3, 3]


def test_divergence_names_the_step_the_leg_and_what_to_try() -> None:
    with pytest.raises(Diverged) as error:
        list(run(trial("arith(inner_lr=1e30, lr=1e30)"), DATA))
    assert 0 <= error.value.step < 25
    sentence = str(error.value)
    assert f"at step {error.value.step} on leg" in sentence
    assert 'domain "' in sentence
    assert "a smaller inner_lr than 1e+30" in sentence


def test_a_domain_too_small_to_hold_out_from_is_a_sentence() -> None:
    with pytest.raises(InputError, match='domain "a" has 4 images, too few to hold out 20%'):
        list(run(trial(), stripes(size=4)))


def test_a_trial_leaves_its_settings_records_and_result(tmp_path: Path) -> None:
    heard = []
    result = execute(trial(), DATA, tmp_path, watch=lambda _, event: heard.append(event))
    lines = list(records.read(tmp_path / "records.jsonl"))
    assert result == json.loads((tmp_path / "result.json").read_text())
    assert Trial.from_json(json.loads((tmp_path / "trial.json").read_text())) == trial()
    assert result["selected"] == summary(by_validation(lines, ["c"]), ["c"])
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
