"""What docs/study.md says of the study's results is what its records say."""

from __future__ import annotations

import json
import re
import runpy
from collections import Counter
from pathlib import Path
from statistics import fmean

import pytest
from scipy.stats import ttest_1samp

ROOT = Path(__file__).parents[1]
STUDY = runpy.run_path(str(ROOT / "docs" / "make_study.py"))
PLAN = runpy.run_path(str(ROOT / "benchmarks" / "study.py"))


def early(algorithm: str) -> dict[tuple[str, int], float]:
    """Mean accuracy at updates 400, 450, ..., 1000 of every trial of family P, read without any of our code."""
    found = {}
    for path in (ROOT / "results" / "study" / "P" / "trials").glob("*/trial.json"):
        trial = json.loads(path.read_text())
        if trial["algorithm"] == algorithm:
            records = [json.loads(line) for line in (path.parent / "records.jsonl").read_text().splitlines()]
            (target,) = trial["targets"]
            own = {record["step"]: record["domains"][target]["main"]["accuracy"] for record in records}
            found[target, trial["seed"]] = 100 * fmean(own[step] for step in range(400, 1001, 50))
    return found


def test_the_page_says_what_the_records_say() -> None:
    assert STUDY["page"]() == (ROOT / "docs" / "study.md").read_text(encoding="utf-8")


def test_the_primary_test_is_that_of_the_plan() -> None:
    erm, arith = early("erm"), early("arith")
    assert len(erm) == len(arith) == 32
    targets = {target for target, _ in erm}
    means = [fmean(arith[target, seed] - erm[target, seed] for target in targets) for seed in range(100, 108)]
    expected = ttest_1samp(means, 0)
    low, high = expected.confidence_interval(0.95)
    said = STUDY["primary"]()
    assert f"{fmean(means):+.2f} points, 95 % interval {low:+.2f} to {high:+.2f} (8 seeds" in said
    assert f"t = {expected.statistic:.2f}, 7 degrees of freedom, p = {expected.pvalue:.2f}" in said


def test_every_trial_is_one_that_the_plan_names() -> None:
    found = Counter()
    for path in (ROOT / "results" / "study").glob("*/trials/*/trial.json"):
        trial, result = json.loads(path.read_text()), json.loads((path.parent / "result.json").read_text())
        family = PLAN["FAMILIES"][path.parts[-4]]
        first, last = map(int, family.seeds.split("-"))
        assert result["versions"]["commit"] == PLAN["COMMIT"]
        assert trial["weights"] == PLAN["WEIGHTS"]
        assert (trial["data"], trial["network"], trial["batch"], trial["precision"]) == (
            "pacs",
            "resnet50.v1",
            32,
            "bf16",
        )
        assert (trial["steps"], trial["evaluate_every"]) == (
            (1001, 50) if family.options == PLAN["SHORT"] else (5001, 100)
        )
        assert trial["hyperparameters"]["lr"] == (1e-5 if "lr=1e-5" in family.options else 5e-5)
        assert trial["label"].replace(" ", "") in re.split(r",(?![^(]*\))", family.algorithms)
        assert first <= trial["seed"] <= last
        found[path.parts[-4], trial["label"], *trial["targets"], trial["seed"]] += 1
    assert set(found.values()) == {1}


def test_nothing_but_the_number_of_trials_is_read_of_a_family_that_is_not_complete() -> None:
    waiting = [name for name in STUDY["FAMILIES"] if not STUDY["complete"](name)]
    for name in waiting:
        with pytest.raises(AssertionError, match=name):
            STUDY["family"](name)
    assert all(f"| {name} | " in STUDY["progress"]() for name in STUDY["FAMILIES"])
