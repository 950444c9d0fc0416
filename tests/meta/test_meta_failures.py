"""What goes wrong in a round leaves no trace, and mistakes are sentences."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from io import BytesIO

import pytest
import torch
from torch import nn
from torch.optim import LBFGS, SGD, Adam

from domainwise import InputError, MetaOptimizer, arithmetic

INNERS = {"plain": None, "momentum": partial(SGD, momentum=0.9), "adam": Adam}
inners = pytest.mark.parametrize("inner", INNERS.values(), ids=INNERS)


def with_batch_norm(task):
    task.net = nn.Sequential(task.net, nn.BatchNorm1d(3)).double()
    return task


def everything(task, meta) -> list[object]:
    """All that a round may touch, as plain values."""
    tensors = [*task.net.state_dict().values(), *(p.grad for p in task.net.parameters()), meta.generator.get_state()]
    memory = {} if meta.inner is None else meta.inner.state_dict()["state"]
    return [None if t is None else t.tolist() for t in tensors] + [
        {name: v.tolist() if isinstance(v, torch.Tensor) else v for name, v in state.items()}
        for state in memory.values()
    ]


def failing(task, at: int, error: BaseException):
    visits = iter(range(100))

    def loss(batch):
        if next(visits) == at:
            raise error
        return task.loss(batch)

    return loss


@inners
@pytest.mark.parametrize(("at", "error"), [(0, InputError), (1, ValueError), (2, KeyboardInterrupt)])
@pytest.mark.parametrize("rounds_before", [0, 2])
def test_an_interrupted_round_leaves_everything_as_it_was(problem, inner, at, error, rounds_before):
    task = with_batch_norm(problem())
    meta = MetaOptimizer(Adam(task.net.parameters(), lr=0.1), inner_lr=0.1, inner=inner, module=task.net)
    for _ in range(rounds_before):
        meta.step(task.loss, task.legs)
    before, twin = everything(task, meta), deepcopy((task, meta))
    with pytest.raises(error):
        meta.step(failing(task, at, error("stop")), task.legs)
    assert everything(task, meta) == before
    for t, m in ((task, meta), twin):
        m.step(t.loss, t.legs)
    assert everything(task, meta) == everything(*twin)


@inners
def test_a_combine_that_fails_leaves_everything_as_it_was(problem, inner):
    def broken(gradients):
        raise MemoryError

    task = with_batch_norm(problem())
    meta = MetaOptimizer(SGD(task.net.parameters()), inner_lr=0.1, inner=inner, module=task.net, buffers="mean")
    meta.step(task.loss, task.legs)
    meta.combine = broken
    before = everything(task, meta)
    with pytest.raises(MemoryError):
        meta.step(task.loss, task.legs)
    assert everything(task, meta) == before


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("leg", [0, 1, 2])
def test_check_names_the_leg_whose_loss_is_not_finite_and_puts_everything_back(problem, leg, bad):
    task = problem()
    meta = MetaOptimizer(SGD(task.net.parameters(), lr=0.1), inner_lr=0.1, check=True)
    legs = [(*batch, bad if i == leg else 1.0) for i, batch in enumerate(task.legs)]
    for _ in range(5):  # in whatever order they are visited
        torch.randperm(3, generator=meta.generator)
        before = everything(task, meta)
        with pytest.raises(FloatingPointError, match=f"loss of leg {leg} is {bad}: .*inner_lr"):
            meta.step(lambda batch: batch[2] * task.loss(batch[:2]), legs)
        assert everything(task, meta) == before


def test_without_check_a_loss_that_is_not_finite_is_reported_as_it_is(problem):
    task = problem()
    meta = MetaOptimizer(SGD(task.net.parameters()), inner_lr=0.1)
    met = meta.gradient(lambda batch: task.loss(batch) * float("nan"), task.legs)
    assert met.isnan().all()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"inner_lr": -0.1}, "inner_lr must be a number from 0 up, got -0.1"),
        ({"inner_lr": float("nan")}, "inner_lr must be a number from 0 up, got nan"),
        ({"inner_lr": float("inf")}, "inner_lr must be a number from 0 up, got inf"),
        ({"inner_lr": "0.1"}, "inner_lr must be a number from 0 up, got '0.1'"),
        ({"inner_lr": None}, "inner_lr must be a number from 0 up, got None"),
        ({"inner_steps": 0}, "inner_steps must be a whole number from 1 up, got 0"),
        ({"inner_steps": 1.5}, "inner_steps must be a whole number from 1 up, got 1.5"),
        ({"buffers": "middle"}, '"end", "start" or "mean", got \'middle\''),
        ({"buffers": "start"}, 'buffers="start" needs module='),
        ({"buffers": "mean"}, 'buffers="mean" needs module='),
    ],
)
def test_settings_that_make_no_sense_are_sentences(problem, settings, sentence):
    with pytest.raises(InputError, match=sentence):
        MetaOptimizer(SGD(problem().net.parameters()), **{"inner_lr": 0.1, **settings})


def test_an_outer_optimizer_that_needs_a_closure_is_a_sentence(problem):
    with pytest.raises(InputError, match="LBFGS needs a closure"):
        MetaOptimizer(LBFGS(problem().net.parameters()), inner_lr=0.1)


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        (lambda out: out, r"single number, got one of shape \(8, 3\)"),
        (lambda out: out.sum()[None], r"single number, got one of shape \(1,\)"),
        (lambda out: out.sum().item(), "single number, got float"),
        (lambda out: None, "single number, got NoneType"),
    ],
)
def test_a_loss_that_is_not_one_number_is_a_sentence(problem, loss, sentence):
    task = problem()
    with pytest.raises(InputError, match=sentence):
        MetaOptimizer(SGD(task.net.parameters()), inner_lr=0.1).step(lambda b: loss(task.net(b[0])), task.legs)


@pytest.mark.parametrize(
    ("k", "legs", "sentence"),
    [
        (1, [], "at least one leg"),
        (3, [], "at least one leg"),
        (3, [[0, 0, 0], [0, 0]], "leg 1 must be a sequence of 3 batches .* got 2 of them"),
        (3, [torch.zeros(3), [0, 0, 0]], "leg 0 must be a sequence of 3 batches .* got Tensor"),
    ],
)
def test_legs_that_cannot_be_walked_are_sentences(problem, k, legs, sentence):
    meta = MetaOptimizer(SGD(problem().net.parameters()), inner_lr=0.1, inner_steps=k)
    with pytest.raises(InputError, match=sentence):
        meta.step(lambda batch: pytest.fail("nothing may run before the legs are looked at"), legs)


def test_nothing_left_to_train_is_a_sentence(problem):
    task = problem()
    task.net.requires_grad_(False)
    with pytest.raises(InputError, match="nothing to train"):
        MetaOptimizer(SGD(task.net.parameters()), inner_lr=0.1).step(task.loss, task.legs)


@inners
def test_a_saved_and_loaded_run_continues_to_the_last_bit(problem, inner):
    def made():
        task = problem(4)
        task.net[0].requires_grad_(False)
        return task, MetaOptimizer(Adam(task.net.parameters(), lr=0.01), arithmetic(), inner_lr=0.1, inner=inner)

    (task, meta), (other, resumed) = made(), made()
    meta.step(task.loss, task.legs)
    task.net[0].requires_grad_(True)  # an unfrozen layer must find its memory again
    meta.step(task.loss, task.legs)
    file = BytesIO()
    torch.save({"net": task.net.state_dict(), "meta": meta.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    other.net.load_state_dict(saved["net"])
    other.net[0].requires_grad_(True)
    resumed.order(4)  # an order generator that is somewhere else
    resumed.load_state_dict(saved["meta"])
    for _ in range(4):
        met = [m.step(t.loss, t.legs) for t, m in ((task, meta), (other, resumed))]
        assert torch.equal(*met)
        assert torch.equal(task.vector(), other.vector())
    assert everything(task, meta) == everything(other, resumed)


def test_a_memory_without_an_inner_optimizer_to_hold_it_is_a_sentence(problem):
    task = problem()
    meta = MetaOptimizer(SGD(task.net.parameters()), inner_lr=0.1, inner=Adam)
    meta.step(task.loss, task.legs)
    with pytest.raises(InputError, match="has no `inner`"):
        MetaOptimizer(SGD(task.net.parameters()), inner_lr=0.1).load_state_dict(meta.state_dict())
