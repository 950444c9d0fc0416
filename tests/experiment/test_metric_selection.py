"""A step is selected by the metric that a trial names, one's own among them, and what goes wrong is said with where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_data import stripes
from made_trials import run, trial

import domainwise as dw
from domainwise.experiment import outcomes
from domainwise.experiment.metrics import METRICS, metric
from domainwise.experiment.records import Record
from domainwise.experiment.results import Outcome, outcome

OWN = """
def score(labels, probabilities):
    return -abs(probabilities[:, 0].mean() - 0.5)
def sometimes(labels, probabilities):
    return float("nan") if (labels == 0).all() or len(labels) < 1000 else 1.0
"""
Command = Callable[..., tuple[int, str, str]]  # the command line, in an empty folder


def judged(record: Record, *targets: str) -> list[float]:
    domains = {name: parts["holdout"] for name, parts in record["domains"].items() if name not in targets}
    return [part["metrics"]["judged"] for part in domains.values()]


def finished(folder: Path, name: str, **settings: object) -> Outcome:
    one = trial("erm", metric=name, **settings)
    run(one, folder)
    return outcome(folder)


def check(found: Outcome, name: str, over: Callable[[list[float]], float]) -> None:
    values = {record["step"]: over(judged(record, "c")) for record in found.records()}
    step = found.selected["step"]
    assert values[step] == max(values.values())
    assert step == next(at for at, value in values.items() if value == values[step])
    (record,) = (one for one in found.records() if one["step"] == step)
    seen, of = outcomes.read(found), metric(name).of
    assert judged(record, "c") == pytest.approx(
        [of(seen[domain]["holdout"].label, seen[domain]["holdout"].probabilities()) for domain in "ab"], rel=1e-5
    )


@pytest.mark.parametrize("name", [*[name for name in METRICS if name != "accuracy"], "mine.py:score"])
def test_the_step_has_the_best_mean_of_the_metric_over_the_sources(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(OWN)
    found = finished(tmp_path / "out", name)
    check(found, name, lambda values: float(np.mean(values)))
    assert found.selected["validation"] == pytest.approx(np.mean(judged(_record(found), "c")))


def _record(found: Outcome) -> Record:
    return next(one for one in found.records() if one["step"] == found.selected["step"])


def test_the_source_that_does_worst_may_count_alone(tmp_path: Path) -> None:
    check(finished(tmp_path / "out", "macro_f1", selection="worst"), "macro_f1", min)


def test_accuracy_changes_neither_ids_nor_records_and_a_metric_of_ones_own_counts_by_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(OWN)
    plain, own = trial("erm"), trial("erm", metric="mine.py:score")
    assert "metric" not in plain.identity
    assert trial("erm", metric="accuracy").id == plain.id != trial("erm", metric="auroc").id
    assert replace(own, metric_file="/elsewhere/mine.py").id == own.id
    assert own.shared()["metric_file"] == "mine.py"
    Path("mine.py").write_text(OWN + "\n")
    assert trial("erm", metric="mine.py:score").id != own.id
    run(plain, tmp_path / "out")
    assert all("metrics" not in part for one in outcome(tmp_path / "out").records() for part in _parts(one))


def _parts(record: Record) -> list[object]:
    return [part for parts in record["domains"].values() for part in parts.values()]


def test_what_goes_wrong_is_a_sentence(tmp_path: Path, domainwise: Command) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    with pytest.warns(UserWarning, match='gave nan for 6 labels: .* on the hold-out of domain "a", which is selected'):
        dw.compare(stripes(), "erm", targets="c", seeds=1, steps=2, metric="mine.py:sometimes", output=tmp_path / "o")
    for settings, said in (
        (["metric=aurok"], 'there is no metric "aurok": did you mean auroc?'),
        (["metric=gone.py:f"], "there is no gone.py"),
        (
            ["metric=auroc", "selection=pooled"],
            'selection="pooled" goes by accuracy, so that metric=auroc has',
        ),
    ):
        given = [word for one in settings for word in ("--set", one)]
        code, _, told = domainwise("compare", "--data", "digits", "--dry-run", *given)
        assert (code, said in told) == (2, True), told


def test_the_table_says_which_metric_chose_and_does_not_take_it_for_an_accuracy(tmp_path: Path) -> None:
    results = dw.compare(stripes(), "erm", seeds=1, steps=4, evaluate_every=2, metric="auroc", output=tmp_path)
    assert "Steps were chosen by auroc, and that is what validation is." in " ".join(results.table().split())
    assert results.recommend().known is None
    assert dw.fit(results, output=tmp_path / "model").config["trial"]["metric"] == "auroc"
