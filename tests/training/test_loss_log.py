from __future__ import annotations

import math

import pytest
import torch
from made_data import stripes

from domainwise.algorithms import parse
from domainwise.experiment.settings import resolve
from domainwise.training.loss_log import Diverged, Losses
from domainwise.training.plan import plan

WHERE = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
(TRIAL,) = plan(stripes(), parse("arith"), [("c",)], [0], resolve(given={"steps": 9}), "none")


def losses(device: str, values: list[float], first: int = 0) -> Losses:
    made = Losses(TRIAL, ["a", "b"])
    keep(made, device, values, first)
    return made


def keep(made: Losses, device: str, values: list[float], first: int) -> None:
    for step, value in enumerate(values, first):
        row = torch.tensor([value, 0.5, value], device=device)
        made.keep(step, dict(zip(["loss", "leg0", "leg1"], row, strict=True)))


@pytest.mark.parametrize("device", WHERE)
def test_a_glance_sees_what_was_there_at_the_one_before_and_a_look_sees_all(device: str) -> None:
    made = losses(device, [1.0, 2.0])
    made.glance()
    assert made.seen == []
    keep(made, device, [3.0], 2)
    made.glance()
    assert made.seen == [1.0, 2.0]
    keep(made, device, [4.0, 10.0], 3)
    made.look()
    assert made.seen == [1.0, 2.0, 3.0, 4.0, 10.0]
    made.look()
    assert made.mean() == 4.0
    assert made.state_dict() == {"seen": []}


@pytest.mark.parametrize("device", WHERE)
def test_a_loss_that_is_not_finite_is_named_with_its_own_step_however_late_it_is_seen(device: str) -> None:
    made = losses(device, [1.0, math.nan, math.inf], first=7)
    made.glance()
    keep(made, device, [math.nan], 10)
    with pytest.raises(Diverged, match=r'at step 8 on leg 1 \(domain "b"\)') as error:
        made.glance()
    assert error.value.step == 8
