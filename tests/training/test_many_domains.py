"""Hundreds of domains, unequal and tiny, of which an update takes some."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_many import finished
from made_trials import Killed, die, remains, run

import domainwise as dw
from domainwise import domains
from domainwise.acceleration.shared_device import directly
from domainwise.algorithms import parse
from domainwise.cli.commands.fit import _told
from domainwise.data.batches.feed import Feed
from domainwise.data.batches.inputs import Inputs, Part
from domainwise.data.domains import Domains
from domainwise.data.sources.classes import class_notes
from domainwise.errors import InputError, Note
from domainwise.experiment.settings import resolve
from domainwise.experiment.trial import Trial
from domainwise.report.results import Results
from domainwise.report.tables import accuracy_table, narrowed
from domainwise.training.loop import run as records_of
from domainwise.training.plan import plan
from domainwise.training.run_options import RunOptions
from domainwise.training.setup import set_up

pytestmark = pytest.mark.filterwarnings("ignore::domainwise.errors.Note")


def many(count: int, least: int = 1, most: int = 40) -> Domains:
    """Tables of two classes; the first domains have 1, 2, 3, ... rows up to ``most``, and then from 1 again."""
    random = np.random.default_rng(0)
    made = {}
    for i in range(count):
        rows = least + i % (most - least + 1)
        y = np.arange(rows) % 2
        made[f"d{i:03}"] = (random.normal(size=(rows, 4)) + 2 * y[:, None] * [1, 1, 0, 0] + 0.1 * i, y)
    return domains(made, name="many", classes=["no", "yes"])


DATA = many(12, most=12)


def trial(text: str, data: Domains = DATA, target: str = "d011", **given: Any) -> Trial:
    settings = resolve(given={"steps": 20, "evaluate_every": 6, "batch": 4, "domains_per_step": 3, **given})
    (one,) = plan(data, parse(text), [(target,)], [0], settings)
    return one


def feed(sizes: list[int], **options: Any) -> Feed:
    data = many(len(sizes))
    parts = [
        Part(domain, np.arange(len(domain)).repeat(size)[:size], "cpu")
        for domain, size in zip(data, sizes, strict=True)
    ]
    return Feed(parts, Inputs("none", 0), 2, 0, **options)


@pytest.mark.parametrize("some", [1, 2, 3])
@pytest.mark.parametrize("sizes", [[10, 20, 30, 40], [1, 2, 3, 400]])
def test_every_domain_takes_part_equally_often_or_by_its_size(sizes: list[int], some: int) -> None:
    """By size is one after the other, each with the chances of those that are left."""
    by_size = [0.0] * 4
    for order in permutations(range(4), some):
        chance, left = 1.0, sum(sizes)
        for i in order:
            chance, left = chance * sizes[i] / left, left - sizes[i]
        for i in order:
            by_size[i] += chance
    for by, chances in (("uniform", [some / 4] * 4), ("size", by_size)):
        one, seen = feed(sizes, some=some, by=by), Counter()
        for _ in range(3000):
            seen.update(one._taking_part())
        assert [seen[i] / 3000 for i in range(4)] == pytest.approx(chances, abs=0.04)


@pytest.mark.parametrize("by", ["uniform", "size"])
@pytest.mark.parametrize("times", [1, 2])
def test_an_update_has_as_many_domains_as_are_asked_for_each_once_and_rows_of_theirs(by: str, times: int) -> None:
    one = feed([3, 1, 5, 9, 2], some=3, by=by)
    for _ in range(20):
        batches = one.draw(times)
        assert len(batches) == len({*one.domains}) == 3
        for number, batch in zip(one.domains, batches, strict=True):
            for x, _ in [batch] if times == 1 else batch:
                known = torch.from_numpy(one.parts[number].domain.images)
                assert all((known == row).all(1).any() for row in x)


def test_which_domains_come_next_goes_on_from_a_saved_state() -> None:
    first, second = feed([3] * 9, some=2), feed([3] * 9, some=2)
    for _ in range(5):
        first.draw()
    second.load_state_dict(first.state_dict())
    for _ in range(5):
        ours, theirs = first.draw(), second.draw()
        assert first.domains == second.domains
        assert all(torch.equal(a, b) for (a, _), (b, _) in zip(ours, theirs, strict=True))


def test_taking_all_domains_is_what_it_was_and_another_number_is_another_trial() -> None:
    plain = trial("erm", domains_per_step=0)
    assert "domains_per_step" not in plain.identity
    assert len({plain.id, trial("erm").id, trial("erm", domains_by="size").id}) == 3


@pytest.mark.parametrize("name", ["erm", "fish", "arith", "coral", "fishr(anneal=4)", "reptile", "mldg"])
def test_training_on_some_domains_at_a_time_goes_on_exactly(tmp_path: Path, name: str) -> None:
    one = trial(name, domains_by="size")
    run(one, tmp_path / "whole", data=DATA)
    with pytest.raises(Killed):
        run(one, tmp_path / "killed", data=DATA, at=13, then=die)
    assert run(one, tmp_path / "killed", data=DATA) == ["resumes at step 10"]
    assert remains(tmp_path / "killed") == remains(tmp_path / "whole")


def test_a_loss_that_diverges_names_the_domain_that_was_drawn() -> None:
    one = trial("arith")
    setup = set_up(one, DATA, RunOptions(), print, directly)
    metrics = setup.train()
    assert {f"leg{i}" for i in setup.feed.domains} == metrics.keys() - {"loss"}
    assert setup.losses.sources == [name for name in DATA.names if name != "d011"]


def test_tiny_domains_are_trained_on_and_told_of_and_do_not_validate() -> None:
    with pytest.warns(Note, match=r"4 of the 12 domains of many \(d000, d001, d002, d003\) are too small to hold 20%"):
        one = trial("erm")
    (record, *_) = records_of(one, DATA)
    assert [*record["domains"]] == [f"d{i:03}" for i in range(4, 12)]
    with pytest.warns(Note):
        tiny = trial("erm", target="d000")
    (record, *_) = records_of(tiny, DATA)
    assert record["domains"]["d000"].keys() == {"main"}
    assert record["domains"]["d000"]["main"]["count"] == 1


@pytest.mark.parametrize("augmented", [False, True])
def test_sources_evaluated_together_score_as_each_on_its_own(augmented: bool) -> None:
    one = trial("erm", many(30), "d029", steps=2, evaluate_every=1)
    one = replace(one, validation="augmented" if augmented else "plain", average="ma(start=0)")
    evaluator = set_up(one, many(30), RunOptions(evaluate_all=True), print, directly).evaluator
    together, outcomes = evaluator.evaluate(), evaluator.outcomes()
    assert len(evaluator._passes()) == 4  # the main part and the hold-outs of the sources, and those of the target
    evaluator.feed.some = 0
    apart = evaluator.evaluate()
    assert together.keys() == apart.keys()
    for name, parts in apart.items():
        assert parts.keys() == together[name].keys()
        for part, scores in parts.items():
            own = together[name][part]
            assert own.pop("loss") == pytest.approx(scores.pop("loss"), rel=1e-5)
            for bins in (own["calibration"], scores["calibration"]):
                bins["confidence"] = np.round(bins["confidence"], 4).tolist()
            assert own == scores
    for name, parts in evaluator.outcomes().items():
        for part, columns in parts.items():
            for column, values in columns.items():
                torch.testing.assert_close(values, outcomes[name][part][column], atol=1e-5, rtol=1e-4)


def test_of_hundreds_of_targets_a_table_has_percentiles_and_csv_has_each(tmp_path: Path) -> None:
    data = many(120, most=12)
    targets = [(name,) for name in data.names]
    trials = plan(data, parse("erm,arith"), targets, [0], resolve(given={"steps": 300}))
    results = Results.open(finished(tmp_path, data, trials))
    table = results.table()
    assert re.search(r"algorithm +worst +10 % +median +90 % +Avg +validation", table)
    assert "Columns are over 120 targets" in " ".join(table.split())
    assert sum(name in results.table("csv") for name in data.names) == 120
    page = results.report(tmp_path / "page.html").read_text()
    assert "Of 120 targets, the 20 with the lowest accuracy are looked into for this." in page
    assert page.count("target accuracy, % against the step, target d") == 20
    assert "Worst targets" in page
    erm = [one.result["selected"]["target"] for one in results.outcomes if one.trial.algorithm == "erm"]
    (row,) = [row for row in narrowed(accuracy_table(results.outcomes)).rows if row.algorithm == "erm"]
    assert [cell.mean for cell in row.cells[:4]] == pytest.approx([*np.percentile(erm, [0, 10, 50, 90])])


def test_a_model_of_many_tiny_domains_is_fitted_and_predicts(tmp_path: Path) -> None:
    model = dw.fit(many(40), "arith", steps=10, domains_per_step=4, batch=4, output=tmp_path, progress=False)
    assert len(model.predict(DATA.items[5].images)) == 6
    told = _told(tmp_path)
    assert "and 26 domains that it does better on" in told
    assert len(re.findall(r"^d\d{3} ", told, re.MULTILINE)) == 10


def test_classes_that_many_domains_lack_are_one_note() -> None:
    counts = {f"d{i}": {"cat": 1, "dog": int(i > 20), f"only {i}": 1} for i in range(40)}
    gaps, singles = class_notes(counts)
    assert gaps.startswith('21 of the 40 domains have no images of classes that others have; domain "d0" has no')
    assert singles.startswith('40 classes are in one domain alone, as in the first case: only domain "d0" has class')


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"domains_per_step": 12}, "domains_per_step=12 is more than the 11 domains that are trained on"),
        ({"domains_per_step": 0, "domains_by": "size"}, "domains_by has no effect without domains_per_step"),
        ({"domains_by": "luck"}, "domains_by must be one of uniform, size"),
        ({"domains_per_step": -1}, "domains_per_step must be a whole number from 0 up"),
    ],
)
def test_numbers_of_domains_that_make_no_sense_are_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        trial("erm", **given)
