"""Official splits: trained on the train rows, chosen by val or id_val, tested on the test rows of other domains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_trials import Killed, die, remains, run

import domainwise as dw
from domainwise import domains
from domainwise.algorithms import parse
from domainwise.analysis.task import task
from domainwise.data.domains import PARTS, Domains
from domainwise.data.splits import official_rows
from domainwise.errors import InputError, Note
from domainwise.experiment import outcomes
from domainwise.experiment.results import Outcome
from domainwise.experiment.settings import resolve
from domainwise.experiment.trial import Trial
from domainwise.interop.domainbed_trials import export
from domainwise.report.explain import explanation
from domainwise.training.loop import run as records_of
from domainwise.training.plan import plan
from domainwise.training.run_trial import execute
from domainwise.training.targets import targets_of

SPLITS = {**dict.fromkeys("abc", "train"), "d": "val", **dict.fromkeys("ef", "test")}


def made(sizes: int = 40, splits: dict[str, str] = SPLITS, flipped: str = "") -> Domains:
    """Tables; a third of each source domain is id_val. The labels of one part may be the wrong ones."""
    random, arrays, parts = np.random.default_rng(0), {}, {}
    for i, (name, part) in enumerate(splits.items()):
        y = np.arange(sizes + i) % 2
        x = random.normal(size=(len(y), 4)) + y[:, None] * [2, 1 - 0.3 * i, 0, 0]
        parts[name] = np.where((np.arange(len(y)) % 3 == 0) & (part == "train"), "id_val", part)
        arrays[name] = (x, np.where(parts[name] == flipped, 1 - y, y))
    return domains(arrays, name="made", splits=parts, classes=["no", "yes"])


DATA = made()


def trial(text: str = "arith", data: Domains = DATA, **given: Any) -> Trial:
    settings = resolve(given={"steps": 20, "evaluate_every": 5, "batch": 8, "lr": 1e-2, **given})
    (one,) = plan(data, parse(text), targets_of(data, "auto"), [0], settings)
    return one


def test_the_official_split_is_the_default_and_its_parts_are_evaluated_as_one_each() -> None:
    assert targets_of(DATA, "auto") == targets_of(DATA, "official") == [("official",)]
    sizes = {part: sum(map(len, official_rows(DATA, which).values())) for which, part in PARTS.items()}
    for record in records_of(trial(), DATA):
        counts = {name: {part: one["count"] for part, one in own.items()} for name, own in record["domains"].items()}
        assert counts == {
            "id_val": {"holdout": sizes["id_val"]},
            "val": {"holdout": sizes["val"]},
            "official": {"main": sizes["test"]},
        }


@pytest.mark.parametrize("selection", ["validation", "id_val", "val"])
def test_neither_training_nor_selection_sees_the_test_rows(tmp_path: Path, selection: str) -> None:
    results = {}
    for which in ("", "test"):
        data = made(flipped=which)
        one = replace(trial(data=data, selection=selection), fingerprint="")
        results[which] = execute(one, data, tmp_path / f"{which}-{selection}")["selected"]
    plain, poisoned = results[""], results["test"]
    assert (plain["step"], plain["validation"]) == (poisoned["step"], poisoned["validation"])
    assert plain["target"] == pytest.approx(1 - poisoned["target"])


@pytest.mark.parametrize("part", ["id_val", "val", "test"])
def test_only_train_rows_are_trained_on(part: str) -> None:
    losses = [[record["loss"] for record in records_of(trial(data=data), data)] for data in (DATA, made(flipped=part))]
    assert losses[0] == losses[1]


@pytest.mark.parametrize(("selection", "part"), [("validation", "val"), ("val", "val"), ("id_val", "id_val")])
def test_the_step_is_the_best_by_the_part_that_selection_names(tmp_path: Path, selection: str, part: str) -> None:
    one = trial(selection=selection, lr=0.1)
    result = execute(one, DATA, tmp_path)
    scores = {record["step"]: record["domains"][part]["holdout"]["accuracy"] for record in records_of(one, DATA)}
    assert result["selected"]["validation"] == max(scores.values())
    assert result["selected"]["step"] == min(step for step, score in scores.items() if score == max(scores.values()))


def test_without_other_validation_domains_the_sources_own_validates() -> None:
    data = made(splits={**SPLITS, "d": "train"})
    assert [*next(records_of(trial(data=data), data))["domains"]] == ["id_val", "official"]


def test_outcomes_name_the_rows_and_the_scores_by_domain_follow_from_them(tmp_path: Path) -> None:
    one = trial()
    result = execute(one, DATA, tmp_path)
    seen = outcomes.read(Outcome(one, result, tmp_path))["official"]["main"]
    names = np.repeat(DATA.names, [len(domain) for domain in DATA])
    labels = np.concatenate([domain.labels for domain in DATA])
    assert set(names[seen.index]) == {"e", "f"}
    assert np.array_equal(labels[seen.index], seen.label)
    right = {name: (seen.predicted == seen.label)[names[seen.index] == name].mean() for name in "ef"}
    measures = result["selected"]["measures"]
    assert measures["worst_group"] == pytest.approx(min(right.values()))
    assert measures["percentile_10"] == pytest.approx(np.percentile([*right.values()], 10))


@pytest.mark.parametrize("name", ["erm", "fish", "fishr(anneal=4)"])
def test_a_run_on_an_official_split_goes_on_exactly(tmp_path: Path, name: str) -> None:
    one = trial(name, domains_per_step=2, evaluate_every=6)
    run(one, tmp_path / "whole", data=DATA)
    with pytest.raises(Killed):
        run(one, tmp_path / "killed", data=DATA, at=13, then=die)
    assert run(one, tmp_path / "killed", data=DATA) == ["resumes at step 10"]
    assert remains(tmp_path / "killed") == remains(tmp_path / "whole")


def test_comparing_reporting_and_looking_inside_take_an_official_split(tmp_path: Path) -> None:
    results = dw.compare(DATA, "erm,fish", seeds=2, steps=10, output=tmp_path / "out", progress=False, processes=1)
    assert [*results.frame()["targets"].unique()] == ["official"]
    assert {"worst_group", "percentile_10"} <= {*results.frame().dropna(axis=1).columns}
    assert "official" in results.table()
    page = results.report(tmp_path / "page.html").read_text()
    groups, per_trial = results.groups(), results.frame().set_index("id")
    assert [*groups["group"].unique()] == ["e", "f"]
    assert groups.groupby("id")["accuracy"].min().to_dict() == per_trial["worst_group"].to_dict()
    assert "on 2 groups" not in page
    assert "Accuracy in percent over 2 groups of the test images" in page
    assert "on the test images of the official split, at the step chosen on its" in " ".join(results.table().split())
    assert "on the test images of the official split." in results.recommend().sentence
    told = " ".join(explanation(results.outcomes[0]).split())
    assert "accuracy on the test images of the official split, 89 images, at step" in told
    assert "evaluation every 1 steps, on the parts of the official split" in told
    with pytest.raises(InputError, match="trials on an official split test on no domain of their own"):
        export(results.outcomes, tmp_path / "exported")
    model = dw.load(next(iter((tmp_path / "out" / "trials").iterdir())))
    assert model.config["domains"] == ["a", "b", "c"]
    found = task(model, DATA)
    assert found.sources == ["a", "b", "c"]
    assert [len(y) for _, y in found.domains.values()][:3] == [*map(len, official_rows(DATA, 0).values())]


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (
            lambda: targets_of(dw.digits(), "official"),
            "digits has no official split: name targets, or say which images",
        ),
        (
            lambda: trial(data=made(splits=dict.fromkeys("ab", "test"))),
            "has no images of train to train on; it has test",
        ),
        (
            lambda: trial(data=made(splits={**SPLITS, "d": "train"}), selection="val"),
            "has no images of val for selection=val; it has train, id_val, test",
        ),
        (
            lambda: plan(DATA, parse("erm"), [("a",)], [0], resolve(given={"selection": "val"})),
            "selection=val looks at an official split: ask for the targets official",
        ),
        (lambda: trial(domains_per_step=4), "domains_per_step=4 is more than the 3 domains that are trained on"),
    ],
)
def test_what_an_official_split_lacks_is_a_sentence(build: Callable[[], object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        build()


def test_named_targets_and_fit_leave_the_official_split_aside_with_a_note(tmp_path: Path) -> None:
    with pytest.warns(Note, match="made has an official split, which the targets official go by"):
        assert targets_of(DATA, "a,d") == [("a",), ("d",)]
    with pytest.warns(Note, match="fit trains on all images of made, those of the official val and test too"):
        dw.fit(DATA, "erm", steps=4, output=tmp_path, progress=False)
