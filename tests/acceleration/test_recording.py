"""Replaying a recorded step is the same training as running it, whatever an author wrote: here on a CPU."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable
from threading import Thread
from typing import Any

import made_schedules as made
import numpy as np
import pytest
import torch
from made_schedules import WRONG, Slacken, Steps, Turns

from domainwise import InputError, testing
from domainwise.acceleration.cuda_graph import updater
from domainwise.acceleration.recorders import Tapes, warnings_here
from domainwise.acceleration.recording import KEPT, UNUSED, Captured
from domainwise.algorithms import Algorithm, algorithm, parse
from domainwise.testing import check_algorithm, check_replayed_training_is_training

Trained = tuple[Algorithm, Any, list[dict[str, float]], list[str]]


def trained(
    cls: type[Algorithm], recorded: bool, steps: int = 20, sizes: Callable[[int], list[int]] = lambda step: [8, 8, 8]
) -> Trained:
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    said: list[str] = []
    one = testing._made(cls, {})
    update = updater(one, capture=recorded, say=said.append, recorder=Tapes())
    rows = [update(testing._batches(one, step, sizes(step))) for step in range(steps)]
    return one, update, [{name: value.item() for name, value in row.items()} for row in rows], said


def compared(cls: type[Algorithm], **how: Any) -> tuple[Captured, list[str]]:
    """Recorded training, once it is found to be the same as that which runs."""
    (eager, _, expected, _), (replayed, update, found, said) = (trained(cls, one, **how) for one in (False, True))
    assert found == expected
    assert testing._equal(testing._parameters(eager), testing._parameters(replayed))
    return update, said


@pytest.mark.parametrize("cls", WRONG, ids=lambda cls: cls.__name__)
def test_what_a_replay_would_get_wrong_runs_as_it_is_and_says_why(
    cls: type[Algorithm], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []
    for recorded in (False, True):
        monkeypatch.setattr(made, "SEEN", 0)
        monkeypatch.setattr(made.RATES, "now", 0.0)
        monkeypatch.setattr(made.OnTheClass, "factor", 1.0)
        results.append(trained(cls, recorded))
    (eager, _, expected, _), (replayed, _, found, said) = results
    assert found == expected
    assert testing._equal(testing._parameters(eager), testing._parameters(replayed))
    assert [sentence.startswith(f"{cls.name} cannot be replayed: ") for sentence in said] == [True]
    assert re.search(WRONG[cls], said[0])


@pytest.mark.parametrize(
    ("text", "times"),
    [("erm", 1), ("arith", 1), ("mldg", 1), ("irm(anneal=500)", 1), ("irm(anneal=6)", 2), ("fishr(anneal=6)", 2)],
)
def test_ours_are_recorded_once_and_again_with_a_fresh_optimizer(text: str, times: int) -> None:
    (spec,) = parse(text)
    one = testing._made(spec.cls(), dict(spec.settings))
    said: list[str] = []
    update = updater(one, capture=True, say=said.append, recorder=Tapes())
    for step in range(20):
        update(testing._batches(one, step))
    assert (update.made, said) == (times, [])


def test_every_phase_has_a_recording_of_its_own() -> None:
    update, said = compared(Turns)
    assert (update.made, said) == (3, [])
    assert [one.replays for one in update.kept.values()] == [1, 1, 6]


def test_recordings_of_long_ago_are_dropped() -> None:
    update, said = compared(Turns, steps=12 + 2 * UNUSED)
    assert [situation[0] for situation in update.kept] == ["late"]
    assert not said


def test_more_phases_in_turn_than_are_kept_run_as_they_are() -> None:
    class Many(Turns):
        phase = property(lambda self: self.updates % (KEPT + 2))

    update, said = compared(Many, steps=50)
    assert not update.kept
    assert said == [f"turns cannot be replayed: more than {KEPT} phases or shapes of minibatches take turns"]


def test_a_phase_that_cannot_be_looked_up_is_a_sentence() -> None:
    @algorithm
    class Lists(Algorithm):
        phase = property(lambda self: [self.updates])

    with pytest.raises(InputError, match=r"lists: its phase must be hashable, got \[0\]"):
        trained(Lists, True)


def test_a_value_that_changes_now_and_then_is_recorded_anew() -> None:
    update, said = compared(Steps, steps=80)
    assert (update.made, said) == (4, [])


def test_batches_of_other_sizes_have_recordings_of_their_own() -> None:
    update, said = compared(made.Plain, sizes=lambda step: [[8, 8, 8], [8, 3, 5]][step % 2])
    assert (update.made, said) == (2, [])


def test_what_is_drawn_on_the_device_is_drawn_anew() -> None:
    update, said = compared(made.Dropout, steps=24)
    assert (update.made, said) == (2, [])


def test_a_tensor_that_stays_may_change() -> None:
    update, said = compared(made.InPlace)
    assert (update.made, said) == (1, [])


def test_gradients_are_there_as_after_an_update_that_ran() -> None:
    update, said = compared(made.LooksAtGradients)
    assert (update.made, said) == (2, [])


def test_a_loaded_state_is_recorded_anew_and_goes_on_the_same() -> None:
    whole, _, _, _ = trained(made.InPlace, True, steps=16)
    first, _, _, _ = trained(made.InPlace, False, steps=8)
    second, update, _, _ = trained(made.InPlace, True, steps=6)
    second.load_state_dict(first.state_dict())
    update.forget()
    for step in range(8, 16):
        update(testing._batches(second, step))
    assert update.made == 2
    assert testing._equal(testing._parameters(whole), testing._parameters(second))


def test_an_algorithm_is_of_its_class_again_after_an_error() -> None:
    class Fails(made.Counts):
        def loss(self, batches):
            if self.count == 2:
                raise ZeroDivisionError
            return super().loss(batches)

    one = testing._made(Fails, {})
    update = updater(one, capture=True, recorder=Tapes())
    update(testing._batches(one, 0))
    update(testing._batches(one, 1))
    with pytest.raises(ZeroDivisionError):
        update(testing._batches(one, 2))
    assert type(one) is Fails
    assert "updates" in vars(one)


@pytest.mark.parametrize(("cls", "sentence"), [(Slacken, r"\.tolist\(\)"), (made.Branch, "self.updates was")])
def test_the_public_checks_say_what_a_gpu_would_not_replay(cls: type[Algorithm], sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_algorithm(cls)


def test_who_says_that_it_cannot_be_recorded_passes_the_check() -> None:
    class Honest(Slacken):
        uncapturable = property(lambda self: "its weights are read on the host")

    check_replayed_training_is_training(Honest, {})


def test_a_wait_in_the_thread_of_another_trial_is_not_taken_for_one_of_this() -> None:
    def other() -> None:
        warnings.warn("called a synchronizing CUDA operation", stacklevel=1)
        warnings.warn("of something else", stacklevel=1)

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        with warnings_here(not_elsewhere="called a synchronizing") as heard:
            thread = Thread(target=other)
            thread.start()
            thread.join()
            warnings.warn("called a synchronizing CUDA operation here", stacklevel=1)
    assert [str(one.message) for one in heard] == ["called a synchronizing CUDA operation here"]
    assert [str(one.message) for one in shown] == ["of something else"]
