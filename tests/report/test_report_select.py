"""``domainwise report --select``: the table by another rule, from the records alone."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import pytest
from made_outcomes import Study
from made_seals import reseal

from domainwise import InputError
from domainwise.__main__ import main
from domainwise.api import Results
from domainwise.experiment.records import append
from domainwise.experiment.results import Outcome
from domainwise.experiment.selection import RULES
from domainwise.report.tables import reselected

Table = dict[str, dict[str, dict[str, float]]]  # algorithm -> column -> cell


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every domain and every two of them held out, two draws, one seed; accuracies are dice."""
    study, dice = Study(tmp_path_factory.mktemp("pairs"), ("a", "b", "c")), random.Random(0)
    for draw, targets in product((0, 1), [("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c")]):
        study.add("erm", targets=targets, draw=draw, batch=8 + draw)
    for outcome in study.outcomes:
        (outcome.folder / "records.jsonl").unlink()
        for step in range(0, 50, 10):
            append(outcome.folder / "records.jsonl", diced(step, outcome.trial.targets, dice))
        reseal(outcome.folder)
    return study.folder


def diced(step: int, targets: tuple[str, ...], dice: random.Random) -> dict:
    parts = {name: ["holdout", "main"] if name in targets else ["holdout"] for name in "abc"}
    domains = {name: {part: {"accuracy": dice.random(), "count": 10} for part in parts[name]} for name in parts}
    return {"step": step, "loss": 1.0, "domains": domains}


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Table]:
    def call(*arguments: object) -> Table:
        monkeypatch.setattr(sys, "argv", ["domainwise", "report", *map(str, arguments), "--format", "json"])
        with pytest.raises(SystemExit) as end:
            main()
        assert not end.value.code
        rows = json.loads(capsys.readouterr().out)["rows"]
        return {row["algorithm"]: {cell["column"]: cell for cell in row["cells"]} for row in rows}

    return call


def accuracy(record: dict, domain: str, part: str = "main") -> float:
    return record["domains"][domain][part]["accuracy"]


def runs_of(outcomes: Sequence[Outcome], draw: int) -> dict[frozenset[str], list[dict]]:
    return {frozenset(one.trial.targets): one.records() for one in outcomes if one.trial.draw == draw}


def left_out(outcomes: Sequence[Outcome], target: str) -> float:
    """The accuracy where that on the other domains, each held out beside the target, is best."""
    values = {}
    for draw in (0, 1):
        runs = runs_of(outcomes, draw)
        for at, record in enumerate(runs[frozenset(target)]):
            others = [accuracy(runs[frozenset((target, name))][at], name) for name in "abc" if name != target]
            values[sum(others)] = accuracy(record, target)
    return values[max(values)]


def test_leave_one_out_chooses_by_the_runs_that_hold_out_one_more(pairs: Path, table) -> None:
    found = table(pairs, "--select", "leave-one-out")
    outcomes = Results.open(pairs).outcomes
    assert list(found["erm"]) == ["a", "b", "c", "Avg", "validation"]
    for target in "abc":
        assert found["erm"][target]["mean"] == left_out(outcomes, target)


def test_oracle_and_last_take_the_last_step(pairs: Path, table) -> None:
    last, oracle = table(pairs, "--select", "last"), table(pairs, "--select", "oracle")
    runs = [runs_of(Results.open(pairs).outcomes, draw)[frozenset("b")][-1] for draw in (0, 1)]
    by_validation = max(runs, key=lambda record: accuracy(record, "a", "holdout") + accuracy(record, "c", "holdout"))
    by_target = max(runs, key=lambda record: accuracy(record, "b", "holdout"))
    assert by_target is not by_validation  # or neither could be told from the other
    assert last["erm"]["b"]["mean"] == accuracy(by_validation, "b")
    assert oracle["erm"]["b"]["mean"] == accuracy(by_target, "b")


def test_validation_is_what_the_table_has_anyway(tmp_path: Path, table) -> None:
    study = Study(tmp_path)
    for seed in (0, 1):
        study.add("erm", 0.6, seed=seed, validation=0.9).add("erm", 0.7, seed=seed, validation=0.8, batch=8, draw=1)
    study.add("arith", seed=0, status="diverged", ended=100)
    usual, chosen = table(tmp_path), table(tmp_path, "--select", "validation")
    assert chosen == usual
    assert chosen["erm"]["75"]["mean"] == pytest.approx(0.6)
    assert chosen["arith"]["75"]["note"] == "diverged at 100"


def test_the_caption_names_the_rule_and_no_page_is_written(pairs: Path) -> None:
    for name, rule in RULES.items():
        if name in ("val", "id_val"):  # of official splits
            continue
        said = " ".join(Results.open(pairs).table(select=name).split())
        assert f"at the step and of the draw chosen by {rule.title}." in said
        assert "best validation accuracy counts" not in said
    assert not (pairs / "report.html").exists()


def test_a_rule_chooses_one_trial_of_a_seed_or_one_that_was_lost(tmp_path: Path) -> None:
    study = Study(tmp_path)
    for draw in range(3):
        study.add("erm", draw=draw, batch=8 + draw).add("irm", draw=draw, batch=8 + draw, status="failed", ended=100)
    assert [one.trial.algorithm for one in reselected(study.outcomes, "last")] == ["erm", "irm"]


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("leave-one-out", "run them with --targets pairs"),
        ("oracle", "needs the accuracy on the target's own hold-out"),
        ("vibes", 'no selection rule "vibes"'),
    ],
)
def test_what_a_rule_lacks_is_a_sentence(tmp_path: Path, rule: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Results(tuple(Study(tmp_path).add().outcomes), tmp_path).table(select=rule)


def test_a_rule_and_a_page_are_not_asked_for_at_once(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["domainwise", "report", str(tmp_path), "--select", "last", "-o", "page.html"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert "give -o, or --select or --metric" in capsys.readouterr().err
