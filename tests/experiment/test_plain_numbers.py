"""A number of numpy is a number: it is taken wherever one is, and is kept as Python's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_data import stripes

import domainwise as dw
from domainwise.algorithms import create, resolved
from domainwise.averaging import EMA, MA
from domainwise.errors import InputError
from domainwise.experiment.settings import resolve
from domainwise.machine import check_count
from domainwise.training.targets import seeds_of

LITTLE: dict[str, Any] = {"targets": "a", "steps": 4, "batch": 4}


def test_a_comparison_by_numbers_of_numpy_is_the_same_one(tmp_path: Path) -> None:
    data = stripes("abc")
    first = dw.compare(data, "erm", seeds=[1], output=tmp_path, lr=0.01, dropout=0.5, **LITTLE)
    sizes = {**LITTLE, "steps": np.int64(4), "batch": np.uint8(4)}
    more = {"lr": np.float64(0.01), "dropout": np.float32(0.5), "processes": np.int16(1), "draws": np.int64(1)}
    seeds = np.arange(1, 2).tolist(), [np.int64(1)], [*np.arange(1, 2)]
    for given in seeds:
        again = dw.compare(data, "erm", seeds=given, output=tmp_path, **sizes, **more)
        assert [one.trial.id for one in again.outcomes] == [one.trial.id for one in first.outcomes]
    assert len(list((tmp_path / "trials").iterdir())) == 1
    model = dw.fit(data, "erm", seed=np.int64(1), steps=np.int64(4), output=tmp_path / "model")
    assert model.config["trial"]["seed"] == 1


def test_they_are_kept_as_plain_ones() -> None:
    settings = resolve(given={"steps": np.int64(20), "lr": np.float64(0.1), "inner_steps": np.int32(2)})
    kept = [settings.steps, settings.lr, settings.hyperparameters["inner_steps"], *seeds_of(np.int64(2))]
    kept += [check_count("threads", np.int64(1)), MA(start=np.int64(3)).start, EMA(decay=np.float32(0.5)).decay]
    kept += resolved(create("arith", inner_steps=np.int64(2), scale=np.float32(1.5), inner_lr=np.int64(1))).values()
    assert {type(one) for one in kept} <= {int, float, str, bool}
    assert json.dumps(kept)
    assert repr(MA(start=np.int64(3))) == "ma(start=3)"


@pytest.mark.parametrize(
    "call",
    [
        lambda: resolve(given={"steps": np.bool_(True)}),
        lambda: resolve(given={"steps": np.float64(4)}),
        lambda: resolve(given={"lr": np.float32("nan")}),
        lambda: create("arith", inner_steps=np.float64(2)),
        lambda: create("arith", inner_steps=np.bool_(True)),
        lambda: seeds_of(np.int64(0)),
        lambda: seeds_of([np.int64(-1)]),
        lambda: check_count("threads", np.bool_(True)),
        lambda: MA(start=np.float64(1)),
    ],
)
def test_what_is_no_such_number_is_refused_all_the_same(call: Callable[[], object]) -> None:
    with pytest.raises(InputError):
        call()
