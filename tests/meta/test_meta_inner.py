"""Walks taken by an optimizer with a memory: a leg is its displacement in units of the inner learning rate."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from itertools import pairwise

import pytest
import torch
from torch.nn.utils import vector_to_parameters
from torch.optim import SGD, Adagrad, Adam

from domainwise import InputError, MetaOptimizer, arithmetic, constant, last

momentum = partial(SGD, momentum=0.9)
INNERS = {
    "momentum": momentum,
    "nesterov, decay": partial(SGD, momentum=0.9, nesterov=True, weight_decay=0.1),
    "adam": Adam,
    "adam, decay": partial(Adam, weight_decay=0.1),
    "amsgrad": partial(Adam, amsgrad=True),
    "adagrad": Adagrad,
}
any_inner = pytest.mark.parametrize("inner", INNERS.values(), ids=INNERS)


class Clone:
    """A network copied for every round, its optimizer's memory handed on from clone to clone."""

    def __init__(self, task, inner, lr: float) -> None:
        self.task, self.inner, self.lr, self.memory = task, inner, lr, None

    def models(self, legs) -> list[torch.Tensor]:
        clone = deepcopy(self.task)
        optimizer = self.inner(clone.net.parameters(), lr=self.lr)
        if self.memory is not None:
            optimizer.load_state_dict(self.memory)
        models = [clone.vector()]
        for leg in legs:
            for batch in leg:
                optimizer.zero_grad()
                clone.loss(batch).backward()
                optimizer.step()
            models.append(clone.vector())
        self.memory = optimizer.state_dict()
        return models


@any_inner
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("combine", [arithmetic(1.0), constant(), last()], ids=["arithmetic", "constant", "last"])
def test_three_rounds_are_those_of_clones_that_hand_on_their_memory(problem, inner, k, combine):
    walking, cloned = problem(), problem()
    legs = [walking.batches(k) for _ in range(3)]
    clone = Clone(cloned, inner, lr=0.02)
    meta = MetaOptimizer(
        SGD(walking.net.parameters(), lr=0.02), combine, inner_lr=0.02, inner=inner, inner_steps=k, shuffle=False
    )
    for _ in range(3):
        meta.step(walking.loss, walking.as_given(legs))
        models = clone.models(legs)
        displacements = [before - after for before, after in pairwise(models)]
        end = models[0] - sum(w * d for w, d in zip(combine.weights(3), displacements, strict=True))
        vector_to_parameters(end, cloned.net.parameters())
        torch.testing.assert_close(walking.vector(), cloned.vector(), rtol=0, atol=1e-10)


def test_half_way_to_the_end_of_an_adam_walk_is_fish_as_published_in_domainbed(problem):
    walking, cloned = problem(), problem()
    clone = Clone(cloned, partial(Adam, weight_decay=0.1), lr=0.01)
    meta = MetaOptimizer(
        SGD(walking.net.parameters(), lr=0.01),
        constant().scaled(0.5 * 3),
        inner_lr=0.01,
        inner=partial(Adam, weight_decay=0.1),
        shuffle=False,
    )
    for _ in range(3):
        meta.step(walking.loss, walking.legs)
        models = clone.models([[leg] for leg in cloned.legs])
        vector_to_parameters(models[0] + 0.5 * (models[-1] - models[0]), cloned.net.parameters())
        torch.testing.assert_close(walking.vector(), cloned.vector(), rtol=0, atol=1e-10)


@any_inner
def test_the_direction_is_in_gradient_units_of_the_inner_learning_rate(problem, inner):
    task = problem()
    models = Clone(task, inner, lr=0.02).models([[leg] for leg in task.legs])
    meta = MetaOptimizer(SGD(task.net.parameters()), constant().scaled(3), inner_lr=0.02, inner=inner, shuffle=False)
    meta.gradient(task.loss, task.legs)
    torch.testing.assert_close(task.grad(), (models[0] - models[-1]) / 0.02, rtol=1e-10, atol=1e-10)
    assert torch.equal(task.vector(), models[0])


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(
    "combine", [arithmetic(), last(), lambda g: g.median(0).values], ids=["arithmetic", "last", "median"]
)
def test_an_inner_optimizer_without_memory_is_the_plain_walk(problem, k, combine):
    directions = []
    for inner in (None, SGD):
        task = problem()
        legs = [task.batches(k) for _ in range(3)]
        meta = MetaOptimizer(SGD(task.net.parameters()), combine, inner_lr=0.1, inner=inner, inner_steps=k)
        meta.gradient(task.loss, task.as_given(legs))
        directions.append(task.grad())
    torch.testing.assert_close(*directions, rtol=1e-10, atol=1e-12)


def test_the_memory_is_kept_from_round_to_round(problem):
    task = problem()
    meta = MetaOptimizer(SGD(task.net.parameters(), lr=0.0), inner_lr=0.1, inner=Adam, shuffle=False)
    losses = [meta.step(task.loss, task.legs) for _ in range(2)]
    first = next(task.net.parameters())
    assert meta.inner.state[first]["step"].item() == 6
    assert losses[0][0] == losses[1][0]  # the outer learning rate is 0: both rounds start alike,
    assert losses[0][1] != losses[1][1]  # but the second one steps with what it remembers


def test_the_inner_learning_rate_is_that_of_the_walk_whatever_the_factory_says(problem):
    task, other = problem(), problem()
    metas = [
        MetaOptimizer(SGD(t.net.parameters()), inner_lr=0.1, inner=partial(momentum, lr=lr))
        for t, lr in ((task, 0.1), (other, 7.0))
    ]
    for meta, t in zip(metas, (task, other), strict=True):
        meta.gradient(t.loss, t.legs)
    assert torch.equal(task.grad(), other.grad())
    metas[1].inner_lr = 0.05  # as a schedule of one's own would
    metas[1].gradient(other.loss, other.legs)
    assert [group["lr"] for group in metas[1].inner.param_groups] == [0.05]


def test_a_factory_may_make_groups(problem):
    plain, decayed = problem(1), problem(1)
    groups = lambda params: SGD([{"params": params[:2], "weight_decay": 1.0}, {"params": params[2:]}])  # noqa: E731
    for task, inner in ((plain, None), (decayed, groups)):
        MetaOptimizer(SGD(task.net.parameters()), inner_lr=0.1, inner=inner).gradient(task.loss, task.legs)
    expected = plain.vector()
    expected[25:] = 0  # the second layer is in the group without weight decay
    torch.testing.assert_close(decayed.grad() - plain.grad(), expected, rtol=1e-9, atol=1e-9)


def test_a_walk_that_could_not_move_is_a_sentence(problem):
    with pytest.raises(InputError, match="inner optimizer would never move"):
        MetaOptimizer(SGD(problem().net.parameters()), inner_lr=0, inner=Adam)


def test_an_optimizer_in_place_of_its_factory_is_a_sentence(problem):
    params = list(problem().net.parameters())
    with pytest.raises(InputError, match="a function that makes an optimizer"):
        MetaOptimizer(SGD(params), inner_lr=0.1, inner=Adam(params))
