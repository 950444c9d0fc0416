"""The sets of WILDS that are texts are read from their official folders, with their official domains and splits."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from made_wilds import amazon, civilcomments

import domainwise as dw
from domainwise.data.domains import HOLDOUT, ID_TEST, MAIN, TEST, VAL
from domainwise.data.sources.open import open_data


def test_amazon_has_a_domain_for_each_reviewer_in_the_published_part(tmp_path: Path) -> None:
    root = amazon(tmp_path)
    with pytest.warns(UserWarning, match="amazon: 1 texts are empty, and read as a full stop"):
        data = open_data(f"amazon={root}")
    assert data.names == ("A1", "A2", "V1", "T1", "T2")
    assert data.classes == ("1", "2", "3", "4", "5")
    parts = {domain.name: Counter(domain.fixed.tolist()) for domain in data if domain.fixed is not None}
    assert parts == {
        "A1": {MAIN: 2, HOLDOUT: 1, ID_TEST: 1},  # the row that is in no split is not there
        "A2": {MAIN: 4},
        "V1": {VAL: 3},
        "T1": {TEST: 3},
        "T2": {TEST: 2},
    }
    assert data["A2"].labels.tolist() == [2, 3, 4, 0]
    assert [data.subgroups[i] for i in data["T2"].subgroups[:, 0]] == ["user:T2", "user:T2"]  # type: ignore[index]
    (root / "amazon_v2.1" / "splits" / "user.csv").write_text("split\n0\n1\n")
    with pytest.raises(dw.InputError, match=r"user\.csv has 2 rows and reviews\.csv 17: they are of two downloads"):
        open_data(f"amazon={root}")


def test_civilcomments_trains_on_identities_and_is_tested_on_each_comment_once(tmp_path: Path) -> None:
    data = open_data(f"civilcomments={civilcomments(tmp_path)}")
    pairs = [f"{who} {y}" for who in ("black", "male", "no identity", "white") for y in ("non-toxic", "toxic")]
    assert data.names == (*pairs, "val", "test")
    assert {name: len(data[name]) for name in data.names} == {
        **dict.fromkeys(pairs, 2),
        "no identity non-toxic": 4,
        "no identity toxic": 4,
        "val": 16,
        "test": 16,
    }
    groups = data["test"].subgroups
    assert groups is not None
    told = Counter(data.subgroups[i] for i in groups.ravel() if i >= 0)
    assert told == {f"{who}:{y}": 2 for who in ("male", "black", "white") for y in ("non-toxic", "toxic")}
    for domain in data:
        assert domain.fixed is not None
        assert set(domain.fixed) == {{"val": VAL, "test": TEST}.get(domain.name, MAIN)}
        if domain.name in pairs:
            assert set(domain.labels) == {int(domain.name.endswith(" toxic"))}


def test_texts_of_wilds_are_compared_by_their_official_split(tmp_path: Path) -> None:
    data = open_data(f"civilcomments={civilcomments(tmp_path)}")
    given: dict[str, Any] = {"steps": 3, "batch": 2, "domains_per_step": 3, "seeds": 1, "report": False}
    results = dw.compare(data, "erm,fish", output=tmp_path / "out", **given)
    assert "chosen by the worst group (the column validation) on its validation set" in results.table().replace(
        "\n", " "
    )
    assert "sites it was trained on" not in str(results.answer())  # it is validated on others, and by another score
    for outcome in results.outcomes:
        test = outcome.records()[-1]["domains"]["official"]["main"]
        assert test["metrics"]["judged"] == test["metrics"]["worst_group"]
        assert test["metrics"]["male:toxic"] in (0, 0.5, 1)
