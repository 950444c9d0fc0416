"""Selection on records written out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from domainwise.errors import InputError
from domainwise.experiment.records import Record
from domainwise.experiment.selection import (
    RULES,
    Run,
    Runs,
    by_validation,
    pooled_validation,
    rule,
    selected,
    selection,
    summary,
    validation,
)
from domainwise.experiment.trial import Trial


def record(step: int, holdout: dict[str, float], main: dict[str, float], count: int = 10) -> Record:
    """``holdout`` of every domain, ``main`` of the targets."""
    domains: dict[str, dict[str, dict[str, float]]] = {
        name: {"holdout": {"accuracy": accuracy, "count": count}} for name, accuracy in holdout.items()
    }
    for name, accuracy in main.items():
        domains[name]["main"] = {"accuracy": accuracy, "count": 4 * count}
    return {"step": step, "loss": 0.1, "domains": domains}


def run_on_c(*, a: list[float], b: list[float], c: list[float], tested: list[float]) -> list[Record]:
    """Target c: hold-out accuracies of a, b and c and main accuracy of c, at steps 0, 10, 20, ..."""
    rows = zip(a, b, c, tested, strict=True)
    return [record(10 * at, {"a": x, "b": y, "c": z}, {"c": t}) for at, (x, y, z, t) in enumerate(rows)]


def pair(target: str, other: str, accuracies: list[float]) -> list[Record]:
    """Accuracies on the main part of ``other`` of a run whose targets are both."""
    return [
        record(10 * at, {"a": 0.5, "b": 0.5, "c": 0.5}, {other: accuracy, target: 0.01})
        for at, accuracy in enumerate(accuracies)
    ]


@pytest.fixture
def records() -> list[Record]:
    return run_on_c(a=[0.5, 0.9, 0.6], b=[0.5, 0.7, 0.9], c=[0.9, 0.2, 0.4], tested=[0.1, 0.2, 0.3])


@pytest.fixture
def runs(records: list[Record]) -> Runs:
    """The pairs are best at step 0 on their own, and at step 10 on average."""
    return {
        frozenset("c"): records,
        frozenset("ca"): pair("c", "a", [0.6, 0.5, 0.4]),
        frozenset("cb"): pair("c", "b", [0.2, 0.5, 0.5]),
    }


@pytest.mark.parametrize(
    ("name", "step", "value", "reported"),
    [
        ("validation", 10, 0.80, 0.2),
        ("pooled", 10, 0.80, 0.2),
        ("oracle", 20, 0.4, 0.3),
        ("last", 20, 0.75, 0.3),
        ("leave-one-out", 10, 0.5, 0.2),
    ],
)
def test_each_rule_chooses_its_record(runs: Runs, name: str, step: int, value: float, reported: float) -> None:
    choice = rule(name).choose(runs, ["c"])
    assert choice is not None
    assert choice.record["step"] == step
    assert choice.value == pytest.approx(value)
    assert summary(choice.record, ["c"])["target"] == reported


@pytest.mark.parametrize("name", ["validation", "pooled", "leave-one-out"])
def test_of_steps_that_tie_the_first_is_chosen(name: str) -> None:
    records = run_on_c(a=[0.1, 0.8, 0.6, 0.6], b=[0.1, 0.6, 0.8, 0.8], c=[0.0] * 4, tested=[0.1, 0.2, 0.3, 0.4])
    pairs = {frozenset(f"c{x}"): pair("c", x, [0.1, 0.6, 0.6, 0.5]) for x in "ab"}
    choice = rule(name).choose({frozenset("c"): records, **pairs}, ["c"])
    assert choice is not None
    assert choice.record["step"] == 10


def test_validation_counts_domains_alike_and_pooling_counts_images_alike() -> None:
    first = record(0, {"a": 0.9, "b": 0.5, "c": 0.0}, {"c": 0.0})
    second = record(1, {"a": 0.7, "b": 0.6, "c": 0.0}, {"c": 0.0})
    for one in (first, second):
        one["domains"]["a"]["holdout"]["count"] = 10
        one["domains"]["b"]["holdout"]["count"] = 90
    assert [validation(one, ["c"]) for one in (first, second)] == pytest.approx([0.7, 0.65])
    assert [pooled_validation(one, ["c"]) for one in (first, second)] == pytest.approx([0.54, 0.61])
    runs = {frozenset("c"): [first, second]}
    chosen = {name: rule(name).choose(runs, ["c"]) for name in ("validation", "pooled")}
    assert {name: choice and choice.record["step"] for name, choice in chosen.items()} == {"validation": 0, "pooled": 1}


def test_pooling_records_without_counts_is_refused_with_a_sentence(records: list[Record]) -> None:
    del records[0]["domains"]["a"]["holdout"]["count"]
    with pytest.raises(InputError, match="how many images"):
        rule("pooled").choose({frozenset("c"): records}, ["c"])


def test_selection_by_validation_never_looks_at_the_target(records: list[Record]) -> None:
    before = by_validation(records, ["c"])["step"]
    for one in records:
        one["domains"]["c"] = {"main": {"accuracy": 1.0 - one["step"]}, "holdout": {"accuracy": one["step"]}}
    assert by_validation(records, ["c"])["step"] == before == 10


def test_leaving_one_out_uses_only_steps_that_every_pair_has(runs: Runs) -> None:
    short = {**runs, frozenset("cb"): runs[frozenset("cb")][:1]}
    choice = rule("leave-one-out").choose(short, ["c"])
    assert choice is not None
    assert (choice.record["step"], choice.value) == (0, pytest.approx(0.4))


def test_leaving_one_out_without_every_pair_chooses_nothing(runs: Runs) -> None:
    assert rule("leave-one-out").choose({key: runs[key] for key in list(runs)[:2]}, ["c"]) is None


@pytest.mark.parametrize("name", RULES)
def test_of_no_records_none_is_chosen(name: str) -> None:
    assert rule(name).choose({frozenset("c"): []}, ["c"]) is None
    assert rule(name).choose({}, ["c"]) is None


def test_an_unknown_rule_is_told_with_the_near_ones() -> None:
    with pytest.raises(InputError, match="did you mean oracle"):
        rule("orakle")


def draws(seed: int = 0) -> list[Run]:
    """Draw 0 looks better on the sources, draw 1 on the target's hold-out at the end, draw 2 on the pairs."""
    made = [
        (run_on_c(a=[0.2, 0.9], b=[0.2, 0.9], c=[0.9, 0.3], tested=[0.10, 0.11]), [0.3, 0.3]),
        (run_on_c(a=[0.2, 0.8], b=[0.2, 0.8], c=[0.1, 0.5], tested=[0.20, 0.21]), [0.2, 0.2]),
        (run_on_c(a=[0.2, 0.7], b=[0.2, 0.7], c=[0.1, 0.4], tested=[0.30, 0.31]), [0.6, 0.5]),
    ]
    return [
        Run("data", "erm", seed, targets, draw, records)
        for draw, (own, other) in enumerate(made)
        for targets, records in [
            (("c",), own),
            (("a", "c"), pair("c", "a", other)),
            (("c", "b"), pair("c", "b", other)),
        ]
    ]


@pytest.mark.parametrize(
    ("name", "draw", "reported"),
    [("validation", 0, 0.11), ("last", 0, 0.11), ("oracle", 1, 0.21), ("leave-one-out", 2, 0.30)],
)
def test_over_several_draws_the_one_with_the_best_value_counts(name: str, draw: int, reported: float) -> None:
    chosen = selection(draws(), name)[("data", "erm", 0, ("c",))]
    assert chosen.draw == draw
    assert summary(chosen.record, ["c"])["target"] == reported


def test_seeds_algorithms_and_targets_are_chosen_for_apart() -> None:
    found = selection([*draws(0), *draws(1)])
    assert list(found) == [
        ("data", "erm", seed, targets) for seed in (0, 1) for targets in [("c",), ("a", "c"), ("b", "c")]
    ]


def test_of_draws_that_tie_the_last_counts() -> None:
    same = run_on_c(a=[0.5], b=[0.5], c=[0.5], tested=[0.5])
    runs = [Run("data", "erm", 0, ("c",), draw, same) for draw in (2, 0, 1)]
    assert selection(runs)[("data", "erm", 0, ("c",))].draw == 2


def trial(targets: tuple[str, ...] = ("c",), lr: float = 0.1, **settings: Any) -> Trial:
    return Trial("data", "f00d", targets, "erm", {"lr": lr}, **settings)


@pytest.mark.parametrize(
    ("settings", "step"),
    [
        ({}, 10),
        ({"selection": "last"}, 20),
        ({"selection": "oracle"}, 20),
        ({"select_every": 20}, 20),
        ({"select_every": 7}, 20),
    ],
)
def test_a_trial_reports_by_its_own_rule_of_the_steps_it_may_and_the_last(
    records: list[Record], settings: dict[str, Any], step: int
) -> None:
    assert selected(records, trial(**settings))["step"] == step


def test_a_rule_that_needs_several_runs_is_refused_for_one(records: list[Record]) -> None:
    with pytest.raises(InputError, match="leave-one-out"):
        selected(records, trial(selection="leave-one-out"))


def test_tested_on_all_of_a_target_both_parts_count_by_their_images(records: list[Record]) -> None:
    assert summary(records[1], ["c"], "all")["target"] == pytest.approx((0.2 * 40 + 0.2 * 10) / 50)
    assert summary(records[2], ["c"], "all")["targets"] == {"c": pytest.approx((0.3 * 40 + 0.4 * 10) / 50)}
    assert summary(records[2], ["c"])["targets"] == {"c": 0.3}


def test_a_draw_is_the_same_whatever_the_targets_and_another_with_other_settings(records: list[Record]) -> None:
    def draw(targets: tuple[str, ...] = ("c",), lr: float = 0.1, **settings: Any) -> int | str:
        return Run.of(trial(targets, lr, **settings), records).draw

    assert draw() == draw(("a", "c")) == draw(seed=3) == draw(label="mine", average="ema")
    assert len({draw(), draw(lr=0.2), draw(batch=8)}) == 3
