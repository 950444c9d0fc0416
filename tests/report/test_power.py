"""What a comparison tells about its algorithms, in numbers and in words."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from made_outcomes import Study
from scipy import stats

import domainwise as dw
from domainwise.errors import InputError
from domainwise.report.power import Power
from domainwise.report.results import Results

TARGETS = ("0", "75")


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path)


def add(study: Study, algorithm: str, above: float = 0.0, *, seeds: int = 6, noise: float = 0.01) -> None:
    """Trials of every target and seed whose accuracies scatter around 0.7, those of a seed alike in all algorithms."""
    own = np.random.RandomState(len(algorithm))
    for at, target in enumerate(TARGETS):
        for seed in range(seeds):
            common = 0.02 * np.random.RandomState([at, seed]).standard_normal()
            accuracy = 0.7 + above + common + noise * own.standard_normal()
            study.add(algorithm, float(accuracy), (target,), seed)


def told(study: Study, **how: object) -> Power:
    return dw.power(Results(tuple(study.outcomes), study.folder), **how)  # type: ignore[arg-type]


def seen(study: Study, low: int, high: int) -> dict[str, np.ndarray]:
    """The mean accuracy on the target over a window, read without our code: algorithm -> (targets, seeds)."""
    found: dict[tuple[str, str, int], float] = {}
    for file in study.folder.glob("trials/*/trial.json"):
        trial = json.loads(file.read_text())
        (target,) = trial["targets"]
        records = [json.loads(line) for line in (file.parent / "records.jsonl").read_text().splitlines()]
        own = [one["domains"][target]["main"]["accuracy"] for one in records if low <= one["step"] <= high]
        found[trial["algorithm"], target, trial["seed"]] = 100 * fmean(own)
    seeds = sorted({seed for *_, seed in found})
    return {name: np.array([[found[name, target, seed] for seed in seeds] for target in TARGETS])
            for name, *_ in found}  # fmt: skip


def test_differences_are_paired_by_target_and_seed(study: Study) -> None:
    add(study, "erm")
    add(study, "arith", 0.03)
    gap = told(study, window=(100, 200)).leading[0]
    values = seen(study, 100, 200)
    expected = stats.ttest_1samp((values["arith"] - values["erm"]).mean(0), 0)
    assert gap.estimate
    assert gap.mean == pytest.approx((values["arith"] - values["erm"]).mean())
    assert gap.estimate.interval() == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert gap.p == pytest.approx(expected.pvalue)


def test_only_the_first_statistic_is_tested_and_the_selected_step_stands_beside(study: Study) -> None:
    add(study, "erm")
    add(study, "arith", 0.03)
    found = told(study)
    assert [gap.statistic.name for gap in found.gaps] == ["late", "last", "selected"]
    assert [gap.p is None for gap in found.gaps] == [False, True, True]
    selected = found.gaps[-1]
    table = Results(tuple(study.outcomes), study.folder).frame()
    means = table.groupby("algorithm")["target_accuracy"].mean()
    assert selected.mean == pytest.approx(100 * (means["arith"] - means["erm"]))


def test_the_statistic_that_leads_is_the_mean_over_the_second_half_of_training(study: Study) -> None:
    add(study, "erm")
    add(study, "arith", 0.03)
    values = seen(study, 150, 300)  # made trials end at step 300
    assert told(study).gaps[0].mean == pytest.approx((values["arith"] - values["erm"]).mean())


@pytest.mark.parametrize(
    ("above", "verdict", "sentence"),
    [
        (0.05, "above", "Better than erm: arith."),
        (-0.05, "below", "Worse than erm: arith."),
        (0.0, "same", "Within 2 points of erm: arith."),
    ],
)
def test_what_is_shown_is_said_in_words(study: Study, above: float, verdict: str, sentence: str) -> None:
    add(study, "erm", noise=0.005)
    add(study, "arith", above, noise=0.005)
    found = told(study, difference=2.0)
    assert found.gaps[0].verdict == verdict
    assert sentence in found.sentences


def test_noise_is_not_told_apart_and_the_seeds_that_it_would_take_are_named(study: Study) -> None:
    add(study, "erm", noise=0.04, seeds=3)
    add(study, "arith", 0.01, noise=0.04, seeds=3)
    found = told(study)
    assert "Not told apart from erm by these seeds: arith." in found.sentences
    gap = found.gaps[0]
    assert gap.estimate
    needed = gap.estimate.seeds_for(1.0)[0]
    assert needed > 3
    assert f"1 point takes about {needed:.0f} seeds" in found.sentences[-1]


def test_the_number_of_seeds_is_for_the_difference_that_is_named_and_never_the_observed_one(tmp_path: Path) -> None:
    found = []
    for above in (0.004, 0.104):
        study = Study(tmp_path / str(above))
        add(study, "erm", noise=0.03)
        add(study, "arith", above, noise=0.03)
        found.append(study)
    near, far = (told(study).gaps[-1].estimate for study in found)
    assert near
    assert far
    assert far.mean > near.mean + 5
    assert near.seeds_for(1.0) == pytest.approx(far.seeds_for(1.0))
    finer = told(found[0], difference=0.5).frame()["seeds"]
    assert (finer > told(found[0]).frame()["seeds"]).all()


def test_claims_of_a_table_are_corrected_for_one_another(study: Study) -> None:
    add(study, "erm")
    add(study, "arith", 0.03)
    alone = told(study).leading[0]
    add(study, "fish", 0.03)
    add(study, "coral", 0.03)
    found = told(study)
    assert {gap.algorithm for gap in found.leading} == {"arith", "fish", "coral"}
    arith = next(gap for gap in found.leading if gap.algorithm == "arith")
    assert alone.p is not None
    assert arith.p is not None
    assert alone.p < arith.p <= 3 * alone.p + 1e-12
    assert any("after correction for all claims" in said for said in found.sentences)


def test_one_seed_is_a_plain_sentence(study: Study) -> None:
    add(study, "erm", seeds=1)
    add(study, "arith", seeds=1)
    assert told(study).sentences == ["One seed cannot tell a difference from chance: run at least three."]
    assert told(study).frame()["difference"].notna().all()


def test_algorithms_with_the_same_numbers_are_the_same_and_nothing_is_said_of_seeds(study: Study) -> None:
    add(study, "erm", noise=0.0)
    add(study, "arith", noise=0.0)
    assert told(study).sentences[1:] == ["Within 1 point of erm: arith."]
    assert "arith 0.0 (0.0 to 0.0)" in told(study).sentences[0]


def test_nothing_is_compared_before_all_that_was_asked_for_has_ended(study: Study) -> None:
    add(study, "erm")
    add(study, "arith")
    trials = {one.folder.name: "" for one in study.outcomes} | {"0123456789abcdef": "arith on 0, seed 9"}
    (study.folder / "plan.json").write_text(json.dumps({"trials": trials}))
    found = told(study)
    assert (found.gaps, found.waiting) == ((), 1)
    assert found.sentences == ["1 trial has not ended: algorithms are compared when all have."]


def test_trials_of_another_request_that_have_ended_are_not_waited_for(study: Study) -> None:
    add(study, "erm")
    add(study, "arith")
    earlier = Results(tuple(study.outcomes), study.folder)
    add(study, "fish")
    trials = {one.folder.name: "" for one in study.outcomes if one.trial.algorithm == "fish"}
    (study.folder / "plan.json").write_text(json.dumps({"trials": trials}))
    assert earlier.waiting == 0
    assert dw.power(earlier).gaps


def test_pairs_that_lost_a_trial_are_left_out_and_counted(study: Study) -> None:
    add(study, "erm")
    add(study, "arith")
    for target in TARGETS:
        study.add("erm", 0.7, (target,), 6).add("arith", 0.1, (target,), 6, status="diverged")
    gap = told(study).gaps[0]
    assert (gap.pairs, gap.lost) == (12, 2)


def test_what_cannot_be_paired_is_said_and_not_left_out(study: Study) -> None:
    add(study, "erm")
    study.add("arith", 0.7, (TARGETS[0],), 99)
    assert "Not compared with erm, for want of finished trials of the same seeds on every target: arith." in str(
        told(study)
    )
    add(study, "fish", 0.03)
    assert told(study).sentences[-1].endswith("seeds on every target: arith.")


def test_pairs_that_were_lost_are_not_taken_for_one_seed(study: Study) -> None:
    add(study, "erm", seeds=1)
    add(study, "arith", seeds=1)
    for target in TARGETS:
        study.add("erm", 0.7, (target,), 6).add("arith", 0.1, (target,), 6, status="diverged")
    assert told(study).sentences[0].startswith("So few pairs as have finished cannot tell")


def test_a_window_without_evaluations_is_a_sentence(study: Study) -> None:
    add(study, "erm")
    add(study, "arith")
    with pytest.raises(InputError, match="there are no evaluations at updates 900000 to 900001 to compare"):
        told(study, window=(900_000, 900_001))


def test_the_baseline_is_erm_unless_another_is_named(study: Study) -> None:
    add(study, "arith", 0.03)
    add(study, "erm")
    assert {gap.baseline for gap in told(study).gaps} == {"erm"}
    turned = told(study, baseline="arith").gaps[0]
    assert turned.mean == pytest.approx(-(told(study).gaps[0].mean or 0.0))
    with pytest.raises(InputError, match='no algorithm "arit" in these results: did you mean arith'):
        told(study, baseline="arit")


@pytest.mark.parametrize(
    "how",
    [
        {"difference": 0.0},
        {"difference": float("nan")},
        *({"window": odd} for odd in ((9, 3), (9,), ("0", "9"), (0, 0.5))),
    ],
)
def test_numbers_that_make_no_sense_are_refused(study: Study, how: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"percentage points, above 0|from one update to a later one"):
        told(study, **how)


def test_a_print_has_the_sentences_and_a_row_for_each_statistic(study: Study) -> None:
    add(study, "erm")
    assert str(told(study)) == "There are no two algorithms to compare."
    add(study, "arith", 0.03)
    text = str(told(study))
    assert text.startswith("Against erm, by the mean over the evaluations in the second half of training, in points")
    assert [line.split()[:2] for line in text.splitlines()[-3:]] == [
        ["arith", name] for name in ("late", "last", "selected")
    ]
