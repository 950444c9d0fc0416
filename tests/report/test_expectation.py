"""What a comparison lets one expect of a model, beside what it recommends."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from made_data import stripes
from made_outcomes import Study
from torch.nn import functional as F

import domainwise as dw
from domainwise.errors import Note
from domainwise.experiment import outcomes
from domainwise.report.expectation import HOTTEST, expectation, temperature
from domainwise.report.results import Results


def told(seed: int, size: int = 400, classes: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    logits = 5 * torch.randn(size, classes, dtype=torch.float64)
    return logits, torch.distributions.Categorical(logits=logits / 2.5).sample()


def test_the_temperature_is_where_the_surprise_is_least() -> None:
    trials = [told(0), told(1, size=37)]
    found = temperature([(logits.numpy(), labels.numpy()) for logits, labels in trials])
    own = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([own], max_iter=200, tolerance_grad=1e-12, tolerance_change=1e-14)

    def surprise() -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.stack([F.cross_entropy(logits / own, labels) for logits, labels in trials]).mean()
        loss.backward()
        return loss

    optimizer.step(surprise)  # type: ignore[arg-type]
    assert found == pytest.approx(own.item(), rel=1e-6)
    assert found == pytest.approx(2.5, abs=0.5)


def test_logits_that_say_nothing_are_made_as_mild_as_can_be() -> None:
    logits, labels = told(0)
    assert temperature([((-logits).numpy(), labels.numpy())]) == pytest.approx(HOTTEST, rel=1e-6)


def test_an_expectation_has_the_numbers_of_the_recommendation_and_of_the_held_out_logits(tmp_path: Path) -> None:
    results = dw.compare(stripes(), "erm,arith", seeds=2, steps=8, evaluate_every=4, output=tmp_path)
    row = results.recommend()
    found = expectation(results, row)
    assert (found.label, dict(found.sites), found.known) == (row.label, dict(row.sites), row.known)
    assert (found.expected, found.chance) == (row.expected, row.coverage)
    assert found.worst_classes == row.worst_classes
    own = [one for one in results.outcomes if one.trial.label == row.label]
    assert len(own) == 6
    parts = [outcomes.read(one)[one.trial.targets[0]].values() for one in own]
    flat = [
        (np.concatenate([p.logits for p in some]), np.concatenate([p.label for p in some])) for some in map(list, parts)
    ]
    assert found.temperature == temperature(flat)
    surprise = [
        [F.cross_entropy(torch.tensor(logits) / t, torch.tensor(labels)).item() for logits, labels in flat]
        for t in (found.temperature, 1.0)
    ]
    assert sum(surprise[0]) <= sum(surprise[1])


def test_without_outcomes_the_rest_is_still_known_and_the_temperature_is_said_to_be_missing(tmp_path: Path) -> None:
    study = Study(tmp_path)
    for target in ("0", "15", "75"):
        study.add(targets=(target,)).add(targets=(target,), seed=1)
    results = Results(tuple(study.outcomes), tmp_path)
    with pytest.warns(Note, match=r"probabilities are not made to fit new sites: .* has no outcomes.npz"):
        found = expectation(results, results.recommend())
    assert found.temperature == 1.0
    assert set(found.sites) == {"0", "15", "75"}
