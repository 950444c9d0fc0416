"""Optimizers, scalers, hooks and states that do not go with a walk: each is a sentence, and nothing has changed."""

from __future__ import annotations

import warnings
from copy import deepcopy
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam
from torch.utils.checkpoint import checkpoint

from domainwise import InputError, MetaOptimizer
from domainwise.meta.combine import and_mask, arithmetic, constant, last, sand_mask, weighted


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


@pytest.mark.parametrize("state", [None, [1], {"outer": {}, "inner": None, "order": None}], ids=str)
def test_what_is_no_state_is_a_sentence(problem, state):
    task = problem()
    with pytest.raises(InputError, match="this is no state of a MetaOptimizer"):
        MetaOptimizer(SGD(task.net.parameters()), inner_lr=0.1).load_state_dict(state)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda ps: MetaOptimizer(SGD(ps), inner_lr=0.1), "a walk inside a walk"),
        (lambda ps: None, "it made a NoneType"),
    ],
)
def test_an_inner_factory_that_makes_no_optimizer_is_a_sentence(problem, make, sentence):
    task = problem()
    before = task.vector()
    with pytest.raises(InputError, match=sentence):
        MetaOptimizer(SGD(task.net.parameters()), inner_lr=0.1, inner=make).step(task.loss, task.legs)
    assert torch.equal(task.vector(), before)


def test_the_state_of_a_plain_optimizer_is_a_sentence(problem):
    task = problem()
    outer = SGD(task.net.parameters())
    with pytest.raises(InputError, match="no state of a MetaOptimizer: it has no inner and no order and no outer"):
        MetaOptimizer(outer, inner_lr=0.1).load_state_dict(outer.state_dict())


def test_a_step_that_a_framework_would_skip_is_a_sentence_before_the_walk(problem):
    task = problem()
    outer = Wrapped(SGD(task.net.parameters()))
    outer.gradient_state = SimpleNamespace(sync_gradients=False)
    meta = MetaOptimizer(outer, inner_lr=0.1)
    with pytest.raises(InputError, match="the walk would be lost: leave accumulation out"):
        meta.step(lambda batch: pytest.fail("nothing may run"), task.legs)
    outer.gradient_state.sync_gradients = True
    meta.step(task.loss, task.legs)


@pytest.mark.parametrize("around", [torch.no_grad, torch.inference_mode])
def test_a_loss_without_a_gradient_is_a_sentence_and_changes_nothing(problem, around):
    task = problem()
    meta, before = MetaOptimizer(SGD(task.net.parameters()), inner_lr=0.1), problem().vector()
    with around(), pytest.raises(InputError, match=r"no gradient: is there a torch\.no_grad"):
        meta.step(task.loss, task.legs)
    with pytest.raises(InputError, match=r"a detach in the loss"):
        meta.step(lambda batch: task.loss(batch).detach(), task.legs)
    assert torch.equal(task.vector(), before)


def test_legs_by_name_are_a_sentence(problem):
    task = problem()
    with pytest.raises(InputError, match="legs must be a sequence, one per domain, got a mapping"):
        MetaOptimizer(SGD(task.net.parameters()), inner_lr=0.1).step(task.loss, dict(enumerate(task.legs)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_walk_in_parameters_too_coarse_for_its_steps_says_so(problem, dtype):
    task = problem(dtype=dtype)
    task.loss = lambda batch: cross_entropy(task.net(batch[0]).float(), batch[1])
    with pytest.warns(UserWarning, match=f"rounded away in {dtype} parameters: keep parameters in float32"):
        MetaOptimizer(SGD(task.net.parameters()), inner_lr=0.1).step(task.loss, task.legs)
    MetaOptimizer(SGD(task.net.parameters()), inner_lr=0).step(task.loss, task.legs)  # stays where it is: no word


def walked(task, loss):
    torch.manual_seed(0)
    meta = MetaOptimizer(SGD(task.net.parameters(), lr=0.1), inner_lr=0.1)
    for _ in range(2):
        meta.step(loss, task.legs)
    return task.vector()


def test_checkpointed_layers_walk_as_they_are(problem):
    plain, saving = problem(), problem()
    through = partial(checkpoint, saving.net, use_reentrant=False)
    found = walked(saving, lambda batch: cross_entropy(through(batch[0]), batch[1]))
    assert torch.equal(found, walked(plain, plain.loss))


@pytest.mark.slow
def test_a_compiled_module_walks_as_it_is(problem):
    plain, compiled = problem(), problem()
    fast = torch.compile(compiled.net, backend="aot_eager")
    found = walked(compiled, lambda batch: cross_entropy(fast(batch[0]), batch[1]))
    torch.testing.assert_close(found, walked(plain, plain.loss), rtol=0, atol=1e-12)


def test_what_was_accumulated_before_a_round_or_between_two_is_replaced(problem):
    task, plain = problem(), problem()
    meta, other = (MetaOptimizer(SGD(t.net.parameters(), lr=0.1), inner_lr=0.1, shuffle=False) for t in (task, plain))
    task.loss(task.legs[0]).backward()
    meta.gradient(task.loss, task.legs[:1])
    meta.step(task.loss, task.legs)
    other.step(plain.loss, plain.legs)
    assert torch.equal(task.vector(), plain.vector())


def test_a_tied_weight_is_walked_once(problem):
    tied = problem()
    first, squash, last = tied.net
    tied.net = torch.nn.Sequential(first, squash, torch.nn.Linear(5, 4).double(), first, last)
    models, gradients = tied.walked(0.1, [[leg] for leg in tied.legs])
    meta = MetaOptimizer(SGD(tied.net.parameters()), inner_lr=0.1, shuffle=False)
    meta.gradient(tied.loss, tied.legs)
    expected = sum(w * g for w, g in zip((1 / 2, 1 / 3, 1 / 6), gradients, strict=True))
    torch.testing.assert_close(tied.grad(), expected, rtol=1e-10, atol=1e-12)
    assert torch.equal(tied.vector(), models[0])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"inner_lr": torch.tensor([0.1, 0.2])}, "inner_lr must be a number from 0 up"),
        ({"inner_lr": True}, "inner_lr must be a number from 0 up"),
        ({"inner_steps": True}, "inner_steps must be a whole number"),
        ({"combine": 3}, "combine must be"),
        ({"combine": constant}, r"combine is to be what constant\(...\) gives"),
        ({"combine": sand_mask}, r"what sand_mask\(...\) gives"),
        ({"inner": 3}, "inner must be a function or None"),
        ({"shuffle": "yes"}, "shuffle must be True or False"),
        ({"check": 1}, "check must be True or False"),
        ({"generator": 3}, "generator must be"),
        ({"module": 3}, "module must be"),
    ],
)
def test_settings_of_a_wrong_kind_are_a_sentence(problem, given, sentence):
    outer = SGD(problem().net.parameters())
    with pytest.raises(InputError, match=sentence):
        MetaOptimizer(outer, **{"inner_lr": 0.1, **given})
    MetaOptimizer(outer, inner_lr=torch.tensor(0.1), inner_steps=np.int64(2), combine=last())


def test_combines_of_a_wrong_kind_are_a_sentence():
    wrong = {
        "epsilon": lambda: arithmetic("a"), "tau": lambda: and_mask("a"), "k": lambda: sand_mask(0.1, None),
        "weights": lambda: weighted(3),
    }  # fmt: skip
    for name, make in wrong.items():
        with pytest.raises(InputError, match=f"^{name} must be a "):
            make()


def test_an_order_that_misses_a_leg_and_a_return_with_a_memory_are_sentences(problem):
    net = problem().net
    with pytest.raises(InputError, match="each of its 3 legs once, got"):
        MetaOptimizer(SGD(net.parameters()), inner_lr=0.1).gradient(problem().loss, problem().legs, order=[0, 0, 1])
    with pytest.raises(InputError, match="an inner optimizer remembers"):
        MetaOptimizer(SGD(net.parameters()), inner_lr=0.1, inner=Adam, return_after=2)
    with pytest.raises(InputError, match="return_after must be a whole number"):
        MetaOptimizer(SGD(net.parameters()), inner_lr=0.1, return_after=0)
