from __future__ import annotations

import math

import pytest
import torch

from domainwise.algorithms import parse
from domainwise.training.loss_log import Diverged, Losses

WHERE = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
(SPEC,) = parse("arith")
ALGORITHM = SPEC.create()


def losses(device: str, values: list[float], first: int = 0) -> Losses:
    made = Losses(ALGORITHM, ["a", "b"])
    add(made, device, values, first)
    return made


def add(made: Losses, device: str, values: list[float], first: int) -> None:
    for step, value in enumerate(values, first):
        row = torch.tensor([value, 0.5, value], device=device)
        made.add(step, dict(zip(["loss", "leg0", "leg1"], row, strict=True)))


@pytest.mark.parametrize("device", WHERE)
def test_polling_checks_what_the_call_before_has_sent_and_flushing_checks_all(device: str) -> None:
    made = losses(device, [1.0, 2.0])
    made.poll()
    assert made.seen == []
    add(made, device, [3.0], 2)
    made.poll()
    assert made.seen == [1.0, 2.0]
    add(made, device, [4.0, 10.0], 3)
    made.flush()
    assert made.seen == [1.0, 2.0, 3.0, 4.0, 10.0]
    made.flush()
    assert made.mean() == 4.0
    assert made.state_dict() == {"seen": []}


@pytest.mark.parametrize("device", WHERE)
def test_a_loss_that_is_not_finite_is_named_with_its_own_step_however_late_it_is_seen(device: str) -> None:
    made = losses(device, [1.0, math.nan, math.inf], first=7)
    made.poll()
    add(made, device, [math.nan], 10)
    with pytest.raises(Diverged, match=r'at step 8 on leg 1 \(domain "b"\)') as error:
        made.poll()
    assert error.value.step == 8


def test_legs_that_take_turns_are_named_by_their_own_domains() -> None:
    made = Losses(ALGORITHM, ["a", "b", "c"])
    made.add(0, {"loss": torch.tensor(1.0), "leg0": torch.tensor(1.0), "leg1": torch.tensor(1.0)})
    made.add(1, {"loss": torch.tensor(2.0), "leg2": torch.tensor(math.inf)})
    with pytest.raises(Diverged, match=r'at step 1 on leg 2 \(domain "c"\)'):
        made.flush()
