"""On a GPU: what a CUDA graph would get wrong runs as it is, and phases have graphs of their own."""

from __future__ import annotations

from typing import Any

import made_schedules as made
import pytest
import torch
from made_schedules import WRONG

from domainwise import testing
from domainwise.acceleration.cuda_graph import updater
from domainwise.acceleration.recording import Captured
from domainwise.algorithms import Algorithm, algorithm

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")]


@algorithm
class Waits(Algorithm):
    """Which only the recording itself shows."""

    def loss(self, batches):
        torch.cuda.synchronize()
        return super().loss(batches)


def trained(cls: type[Algorithm], recorded: bool, steps: int = 20) -> tuple[Any, list[dict[str, float]], list[str]]:
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    torch.manual_seed(0)
    made.random.seed(0)
    made.np.random.seed(0)
    said: list[str] = []
    one = cls(lr=1e-2).setup(testing._network(cls).cuda(), seed=0)
    update = updater(one, capture=recorded, say=said.append)
    rows = [update([(x.cuda(), y.cuda()) for x, y in testing._batches(one, step)]) for step in range(steps)]
    return update, [{name: value.item() for name, value in row.items()} for row in rows], said


def compared(cls: type[Algorithm], **how: Any) -> tuple[Captured, list[str]]:
    (_, expected, _), (update, found, said) = (trained(cls, one, **how) for one in (False, True))
    assert isinstance(update, Captured)
    for step, (a, b) in enumerate(zip(expected, found, strict=True)):
        assert b == pytest.approx(a, rel=2e-3, abs=1e-4), f"update {step}: {said}"
    return update, said


@pytest.mark.parametrize("cls", [*WRONG, Waits], ids=lambda cls: cls.__name__)
def test_what_a_graph_would_get_wrong_runs_as_it_is_and_says_why(
    cls: type[Algorithm], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []
    for recorded in (False, True):
        monkeypatch.setattr(made, "SEEN", 0)
        monkeypatch.setattr(made.RATES, "now", 0.0)
        monkeypatch.setattr(made.OnTheClass, "factor", 1.0)
        results.append(trained(cls, recorded))
    (_, expected, _), (update, found, said) = results
    for step, (a, b) in enumerate(zip(expected, found, strict=True)):
        assert b == pytest.approx(a, rel=2e-3, abs=1e-4), f"update {step}: {said}"
    assert [sentence.startswith(f"{cls.name} runs without a CUDA graph: ") for sentence in said] == [True]
    assert not update.kept


def test_every_phase_has_a_graph_of_its_own_and_all_share_their_memory() -> None:
    update, said = compared(made.Turns)
    assert (update.made, said) == (3, [])
    assert len({one.replay.__self__.pool() for one in update.kept.values()}) == 1


@pytest.mark.parametrize(("name", "times"), [("Plain", 1), ("InPlace", 1), ("LooksAtGradients", 2)])
def test_what_can_be_recorded_is_recorded_once_for_each_phase(name: str, times: int) -> None:
    update, said = compared(getattr(made, name))
    assert (update.made, said) == (times, [])


def test_a_value_that_changes_now_and_then_is_recorded_anew() -> None:
    update, said = compared(made.Steps, steps=80)
    assert (update.made, said) == (4, [])


def test_trainings_one_after_the_other_are_recorded_after_one_that_could_not_be() -> None:
    trained(Waits, True)
    update, said = compared(made.Plain)
    assert (update.made, said) == (1, [])
