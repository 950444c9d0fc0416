"""Weights, masks and functions of one's own that turn leg gradients into one direction."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.optim import SGD

from domainwise import InputError, MetaOptimizer, and_mask, arithmetic, constant, last, sand_mask, weighted


@pytest.mark.parametrize(
    ("combine", "n", "expected"),
    [
        (arithmetic(), 3, ["1/2", "1/3", "1/6"]),
        (arithmetic(), 5, ["1/3", "4/15", "1/5", "2/15", "1/15"]),
        (arithmetic().scaled(1.5), 3, ["3/4", "1/2", "1/4"]),
        (arithmetic(epsilon=0), 2, ["1", "1/2"]),
        (arithmetic(epsilon=1), 3, ["3/4", "1/2", "1/4"]),
        (constant(), 3, ["1/3", "1/3", "1/3"]),
        (constant().scaled(1.5), 3, ["1/2", "1/2", "1/2"]),
        (constant().scaled(3).scaled(0.5), 3, ["1/2", "1/2", "1/2"]),
        (last(), 4, ["0", "0", "0", "1"]),
        (weighted(lambda n: range(n)), 3, ["0", "1", "2"]),
    ],
)
def test_weights_are_the_published_ones(combine, n, expected):
    assert combine.weights(n) == pytest.approx([float(Fraction(w)) for w in expected], abs=1e-15)


@given(n=st.integers(1, 40), scale=st.floats(0.1, 10))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_unless_told_otherwise_weights_sum_to_their_scale_and_one_leg_counts_fully(n, scale):
    for combine in (arithmetic(), constant(), last()):
        assert sum(combine.scaled(scale).weights(n)) == pytest.approx(scale)
        assert combine.weights(1) == [1.0]


@pytest.mark.parametrize("given_weights", [[], [1.0], [0.5, 0.3, 0.2]])
def test_a_wrong_number_of_weights_is_a_sentence(given_weights):
    with pytest.raises(InputError, match=f"over 2 legs must be 2 numbers, got {len(given_weights)}"):
        weighted(lambda n: given_weights).weights(2)


@pytest.mark.parametrize("epsilon", [-3.0, -4.0])
def test_an_epsilon_that_leaves_nothing_to_divide_by_is_a_sentence(epsilon):
    with pytest.raises(InputError, match="must be positive, and n is 3"):
        arithmetic(epsilon).weights(3)


def restated_mask(legs: np.ndarray, tau: float, k: float | None) -> np.ndarray:
    """Entry by entry: the and-mask, or with ``k`` the sand-mask."""
    mask, mean = np.zeros(legs.shape[1:]), np.zeros(legs.shape[1:])
    for at in np.ndindex(*legs.shape[1:]):
        entries = [float(leg[at]) for leg in legs]
        agreement = abs(sum((e > 0) - (e < 0) for e in entries) / len(entries))
        mean[at] = sum(entries) / len(entries)
        if k is None:
            mask[at] = 1.0 if agreement >= tau else 0.0
        else:
            spread = sum((e - mean[at]) ** 2 for e in entries)
            variance = spread / (len(entries) - 1) if len(entries) > 1 else 1e-17
            mask[at] = max(0.0, np.tanh(k / variance * (agreement - tau)))
    return mask * mean / (1e-10 + mask.mean())


def some_legs(n: int) -> torch.Tensor:
    """Small entries of both signs, some of them exactly zero, so that masks come out open, half open and shut."""
    legs = 0.5 + torch.randn(n, 4, 5, dtype=torch.float64)
    legs[:, 0, 0] = 0
    legs[0, 1] = 0
    return legs


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("tau", [0.0, 0.2, 1 / 3, 0.6, 1.0])
def test_the_and_mask_is_its_formula_entry_by_entry(n, tau):
    legs = some_legs(n)
    expected = restated_mask(legs.numpy(), tau, k=None)
    np.testing.assert_allclose(and_mask(tau)(legs).numpy(), expected, rtol=1e-12, atol=1e-15)
    assert expected.any()


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize(("tau", "k"), [(0.1, 10.0), (0.5, 0.3), (0.5, 10.0)])
def test_the_sand_mask_is_its_formula_entry_by_entry(n, tau, k):
    legs = some_legs(n)
    legs[:, 0, 0] = torch.linspace(-1, 1, n)  # an entry without any spread is the next test's
    expected = restated_mask(legs.numpy(), tau, k)
    np.testing.assert_allclose(sand_mask(tau, k)(legs).numpy(), expected, rtol=1e-12, atol=1e-15)
    assert expected.any()


def test_equal_legs_pass_the_sand_mask_whole_and_dead_entries_stay_dead():
    legs = torch.tensor([[2.0, -3.0, 0.0]]).repeat(3, 1)
    torch.testing.assert_close(sand_mask(0.5, 10.0)(legs), torch.tensor([3.0, -4.5, 0.0]))
    # Total agreement is still not more than tau = 1: upstream's default, with which nothing trains.
    assert not sand_mask(1.0, 10.0)(legs).any()


def test_where_the_legs_disagree_everywhere_the_masks_give_zero_not_nan():
    legs = torch.tensor([[1.0, -2.0], [-1.0, 2.0]])
    for mask in (and_mask(1.0), sand_mask(0.5, 10.0)):
        assert torch.equal(mask(legs), torch.zeros(2))


def test_masks_see_every_gradient_at_the_starting_point(problem):
    task = problem()
    _, gradients = task.walked(0.0, [[leg] for leg in task.legs])
    MetaOptimizer(SGD(task.net.parameters()), and_mask(1.0), inner_lr=0).gradient(task.loss, task.legs)
    at = 0
    for p in task.net.parameters():  # the share of entries kept is taken per parameter tensor
        legs = torch.stack([g[at : at + p.numel()] for g in gradients])
        at += p.numel()
        np.testing.assert_allclose(p.grad.flatten(), restated_mask(legs.numpy(), 1.0, None), rtol=1e-12, atol=1e-15)


def test_any_function_of_the_stacked_legs_is_a_combine(problem):
    task = problem(5)
    _, gradients = task.walked(0.1, [[leg] for leg in task.legs])
    meta = MetaOptimizer(SGD(task.net.parameters()), lambda g: g.median(0).values, inner_lr=0.1, shuffle=False)
    meta.gradient(task.loss, task.legs)
    torch.testing.assert_close(task.grad(), torch.stack(gradients).median(0).values, rtol=1e-12, atol=1e-14)


def test_a_function_that_says_what_weights_say_gives_what_weights_give(problem):
    directions = []
    weights = torch.tensor(arithmetic().weights(3), dtype=torch.float64)
    for combine in (arithmetic(), lambda g: torch.tensordot(weights, g, dims=1)):
        task = problem()
        MetaOptimizer(SGD(task.net.parameters()), combine, inner_lr=0.1).gradient(task.loss, task.legs)
        directions.append(task.grad())
    torch.testing.assert_close(*directions, rtol=1e-12, atol=1e-14)


def test_a_parameter_one_leg_does_not_use_counts_as_zero_there():
    a, b = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    meta = MetaOptimizer(SGD([a, b]), lambda g: g.mean(0), inner_lr=0.0, shuffle=False)
    meta.gradient(lambda use: (a.square() + (b.square() if use else 0)).sum(), [False, True, False, False])
    assert (a.grad.tolist(), b.grad.tolist()) == ([2.0, 2.0], [0.5, 0.5])


@pytest.mark.parametrize("combine", [lambda g: g, lambda g: g.mean()], ids=["too many", "too few"])
def test_a_combine_of_the_wrong_shape_is_a_sentence(problem, combine):
    task = problem()
    with pytest.raises(InputError, match="one gradient of shape"):
        MetaOptimizer(SGD(task.net.parameters()), combine, inner_lr=0.1).gradient(task.loss, task.legs)
