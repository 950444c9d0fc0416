"""Parameters that are frozen, unused, shared or oddly laid out in memory."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW

from domainwise import MetaOptimizer, constant, last

in_place = partial(SGD, momentum=0.9, nesterov=True, foreach=True)  # adds the momentum to the gradient it is given
inners = pytest.mark.parametrize("inner", [None, in_place, Adam], ids=["plain", "momentum", "adam"])
decaying = partial(AdamW, lr=0.1, weight_decay=0.5)


def parameter(*values: float) -> nn.Parameter:
    return nn.Parameter(torch.tensor(values, dtype=torch.float64))


def value(p: nn.Parameter) -> list[float]:
    return p.detach().tolist()


@inners
def test_a_frozen_parameter_is_neither_walked_nor_stepped(problem, inner):
    task = problem()
    task.net[0].requires_grad_(False)
    before = [p.detach().clone() for p in task.net[0].parameters()]
    arrived = []
    meta = MetaOptimizer(decaying(task.net.parameters()), inner_lr=0.1, inner=inner)
    for _ in range(2):
        meta.step(lambda batch: arrived.append(task.net[0].weight.clone()) or task.loss(batch), task.legs)
    assert all(torch.equal(p, b) and p.grad is None for p, b in zip(task.net[0].parameters(), before, strict=True))
    assert all(torch.equal(weight, before[0]) for weight in arrived)


@inners
def test_a_parameter_frozen_between_rounds_does_not_follow_its_last_gradient(problem, inner):
    task = problem()
    meta = MetaOptimizer(decaying(task.net.parameters()), inner_lr=0.1, inner=inner)
    meta.step(task.loss, task.legs)
    task.net[0].requires_grad_(False)
    before = task.net[0].weight.clone()
    meta.step(task.loss, task.legs)
    assert torch.equal(task.net[0].weight, before)
    assert task.net[0].weight.grad is None


@inners
def test_a_parameter_unfrozen_between_rounds_joins_the_walk(problem, inner):
    late, never = problem(), problem()
    for task in (late, never):
        task.net[0].requires_grad_(False)
        task.meta = MetaOptimizer(SGD(task.net.parameters(), lr=0.1), inner_lr=0.1, inner=inner, shuffle=False)
        task.meta.step(task.loss, task.legs)
    late.net[0].requires_grad_(True)
    met = [task.meta.step(task.loss, task.legs) for task in (late, never)]
    assert met[0][0] == met[1][0]
    assert met[0][2] != met[1][2]  # the walk itself, not only the outer step, moves the newcomer
    assert not torch.equal(late.net[0].weight, never.net[0].weight)


@inners
def test_a_group_added_to_the_outer_optimizer_joins_the_walk(inner):
    a, b = parameter(1.0), parameter(1.0)
    meta = MetaOptimizer(SGD([a], lr=0.1), inner_lr=0.1, inner=inner)
    meta.step(lambda _: a.square().sum(), [0, 1])
    meta.outer.add_param_group({"params": [b]})
    met = meta.step(lambda _: b.square().sum(), [0, 1])
    assert met.min() < met.max() == 1.0
    assert value(b) < [1.0]


@inners
def test_an_unused_parameter_gets_no_gradient_and_no_decay(inner):
    used, unused = parameter(1.0, 2.0), parameter(3.0)
    meta = MetaOptimizer(decaying([used, unused]), inner_lr=0.1, inner=inner and partial(inner, weight_decay=0.5))
    unused.grad = torch.ones_like(unused)
    meta.step(lambda _: used.square().sum(), [0, 1, 2])
    assert (value(unused), unused.grad) == ([3.0], None)
    assert value(used) != [1.0, 2.0]


def alone(inner, value: float) -> torch.Tensor:
    """The direction of a round with one parameter, one leg and the loss p^2."""
    p = parameter(value)
    MetaOptimizer(SGD([p]), inner_lr=0.1, inner=inner).gradient(lambda _: p.square().sum(), [0])
    return p.grad


@inners
@pytest.mark.parametrize("leg", [0, 1, 2])
def test_a_parameter_only_one_leg_uses_moves_by_that_leg_alone(inner, leg):
    shared, own = parameter(1.0), parameter(1.0)
    meta = MetaOptimizer(SGD([shared, own], lr=1.0), constant().scaled(3), inner_lr=0.1, inner=inner, shuffle=False)
    meta.gradient(lambda i: (shared.square() + (own.square() if i == leg else 0)).sum(), [0, 1, 2])
    torch.testing.assert_close(own.grad, alone(inner, 1.0), rtol=1e-12, atol=0)


@inners
def test_a_leg_without_any_of_the_parameters_is_a_leg_without_gradient(inner):
    ours, theirs = parameter(2.0), parameter(1.0)
    meta = MetaOptimizer(SGD([ours]), constant().scaled(3), inner_lr=0.1, inner=inner, shuffle=False)
    met = meta.gradient(lambda i: theirs.sum() if i != 1 else ours.square().sum(), [0, 1, 2])
    assert met.tolist() == [1.0, 4.0, 1.0]
    torch.testing.assert_close(ours.grad, alone(inner, 2.0), rtol=1e-12, atol=0)
    assert theirs.grad is None


@inners
def test_a_gradient_autograd_shares_between_parameters_is_not_shared_in_grad(inner):
    directions = []
    for shared in (True, False):
        a, b = parameter(1.0, 2.0), parameter(3.0, 4.0)

        def loss(_, a=a, b=b, shared=shared):
            return (a + b if shared else a * 1.0 + b * 1.0).square().sum()  # a product has a gradient of its own

        handed = torch.autograd.grad(loss(0), [a, b])
        assert (handed[0].data_ptr() == handed[1].data_ptr()) is shared  # what makes this test one
        MetaOptimizer(SGD([a, b]), constant().scaled(3), inner_lr=0.05, inner=inner).gradient(loss, [0, 1, 2])
        assert a.grad.data_ptr() != b.grad.data_ptr()
        directions.append((a.grad, b.grad))
    torch.testing.assert_close(*directions, rtol=1e-12, atol=0)


@pytest.mark.parametrize("legs", [1, 3])
@pytest.mark.parametrize("inner", [None, Adam, partial(SGD, momentum=0.9)], ids=["plain", "adam", "momentum"])
def test_expanded_and_transposed_gradients_reach_fused_optimizers_in_order(legs, inner):
    ends = []
    for fused in (False, True):
        torch.manual_seed(0)
        scalar, matrix, tilt = parameter(*range(20)), nn.Parameter(torch.randn(17, 33)), torch.randn(33, 17)
        handed = torch.autograd.grad(scalar.sum() + (matrix.t() * tilt).sum(), [scalar, matrix])
        assert [g.stride() for g in handed] == [(0,), (1, 17)]  # what makes this test one
        walk = inner and partial(inner, fused=fused)
        meta = MetaOptimizer(Adam([scalar, matrix], lr=0.1, fused=fused), inner_lr=0.1, inner=walk, shuffle=False)
        for _ in range(2):
            meta.step(lambda i: scalar.sum() + (matrix.t() * tilt).sum() * (i + 1), list(range(legs)))  # noqa: B023
        ends.append((scalar.detach(), matrix.detach()))
    for plain, fused in zip(*ends, strict=True):
        torch.testing.assert_close(plain, fused, rtol=1e-5, atol=1e-5)


def test_channels_last_weights_get_gradients_in_their_own_layout():
    net = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    meta = MetaOptimizer(SGD(net.parameters()), lambda g: g.median(0).values, inner_lr=0.1)
    meta.gradient(lambda x: net(x).square().mean(), list(torch.randn(3, 2, 3, 5, 5)))
    assert net.weight.grad.stride() == net.weight.stride() != net.weight.contiguous().stride()


def test_embeddings_with_sparse_gradients_walk_too():
    dense, sparse = nn.Embedding(5, 2), nn.Embedding(5, 2, sparse=True)
    sparse.load_state_dict(dense.state_dict())
    for table in (dense, sparse):
        meta = MetaOptimizer(SGD(table.parameters(), lr=0.1), inner_lr=0.1)
        meta.step(lambda rows, table=table: table(rows).square().sum(), [torch.tensor([0, 1]), torch.tensor([1, 2])])
    torch.testing.assert_close(dense.weight, sparse.weight)


def test_a_zero_weight_does_not_let_a_diverged_leg_in():
    p = parameter(1.0)
    meta = MetaOptimizer(SGD([p]), last(), inner_lr=0.0, shuffle=False)
    meta.gradient(lambda scale: (p * scale).sum(), [float("nan"), 2.0])
    assert p.grad.tolist() == [2.0]
