"""Optimizers, scalers, hooks and states that do not go with a walk: each is a sentence, and nothing has changed."""

from __future__ import annotations

import warnings
from copy import deepcopy
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch.optim import SGD, Adam

from domainwise import InputError, MetaOptimizer


class Wrapped:
    """An optimizer around an optimizer, as frameworks make them."""

    def __init__(self, optimizer, scaler=None):
        self.optimizer, self.scaler, self.param_groups = optimizer, scaler, getattr(optimizer, "param_groups", [])
        self.state_dict, self.load_state_dict = optimizer.state_dict, optimizer.load_state_dict

    def step(self):
        self.optimizer.step()


@pytest.mark.parametrize(
    "wrap",
    [lambda meta: meta, Wrapped, lambda meta: Wrapped(Wrapped(meta)), lambda meta: SimpleNamespace(outer=meta)],
    ids=["itself", "wrapped", "wrapped twice", "as outer"],
)
def test_a_walk_inside_a_walk_is_a_sentence(problem, wrap):
    meta = MetaOptimizer(SGD(problem().net.parameters()), inner_lr=0.1)
    with pytest.raises(InputError, match="is a MetaOptimizer already"):
        MetaOptimizer(wrap(meta), inner_lr=0.1)


def test_what_is_no_optimizer_is_a_sentence(problem):
    params = list(problem().net.parameters())
    for thing in (params, Adam, None, "adam"):
        with pytest.raises(InputError, match="outer must be an optimizer"):
            MetaOptimizer(thing, inner_lr=0.1)


def test_a_wrapped_optimizer_is_taken_and_the_walk_is_the_same(problem):
    plain, wrapped = problem(), problem()
    MetaOptimizer(SGD(plain.net.parameters(), lr=0.1), inner_lr=0.1).step(plain.loss, plain.legs)
    MetaOptimizer(Wrapped(SGD(wrapped.net.parameters(), lr=0.1)), inner_lr=0.1).step(wrapped.loss, wrapped.legs)
    assert torch.equal(plain.vector(), wrapped.vector())


@pytest.mark.parametrize("fused", [False, True])
def test_a_grad_scaler_around_the_outer_optimizer_is_a_sentence_too(problem, fused):
    task = problem(dtype=torch.float32)
    meta = MetaOptimizer(Adam(task.net.parameters(), fused=fused), inner_lr=1e-8)
    scaler = torch.amp.GradScaler("cpu")
    for outer in (meta.outer, meta):
        meta.gradient(lambda batch: scaler.scale(task.loss(batch)), task.legs)
        before = task.vector()
        with pytest.raises(InputError, match="cannot be scaled by a GradScaler"):
            scaler.step(outer)
        assert torch.equal(task.vector(), before)
    torch.amp.GradScaler("cpu", enabled=False).step(meta.outer)  # does nothing of its own, so it may stay in a loop
    assert not torch.equal(task.vector(), before)


def test_an_optimizer_that_brings_its_own_scaler_is_a_sentence(problem):
    outer = Wrapped(SGD(problem().net.parameters()), scaler=torch.amp.GradScaler("cpu"))
    with pytest.raises(InputError, match="cannot be scaled by a GradScaler"):
        MetaOptimizer(outer, inner_lr=0.1)


def test_hooks_that_a_walk_never_runs_are_said_and_those_on_gradients_run_on_every_leg(problem):
    task, seen = problem(), []
    weight = task.net[0].weight
    weight.register_hook(lambda g: seen.append(g))
    handle = weight.register_post_accumulate_grad_hook(lambda p: pytest.fail("a walk does not accumulate"))
    meta = MetaOptimizer(SGD(task.net.parameters(), lr=0.1), inner_lr=0.1)
    with pytest.warns(UserWarning, match="never runs the hooks of register_post_accumulate_grad_hook"):
        meta.step(task.loss, task.legs)
    assert len(seen) == 3
    handle.remove()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        meta.step(task.loss, task.legs)


def as_values(state):
    if isinstance(state, torch.Tensor):
        return state.tolist()
    if isinstance(state, dict):
        return {key: as_values(value) for key, value in state.items()}
    return [as_values(value) for value in state] if isinstance(state, list | tuple) else state


def broken(kind, state):
    """A state that does not fit, each failing at another place."""
    other = deepcopy(state)
    if kind == "groups":
        other["outer"]["param_groups"] = []
    elif kind == "another optimizer":
        other["outer"]["state"] = {0: {"momentum_buffer": torch.zeros(5, 4)}}
    elif kind == "inner":
        other["inner"]["param_groups"] *= 2
    elif kind == "inner's kind":
        other["inner"] = "adam"
    elif kind == "order":
        other["order"] = torch.zeros(3, dtype=torch.uint8)
    else:
        del other[kind.removeprefix("no ")]
    return other


@pytest.mark.parametrize(
    "kind", ["groups", "another optimizer", "inner", "inner's kind", "order", "no outer", "no inner", "no order"]
)
@pytest.mark.parametrize("inner", [partial(SGD, momentum=0.9), Adam], ids=["momentum", "adam"])
def test_a_state_that_does_not_fit_changes_nothing(problem, inner, kind):
    task, donor = problem(), problem(seed=1)
    meta, other = (MetaOptimizer(Adam(t.net.parameters(), 0.1), inner_lr=0.1, inner=inner) for t in (task, donor))
    for _ in range(2):
        meta.step(task.loss, task.legs)
        other.step(donor.loss, donor.legs)
    before, (twin, untouched) = as_values(meta.state_dict()), deepcopy((task, meta))
    with pytest.raises(Exception, match=r"."):
        meta.load_state_dict(broken(kind, other.state_dict()))
    assert as_values(meta.state_dict()) == before
    meta.step(task.loss, task.legs)
    untouched.step(twin.loss, twin.legs)
    assert torch.equal(task.vector(), twin.vector())


def test_the_state_of_a_plain_optimizer_is_a_sentence(problem):
    task = problem()
    outer = SGD(task.net.parameters())
    with pytest.raises(InputError, match="no state of a MetaOptimizer: it has no inner and no order and no outer"):
        MetaOptimizer(outer, inner_lr=0.1).load_state_dict(outer.state_dict())
