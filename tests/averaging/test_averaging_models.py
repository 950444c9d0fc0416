"""Averages of the models of several runs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from domainwise.averaging import average_models, greedy
from domainwise.errors import InputError


def models(n: int) -> list[dict[str, Tensor]]:
    made = [nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)) for _ in range(n)]
    for i, net in enumerate(made):
        net[1].num_batches_tracked.fill_(10 + i)
    return [net.state_dict() for net in made]


def scalars(*values: float) -> list[dict[str, Tensor]]:
    return [{"w": torch.tensor([float(value)])} for value in values]


def test_the_uniform_average_is_the_mean_of_every_tensor_and_counters_are_the_firsts():
    states = models(4)
    averaged = average_models(states)
    assert list(averaged) == list(states[0])
    for key, value in averaged.items():
        if key == "1.num_batches_tracked":
            assert value == 10
        else:
            torch.testing.assert_close(value, torch.stack([state[key] for state in states]).mean(0))


def test_equal_models_average_to_themselves_in_memory_of_their_own():
    (state,) = models(1)
    averaged = average_models([state, state, state])
    for key, value in averaged.items():
        assert torch.equal(value, state[key])
        assert value.dtype == state[key].dtype
        assert value.data_ptr() != state[key].data_ptr()


def test_half_precision_models_average_to_half_precision_ones():
    states = [{"w": torch.tensor([value], dtype=torch.float16)} for value in (64000.0, 32000.0)]
    assert average_models(states)["w"].tolist() == [48000.0]  # where a sum would overflow
    assert average_models(states)["w"].dtype == torch.float16


def changed(state: dict[str, Tensor], **values: Tensor | None) -> dict[str, Tensor]:
    return {key: value for key, value in {**state, **values}.items() if value is not None}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"w": torch.ones(2)}, r"w has shape \(3,\) in a but \(2,\) in b"),
        ({"w": None}, "a has w, which b has not"),
        ({"head": torch.ones(1)}, "b has head, which a has not"),
        ({"w": torch.ones(3, dtype=torch.float64)}, "w is torch.float32 in a but torch.float64 in b"),
    ],
)
def test_models_that_are_not_alike_are_refused_by_the_first_difference(change, sentence):
    state = {"w": torch.ones(3), "b": torch.ones(2)}
    with pytest.raises(InputError, match=sentence):
        average_models([state, changed(state, **change)], names=["a", "b"])


@pytest.mark.parametrize(
    "average",
    [average_models, lambda states, **known: greedy(states, [0.5] * len(states), lambda state: 0.5, **known)],
    ids=["uniform", "greedy"],
)
def test_models_from_different_initial_weights_are_refused(average):
    states = models(3)
    average(states, inits=["aa", "aa", "aa"])
    with pytest.raises(InputError, match=r"model 2 started from other weights \(bb\) than model 0 \(aa\)"):
        average(states, inits=["aa", "aa", "bb"])


@pytest.mark.parametrize(
    ("states", "known", "sentence"),
    [([], {}, "at least one model"), (scalars(1, 2), {"inits": ["aa"]}, "2 models but 1 inits")],
)
def test_what_there_is_too_little_of_is_a_sentence(states, known, sentence):
    with pytest.raises(InputError, match=sentence):
        average_models(states, **known)


def towards(goal: float, seen: list[float] | None = None):
    """A score that is best at the goal, and notes what it was asked."""

    def score(state: dict[str, Tensor]) -> float:
        if seen is not None:
            seen.append(state["w"].item())
        return -abs(state["w"].item() - goal)

    return score


def restated(values: Sequence[float], accuracies: Sequence[float], goal: float) -> list[int]:
    kept: list[int] = []
    for i in sorted(range(len(values)), key=lambda i: -accuracies[i]):
        before = abs(sum(values[k] for k in kept) / len(kept) - goal) if kept else float("inf")
        if abs(sum(values[k] for k in (*kept, i)) / (len(kept) + 1) - goal) <= before:
            kept.append(i)
    return kept


def test_greedy_keeps_a_model_only_if_the_average_does_not_fall():
    values, accuracies = [4.0, 1.0, -1.0, 8.0, 0.0], [0.6, 0.9, 0.7, 0.8, 0.5]
    averaged, kept = greedy(scalars(*values), accuracies, towards(0.0))
    assert kept == restated(values, accuracies, 0.0) == [1, 2, 4]
    assert averaged["w"].tolist() == [0.0]


def test_greedy_tries_the_most_accurate_first_and_equal_ones_as_they_come():
    seen: list[float] = []
    _, kept = greedy(scalars(1, 2, 3), [0.5, 0.9, 0.5], towards(2.0, seen))
    assert seen == [2.0, 1.5, 2.5]
    assert kept == [1]


def test_a_tie_keeps_the_model():
    averaged, kept = greedy(scalars(1, 1, 1), [0.5, 0.5, 0.5], towards(0.0))
    assert kept == [0, 1, 2]
    assert averaged["w"].tolist() == [1.0]


def test_a_score_that_is_not_a_number_keeps_nothing():
    broken, seen = scalars(float("nan"), 1, 2), []
    averaged, kept = greedy(broken, [float("nan"), 0.6, 0.5], towards(1.0, seen))
    assert (averaged["w"].tolist(), kept) == ([1.0], [1])
    assert seen[:2] == [1.0, 1.5]  # an accuracy that is not a number comes last
    with pytest.raises(InputError, match="no model has a validation score that is a number"):
        greedy(broken[:1], [0.9], towards(1.0))


def test_every_model_needs_its_accuracy():
    with pytest.raises(InputError, match="3 models but 2 accuracies"):
        greedy(scalars(1, 2, 3), [0.5, 0.6], towards(0.0))
