"""The answer in words: the cheapest row that nothing tells apart from the best, and what to expect of it elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from made_counts import count
from made_outcomes import ANGLES, Study
from made_seals import reseal

from domainwise.errors import InputError
from domainwise.experiment.results import variants
from domainwise.report.recommend import Recommendation
from domainwise.report.results import Results

BASE = {"0": 0.5, "15": 0.6, "30": 0.7, "75": 0.8}
NOISE = (0.0, 0.02, -0.02)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path)


def add(study: Study, algorithm: str, above: float = 0.0, *, seeds: int = 3, ended: int = 300) -> None:
    """One trial for every target and seed; all algorithms have the same noise, in another order."""
    for at, (target, accuracy) in enumerate(BASE.items()):
        for seed in range(seeds):
            noise = NOISE[(seed + at + len(algorithm)) % 3]
            study.add(algorithm, accuracy + above + noise, (target,), seed, ended=ended, label=algorithm)


def recommended(study: Study) -> Recommendation:
    return Results(tuple(variants(study.outcomes)), study.folder).recommend()


def test_of_rows_that_nothing_tells_apart_the_cheapest_is_taken(study: Study) -> None:
    add(study, "erm", ended=300)
    add(study, "arith", 0.002, ended=400)  # a made trial takes as many seconds as it has hundreds of steps
    found = recommended(study)
    assert (found.label, found.tied) == ("erm", ("arith",))
    assert "do not tell it from arith; of those within a point of the best it took the least time" in found.sentence


def test_a_row_of_which_a_trial_did_not_finish_is_named(study: Study) -> None:
    add(study, "erm")
    add(study, "arith", 0.15)
    study.add("arith", 0.7, ("0",), 7, status="failed", label="arith")
    found = recommended(study)
    assert found.label == "erm"
    assert "Left out, as not all of their trials on all targets have finished: arith." in found.sentence


def test_a_row_that_is_clearly_better_is_taken_at_any_price(study: Study) -> None:
    add(study, "erm", ended=300)
    add(study, "arith", 0.15, ended=600)
    found = recommended(study)
    assert (found.label, found.algorithm, found.tied) == ("arith", "arith", ())
    assert found.settings == {"lr": 1e-3, "weight_decay": 0.0}


def test_a_cheaper_row_that_is_points_below_is_not_taken_though_few_seeds_do_not_tell_it_apart(study: Study) -> None:
    for seed, (low, high) in enumerate([(0.5, 0.7), (0.65, 0.64), (0.52, 0.58)]):
        study.add("erm", low, seed=seed, ended=300).add("arith", high, seed=seed, ended=400)
    found = recommended(study)
    assert (found.label, found.tied) == ("arith", ("erm",))


def test_what_leads_the_table_by_a_single_step_alone_is_not_taken_and_that_is_said(study: Study) -> None:
    add(study, "erm")
    add(study, "arith", 0.15)
    for at, outcome in enumerate(study.outcomes):  # a lucky step, in the table only
        if outcome.trial.algorithm == "erm":
            lucky = {**outcome.selected, "target": 0.99 - 0.001 * at}
            reseal(outcome.folder, **{**outcome.result, "selected": lucky})
    found = recommended(study)
    assert (found.label, found.tied) == ("arith", ())
    assert "erm leads the table, but is behind in the mean over the second half of training." in found.sentences


def test_a_plain_model_is_taken_before_its_own_average(study: Study) -> None:
    add(study, "erm", seeds=2)
    count(study, *[[[5, 5], [0, 10]]] * 8, averager="swad")
    for outcome in study.outcomes:  # the average does as well at every step, but for a little noise
        path, noise = outcome.folder / "records.jsonl", 0.002 * (-1) ** outcome.trial.seed
        records = [json.loads(line) for line in path.read_text().splitlines()]
        for record in records:
            record["average"] = json.loads(json.dumps(record["domains"]))
            record["average"][outcome.trial.targets[0]]["main"]["accuracy"] += noise
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        reseal(outcome.folder)
    found = recommended(study)
    assert (found.label, found.average, found.tied) == ("erm", "", ("erm + swad",))


def test_sites_and_their_range_are_those_of_the_table(study: Study) -> None:
    add(study, "erm")
    found = recommended(study)
    assert set(found.sites) == set(ANGLES)
    assert found.sites == pytest.approx(BASE)
    assert found.expected == pytest.approx((0.5, 0.8))
    assert found.known == pytest.approx(0.95)
    assert "between 50.0 and 80.0 %" in found.sentence
    assert "with a probability of 60 %" in found.sentence
    assert "30.0 points below new images of the sites it was trained on (95.0 %)" in found.sentence


def test_many_tied_rows_are_counted_and_sites_like_the_known_ones_are_called_that(study: Study) -> None:
    for name in ("erm", "arith", "fish", "coral", "mmd", "irm", "vrex", "rsc"):
        for seed, noise in enumerate(NOISE):
            study.add(name, 0.95 + noise * (-1) ** len(name), seed=seed)
    found = recommended(study)
    assert len(found.tied) == 7
    assert "do not tell it from 7 others; of those" in found.sentence
    assert "On average that is the same as on new images of the sites" in found.sentence


def test_a_range_of_sites_covers_a_new_one_as_often_as_is_said() -> None:
    random = np.random.RandomState(0)
    for sites in (2, 3, 4, 7):
        drawn = random.standard_gamma(2.0, (100_000, sites + 1))
        new, others = drawn[:, 0], drawn[:, 1:]
        covered = float(np.mean((others.min(1) <= new) & (new <= others.max(1))))
        assert covered == pytest.approx((sites - 1) / (sites + 1), abs=0.01)


def test_one_seed_and_one_target_are_sentences_and_no_ranges(study: Study) -> None:
    study.add("erm", 0.6).add("arith", 0.8)
    found = recommended(study)
    assert (found.label, found.coverage) == ("arith", 0.0)
    assert "best of one seed, and nothing tells how much of that is chance" in found.sentence
    assert "cannot be said from one (80.0 %): hold out each domain in turn" in found.sentence
    assert "probability" not in found.sentence


def test_the_worst_classes_are_named_or_said_to_be_unknown(study: Study) -> None:
    study.add("erm", 0.6, seed=0).add("erm", 0.6, seed=1)
    assert recommended(study).worst_classes == ()
    assert "kept no counts" in recommended(study).sentence
    count(study, [[8, 2, 0], [0, 10, 0], [5, 0, 5]], [[6, 4, 0], [0, 10, 0], [8, 0, 2]])
    found = recommended(study)
    assert found.worst_classes == (("2", pytest.approx(0.35)), ("0", pytest.approx(0.7)))  # all of 1 are right
    assert "It recognises least of: 2 (35.0 %), 0 (70.0 %)." in found.sentence


def test_what_does_not_beat_the_probe_is_named(study: Study) -> None:
    add(study, "probe")
    add(study, "erm")
    assert "No algorithm does better than probe" in recommended(study).sentence
    add(study, "arith", 0.15)
    found = recommended(study)
    assert found.label == "arith"
    assert "erm does not do better than probe" in found.sentence


def test_a_row_that_lost_a_trial_is_never_recommended(study: Study) -> None:
    add(study, "erm")
    add(study, "arith", 0.15, seeds=2)
    for target in BASE:
        study.add("arith", targets=(target,), seed=2, status="diverged")
    assert recommended(study).label == "erm"


def test_where_nothing_can_be_said_there_is_a_sentence(study: Study) -> None:
    with pytest.raises(InputError, match="no trial has come to an end"):
        recommended(study)
    study.add(status="failed")
    with pytest.raises(InputError, match="no algorithm finished every trial"):
        recommended(study)
    study.add("erm", seed=3, data="faces")
    with pytest.raises(InputError, match=r"several data sets \(digits, faces\)"):
        recommended(study)


def test_settings_that_a_search_has_drawn_are_named_and_where_they_come_from(study: Study) -> None:
    for draw, (lr, validation) in enumerate([(1e-3, 0.90), (2.5e-4, 0.97), (4e-3, 0.92)]):
        for target, accuracy in BASE.items():
            drawn = {"hyperparameters": {"lr": lr, "weight_decay": 0.0}, "batch": 32 + draw}
            study.add("erm", accuracy, (target,), 0, validation=validation, label="erm", draw=draw, **drawn)
    found = recommended(study)
    assert found.settings["lr"] == 2.5e-4
    assert "searched for: of 3 draws each target and seed has its own, the best by validation" in found.sentence
    assert "is trained with draw 1 (lr=0.00025, batch=33), which has the highest validation" in found.sentence


def test_of_a_comparison_without_a_search_nothing_is_said_of_draws(study: Study) -> None:
    add(study, "erm")
    assert "draw" not in recommended(study).sentence
