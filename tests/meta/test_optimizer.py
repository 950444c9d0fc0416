"""One round: what it computes, in which order, and what it hands to the outer optimizer."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from itertools import permutations

import pytest
import torch
from torch.nn.utils import clip_grad_norm_
from torch.optim import SGD, Adagrad, Adam, AdamW, NAdam, RMSprop
from torch.optim.lr_scheduler import StepLR

from domainwise import MetaOptimizer, arithmetic, constant, last

OUTERS = {
    "sgd": partial(SGD, lr=0.1),
    "sgd momentum": partial(SGD, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "sgd maximize": partial(SGD, lr=0.1, maximize=True),
    "sgd fused": partial(SGD, lr=0.1, momentum=0.9, fused=True),
    "adam": partial(Adam, lr=0.01, weight_decay=0.1),
    "adam amsgrad, maximize": partial(Adam, lr=0.01, amsgrad=True, maximize=True),
    "adam one by one": partial(Adam, lr=0.01, weight_decay=0.1, foreach=False),
    "adam foreach": partial(Adam, lr=0.01, weight_decay=0.1, foreach=True),
    "adam fused": partial(Adam, lr=0.01, weight_decay=0.1, fused=True),
    "adamw": partial(AdamW, lr=0.01, weight_decay=0.1),
    "adagrad": partial(Adagrad, lr=0.1),
    "rmsprop": partial(RMSprop, lr=0.01, momentum=0.9),
    "nadam": partial(NAdam, lr=0.01),
}
any_outer = pytest.mark.parametrize("outer", OUTERS.values(), ids=OUTERS)


def groups_of(net):
    """A group per layer, each with settings of its own."""
    return [
        {"params": net[0].parameters(), "lr": 0.03, "weight_decay": 0.2},
        {"params": net[2].parameters(), "weight_decay": 0.0},
    ]


@any_outer
@pytest.mark.parametrize("combine", [arithmetic(), constant(), last()], ids=["arithmetic", "constant", "last"])
def test_one_leg_is_the_outer_optimizer_itself_to_the_last_bit(problem, outer, combine):
    walking, plain = problem(4, dtype=torch.float32), problem(4, dtype=torch.float32)
    meta = MetaOptimizer(outer(groups_of(walking.net)), combine, inner_lr=0.1)
    optimizer = outer(groups_of(plain.net))
    for batch in walking.legs:
        met = meta.step(walking.loss, [batch])
        optimizer.zero_grad()
        loss = plain.loss(batch)
        loss.backward()
        optimizer.step()
        assert torch.equal(met, loss.detach()[None])
        assert torch.equal(walking.vector(), plain.vector())


@any_outer
def test_a_round_hands_the_outer_optimizer_the_direction_of_a_plain_loop(problem, outer):
    walking, plain = problem(), problem()
    meta = MetaOptimizer(outer(groups_of(walking.net)), inner_lr=0.2, shuffle=False)
    optimizer = outer(groups_of(plain.net))
    for _ in range(3):
        meta.step(walking.loss, walking.legs)
        _, (first, second, third) = plain.walked(0.2, [[leg] for leg in plain.legs])
        direction, at = first / 2 + second / 3 + third / 6, 0
        for p in plain.net.parameters():
            p.grad = direction[at : at + p.numel()].view_as(p).clone()
            at += p.numel()
        optimizer.step()
        torch.testing.assert_close(walking.vector(), plain.vector(), rtol=0, atol=1e-8)


def test_standing_still_with_equal_weights_is_the_gradient_of_the_mean_loss(problem):
    task, plain = problem(4), problem(4)
    met = MetaOptimizer(SGD(task.net.parameters()), constant(), inner_lr=0).gradient(task.loss, task.legs)
    losses = torch.stack([plain.loss(leg) for leg in plain.legs])
    losses.mean().backward()
    torch.testing.assert_close(task.grad(), plain.grad(), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(met, losses.detach(), rtol=1e-14, atol=0)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_constant_weights_interpolate_to_the_end_of_the_walk(problem, share):
    task = problem()
    models, _ = task.walked(0.1, [[leg] for leg in task.legs])
    meta = MetaOptimizer(SGD(task.net.parameters(), lr=0.1), constant().scaled(3 * share), inner_lr=0.1, shuffle=False)
    meta.step(task.loss, task.legs)
    torch.testing.assert_close(task.vector(), torch.lerp(models[0], models[-1], share), rtol=0, atol=1e-12)


def test_last_is_the_gradient_of_the_last_leg_where_the_walk_ends(problem):
    task = problem()
    _, gradients = task.walked(0.1, [[leg] for leg in task.legs])
    MetaOptimizer(SGD(task.net.parameters()), last(), inner_lr=0.1, shuffle=False).gradient(task.loss, task.legs)
    torch.testing.assert_close(task.grad(), gradients[-1], rtol=1e-12, atol=1e-14)


def test_under_an_outer_adam_the_sum_of_the_weights_does_not_matter(problem):
    ends = []
    for combine in (arithmetic(), arithmetic().scaled(1.5)):
        task = problem()
        meta = MetaOptimizer(Adam(task.net.parameters(), lr=1e-2), combine, inner_lr=0.1)
        for _ in range(30):
            meta.step(task.loss, task.legs)
        ends.append(task.vector())
    torch.testing.assert_close(*ends, rtol=0, atol=1e-5)


def test_gradient_stays_where_it_started_and_replaces_what_was_in_grad(problem):
    task, start = problem(), problem().vector()
    meta = MetaOptimizer(SGD(task.net.parameters(), lr=0.1), inner_lr=0.1, shuffle=False)
    meta.gradient(task.loss, task.legs)
    once = task.grad()
    meta.gradient(task.loss, task.legs)
    assert torch.equal(task.vector(), start)
    assert torch.equal(task.grad(), once)
    assert once.norm() > 0


def test_step_is_gradient_and_the_outer_step_with_room_between_them(problem):
    whole, parts, clipped = problem(), problem(), problem()
    for task, between in ((parts, lambda params: None), (clipped, partial(clip_grad_norm_, max_norm=1e-3))):
        meta = MetaOptimizer(SGD(task.net.parameters(), lr=1.0), inner_lr=0.1)
        meta.gradient(task.loss, task.legs)
        between(task.net.parameters())
        meta.outer.step()
    MetaOptimizer(SGD(whole.net.parameters(), lr=1.0), inner_lr=0.1).step(whole.loss, whole.legs)
    assert torch.equal(whole.vector(), parts.vector())
    assert (clipped.vector() - problem().vector()).norm().item() == pytest.approx(1e-3, rel=1e-3)


def test_a_scheduler_attaches_to_the_outer_optimizer(problem):
    task = problem()
    meta = MetaOptimizer(SGD(task.net.parameters(), lr=1.0), inner_lr=0.1)
    scheduler = StepLR(meta.outer, step_size=1, gamma=0.0)
    meta.step(task.loss, task.legs)
    scheduler.step()
    stopped = task.vector()
    meta.step(task.loss, task.legs)
    assert torch.equal(task.vector(), stopped)
    assert not torch.equal(stopped, problem().vector())


def visits(meta, n=3, rounds=1):
    """The orders in which a loss really sees the legs."""
    seen = []
    p = meta.outer.param_groups[0]["params"][0]
    for _ in range(rounds):
        order = []
        meta.gradient(lambda i, order=order: order.append(i) or p.sum(), list(range(n)))
        seen.append(tuple(order))
    return seen


def idle(**settings):
    return MetaOptimizer(SGD([torch.nn.Parameter(torch.zeros(1))]), inner_lr=0.1, **settings)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_every_order_occurs_about_as_often_as_any_other(n):
    seen = visits(idle(), n, rounds=400)
    orders = set(permutations(range(n)))
    assert set(seen) == orders
    assert min(map(seen.count, orders)) > 400 / len(orders) / 4


def test_orders_come_from_a_generator_of_their_own():
    before = torch.get_rng_state()
    expected = visits(idle(), rounds=20)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(7)
    assert visits(idle(), rounds=20) == expected  # the seed counts, not how much of its stream is used up
    torch.manual_seed(1)
    assert visits(idle(), rounds=20) != expected


def test_a_given_generator_fixes_the_orders():
    orders = [visits(idle(generator=torch.Generator().manual_seed(seed)), rounds=20) for seed in (5, 5, 6)]
    assert orders[0] == orders[1] != orders[2]


def test_without_shuffling_legs_are_visited_as_given():
    assert visits(idle(shuffle=False), rounds=20) == [(0, 1, 2)] * 20


def test_losses_are_those_met_on_arriving_in_the_order_the_legs_were_given(problem):
    task = problem()
    meta = MetaOptimizer(SGD(task.net.parameters(), lr=0.0), inner_lr=0.5)
    orders = set()
    for _ in range(8):
        order = deepcopy(meta).order(3)
        orders.add(tuple(order))
        models, _ = task.walked(0.5, [[task.legs[i]] for i in order])
        met = meta.step(task.loss, task.legs)
        twin = deepcopy(task)
        for model, leg in zip(models, order, strict=False):
            torch.nn.utils.vector_to_parameters(model, twin.net.parameters())
            assert met[leg].item() == pytest.approx(twin.loss(task.legs[leg]).item(), rel=1e-12)
    assert len(orders) > 2


def test_a_leg_of_several_steps_is_the_sum_of_its_gradients_and_reports_the_first_loss(problem):
    task = problem()
    legs = [task.batches(3), tuple(task.batches(3))]
    expected = task.loss(legs[0][0]).detach()
    _, gradients = task.walked(0.3, legs)
    meta = MetaOptimizer(SGD(task.net.parameters()), constant().scaled(2), inner_lr=0.3, inner_steps=3, shuffle=False)
    met = meta.gradient(task.loss, legs)
    torch.testing.assert_close(task.grad(), gradients[0] + gradients[1], rtol=1e-12, atol=1e-14)
    assert torch.equal(met[0], expected)
    assert met.shape == (2,)
    assert not met.requires_grad


def test_a_walk_that_returns_after_two_legs_is_the_mean_of_walks_over_pairs(problem):
    one = problem(4, dtype=torch.float64)
    MetaOptimizer(SGD(one.net.parameters(), lr=1.0), constant(), inner_lr=0.1, shuffle=False, return_after=2).gradient(
        one.loss, one.legs
    )
    directions = []
    for pair in (one.legs[:2], one.legs[2:4]):
        MetaOptimizer(SGD(one.net.parameters(), lr=1.0), constant(), inner_lr=0.1, shuffle=False).gradient(
            one.loss, pair
        )
        directions.append([p.grad.clone() for p in one.net.parameters()])
    MetaOptimizer(SGD(one.net.parameters(), lr=1.0), constant(), inner_lr=0.1, shuffle=False, return_after=2).gradient(
        one.loss, one.legs
    )
    for p, first, second in zip(one.net.parameters(), *directions, strict=True):
        torch.testing.assert_close(p.grad, (first + second) / 2)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_what_is_left_of_the_legs_after_the_last_return_is_a_walk_too(problem, k):
    task, inner_steps = problem(5), 2
    legs = [[batch, batch] for batch in task.legs]
    meta = MetaOptimizer(
        SGD(task.net.parameters()), arithmetic(), inner_lr=0.1, inner_steps=inner_steps, shuffle=False, return_after=k
    )
    start = task.vector()
    meta.gradient(task.loss, legs)
    assert torch.equal(task.vector(), start)
    walks = [task.walked(0.1, legs[i : i + k])[1] for i in range(0, 5, k)]
    expected = sum(w * g for w, g in zip(arithmetic().weights(5), [g for walk in walks for g in walk], strict=True))
    torch.testing.assert_close(task.grad(), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_an_order_drawn_before_is_the_order_of_the_visits(problem, order):
    given, dealt = problem(3), problem(3)
    meta = MetaOptimizer(SGD(given.net.parameters(), lr=0.1), inner_lr=0.1)
    before = meta.generator.get_state()
    met = meta.step(given.loss, given.legs, order=order)
    assert torch.equal(meta.generator.get_state(), before)  # nothing is drawn a second time
    other = MetaOptimizer(SGD(dealt.net.parameters(), lr=0.1), inner_lr=0.1, shuffle=False)
    visited = other.step(dealt.loss, [dealt.legs[i] for i in order])
    assert torch.equal(given.vector(), dealt.vector())
    assert torch.equal(met[list(order)], visited)
