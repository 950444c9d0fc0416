"""The estimator keeps scikit-learn's promises, and is the same training as ``dw.fit``."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import domainwise as dw
from domainwise.algorithms import create, names
from domainwise.algorithms.erm import ERM
from domainwise.sklearn import DomainClassifier, LeaveOneDomainOut

ROWS = 120
DOMAINS = np.repeat(["barn", "meadow", "stable"], ROWS // 3)
NAMES = np.array(["cat", "dog", "horse"])


@pytest.fixture(scope="module")
def table() -> tuple[Any, Any]:
    """Three classes that the first two columns tell apart, and a third column that is about the domain."""
    drawn = np.random.RandomState(0)
    labels = drawn.randint(0, 3, ROWS)
    x = drawn.randn(ROWS, 4) / 3
    x[:, 0] += labels == 1
    x[:, 1] += labels == 2
    x[:, 2] += DOMAINS == "meadow"
    return x, NAMES[labels]


def small(**settings: Any) -> DomainClassifier:
    return DomainClassifier(**{"steps": 20, "batch": 16, "lr": 0.01, "random_state": 0, "device": "cpu", **settings})


def images(channels: tuple[int, ...] = (3,)) -> tuple[Any, Any]:
    drawn = np.random.RandomState(0)
    labels = drawn.randint(0, 2, ROWS)
    x = drawn.randint(0, 60, (ROWS, 8, 8, *channels))
    x[labels == 1, :4] += 120
    return x.astype(np.uint8), labels


def test_it_is_the_training_of_fit(table: tuple[Any, Any], tmp_path: Path) -> None:
    x, y = table
    data = dw.domains({name: (x[name == DOMAINS], y[name == DOMAINS]) for name in np.unique(DOMAINS)})
    model = dw.fit(data, "erm", seed=3, steps=20, output=tmp_path / "model", device="cpu", progress=False)
    classifier = DomainClassifier("erm", steps=20, random_state=3, device="cpu").fit(x, y, sample_domain=DOMAINS)
    assert np.array_equal(classifier.predict_proba(x), model.probabilities(x))
    assert classifier.predict(x).tolist() == model.predict(x)


def test_scikit_learns_own_checks_pass() -> None:
    made = DomainClassifier(steps=25, batch=16, lr=0.01, settings={"evaluate_every": 25}, device="cpu")
    found = check_estimator(made, on_skip=None, on_fail=None)
    wrong = [(one["check_name"], one["exception"]) for one in found if one["status"] != "passed"]
    assert [name for name, _ in wrong] == ["check_array_api_input"], wrong  # skipped: SCIPY_ARRAY_API is not set


def test_each_domain_is_held_out_in_turn(table: tuple[Any, Any]) -> None:
    x, y = table
    own = LeaveOneDomainOut()
    theirs = [(a.tolist(), b.tolist()) for a, b in LeaveOneGroupOut().split(x, y, DOMAINS)]
    for given in ({"groups": DOMAINS}, {"sample_domain": DOMAINS}):
        assert [(a.tolist(), b.tolist()) for a, b in own.split(x, y, **given)] == theirs
        assert own.get_n_splits(**given) == 3
    found = cross_val_score(small(), x, y, cv=own, groups=DOMAINS, params={"sample_domain": DOMAINS})
    train, test = next(own.split(x, y, DOMAINS))
    alone = small().fit(x[train], y[train], sample_domain=DOMAINS[train])
    assert len(found) == 3
    assert found[0] == alone.score(x[test], y[test])
    assert alone.domains_.tolist() == ["meadow", "stable"]


def test_a_pipeline_and_a_search_pass_the_domains_on(table: tuple[Any, Any]) -> None:
    x, y = table
    pipeline = make_pipeline(StandardScaler(), small()).fit(x, y, domainclassifier__sample_domain=DOMAINS)
    assert pipeline[-1].domains_.tolist() == np.unique(DOMAINS).tolist()
    grid = {"algorithm": ["erm", "arith(inner_lr=0.02)"]}
    search = GridSearchCV(small(), grid, cv=LeaveOneDomainOut(), error_score="raise")
    search.fit(x, y, groups=DOMAINS, sample_domain=DOMAINS)
    assert search.best_estimator_.domains_.tolist() == np.unique(DOMAINS).tolist()
    assert search.n_splits_ == 3


@pytest.mark.parametrize("name", ["sample_domain", "groups"])
def test_routed_metadata_reaches_fit_and_split_unasked(name: str, table: tuple[Any, Any]) -> None:
    x, y = table
    before = sklearn.get_config()
    with sklearn.config_context(enable_metadata_routing=True):
        given = {name: DOMAINS}
        plain = cross_val_score(small(), x, y, cv=LeaveOneDomainOut(), params=given, error_score="raise")
        pipeline = make_pipeline(StandardScaler(), small())
        search = GridSearchCV(pipeline, {"domainclassifier__batch": [16]}, cv=LeaveOneDomainOut(), error_score="raise")
        search.fit(x, y, **given)
    assert search.best_estimator_[-1].domains_.tolist() == np.unique(DOMAINS).tolist()
    assert plain.tolist() == cross_val_score(
        small(), x, y, cv=LeaveOneDomainOut(), groups=DOMAINS, params={"sample_domain": DOMAINS}
    ).tolist()  # fmt: skip
    assert sklearn.get_config() == before


def test_groups_is_another_name_of_the_domains(table: tuple[Any, Any]) -> None:
    x, y = table
    first = small().fit(x, y, sample_domain=DOMAINS).predict_proba(x)
    assert np.array_equal(first, small().fit(x, y, groups=DOMAINS).predict_proba(x))
    assert np.array_equal(first, small().fit(x, y, sample_domain=DOMAINS, groups=list(DOMAINS)).predict_proba(x))


@pytest.mark.parametrize("name", sorted({*names()} - {"arm"}))
def test_without_domains_every_algorithm_trains_on_one(name: str, table: tuple[Any, Any]) -> None:
    x, y = table
    classifier = small(algorithm=name, steps=3).fit(x, y)
    assert classifier.domains_.tolist() == ["all"]
    assert np.allclose(classifier.predict_proba(x).sum(1), 1, atol=1e-5)


@pytest.mark.parametrize("channels", [(), (1,), (3,)])
@pytest.mark.parametrize("algorithm", ["erm", "arm"])
def test_images_are_taken_as_they_are(algorithm: str, channels: tuple[int, ...]) -> None:
    x, y = images(channels)
    classifier = small(algorithm=algorithm, steps=30).fit(x, y, sample_domain=DOMAINS)
    assert classifier.score(x, y) > 0.95
    assert classifier.n_features_in_ == x[0].size
    again = pickle.loads(pickle.dumps(classifier))
    assert np.array_equal(again.predict_proba(x), classifier.predict_proba(x))


def test_a_copy_and_a_pickle_answer_alike(table: tuple[Any, Any]) -> None:
    x, y = table
    for algorithm in ("arith(inner_steps=2)", create("coral", penalty=0.5), ERM):
        classifier = small(algorithm=algorithm).fit(x, y, sample_domain=DOMAINS)
        first = classifier.predict_proba(x)
        assert np.array_equal(pickle.loads(pickle.dumps(classifier)).predict_proba(x), first)
        assert np.array_equal(clone(classifier).fit(x, y, sample_domain=DOMAINS).predict_proba(x), first)


def test_seeds_that_ensembles_draw_are_taken(table: tuple[Any, Any]) -> None:
    x, y = table
    found = [small(random_state=seed).fit(x, y).predict_proba(x) for seed in (2**32 - 1, 2**32 - 1, 2**31 - 1)]
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


def test_weights_can_be_averaged(table: tuple[Any, Any]) -> None:
    x, y = table
    plain = small().fit(x, y, sample_domain=DOMAINS).predict_proba(x)
    averaged = small(average="ma(start=5)").fit(x, y, sample_domain=DOMAINS)
    assert not np.array_equal(averaged.predict_proba(x), plain)
    assert np.array_equal(pickle.loads(pickle.dumps(averaged)).predict_proba(x), averaged.predict_proba(x))


def test_fitting_draws_nothing_from_the_generators_of_others(table: tuple[Any, Any]) -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # type: ignore[index]
    small().fit(*table, sample_domain=DOMAINS)
    after = torch.get_rng_state(), np.random.get_state()[1], random.getstate()  # type: ignore[index]
    assert torch.equal(before[0], after[0])
    assert np.array_equal(before[1], after[1])
    assert before[2] == after[2]


def test_fits_in_threads_are_those_of_one_after_the_other(table: tuple[Any, Any]) -> None:
    x, y = table
    fits = [small(settings={"dropout": 0.3}, random_state=seed) for seed in range(4)]
    alone = [clone(one).fit(x, y, sample_domain=DOMAINS).predict_proba(x) for one in fits]
    with ThreadPoolExecutor(4) as threads:
        beside = list(threads.map(lambda one: one.fit(x, y, sample_domain=DOMAINS).predict_proba(x), fits))
    assert all(np.array_equal(one, other) for one, other in zip(alone, beside, strict=True))


def test_nothing_is_printed_or_written(
    table: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    x, y = table
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    small().fit(x, y, sample_domain=DOMAINS).predict(x)
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())
    small(verbose=True).fit(x, y, sample_domain=DOMAINS)
    assert "update 20 of 20: " in capfd.readouterr().out


BLANK = [None, *DOMAINS[1:]]
REFUSED: dict[str, tuple[Callable[[Any, Any], object], str]] = {
    "too few domains": (lambda x, y: small().fit(x, y, sample_domain=DOMAINS[1:]), "X has 120 rows, and its shape is"),
    "no domain": (lambda x, y: small().fit(x, y, sample_domain=BLANK), "names no domain for 1 rows, the first of them"),
    "two answers": (lambda x, y: small().fit(x, y, sample_domain=DOMAINS, groups=y), "and they differ"),
    "one class": (lambda x, y: small().fit(x, np.ones(ROWS)), "y has one class alone, 1.0"),
    "no such setting": (lambda x, y: small(settings={"stepps": 3}).fit(x, y), "no setting is called that"),
    "twice": (lambda x, y: small(settings={"steps": 3}).fit(x, y), "steps is given twice"),
    "a text for settings": (lambda x, y: small(settings="lr=1").fit(x, y), "settings must be a dictionary or None"),
    "no algorithm": (lambda x, y: small(algorithm=3).fit(x, y), "algorithm must be a text or .*, got 3"),
    "no averager": (lambda x, y: small(average=3).fit(x, y), "average must be a text or a list"),
    "two algorithms": (lambda x, y: small(algorithm="erm,arith").fit(x, y), "fit trains one algorithm, got 2"),
    "a seed": (lambda x, y: small(random_state=-1).fit(x, y), "a seed is a whole number from 0 up to"),
    "too high a rate": (lambda x, y: small(lr=1e30).fit(x, y, sample_domain=DOMAINS), "arith has diverged"),
    "another shape": (lambda x, y: small().fit(*images()).predict(images()[0][0]), "X has 3 dimensions"),
    "no average yet": (lambda x, y: small(average="ma(start=20)").fit(x, y), "had nothing to average"),
    "no groups": (lambda x, y: [*LeaveOneDomainOut().split(x, y)], "give groups=, or sample_domain="),
    "one group": (lambda x, y: [*LeaveOneDomainOut().split(x, y, y == 7)], "all rows are of False"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_is_refused_with_a_sentence(case: str, table: tuple[Any, Any]) -> None:
    call, sentence = REFUSED[case]
    with pytest.raises(dw.InputError, match=sentence):
        call(*table)
