"""Low precision: autocast keeps low-precision copies of weights, and a walk moves weights under its feet."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import SGD, Adam

from domainwise import InputError, MetaOptimizer


@pytest.fixture
def setting():
    """A network with something to gain from every step on one batch, and that batch."""
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 5))
    x, y = torch.randn(32, 64), torch.randint(5, (32,))
    return net, lambda batch: F.cross_entropy(net(batch[0]), batch[1]), (x, y)


def autocast() -> torch.autocast:
    return torch.autocast("cpu", dtype=torch.bfloat16)


def test_a_move_in_place_is_invisible_under_autocast_until_its_cache_is_cleared(setting):
    net, loss, batch = setting
    with autocast():
        before = loss(batch).item()
        with torch.no_grad():
            net[0].weight.mul_(3)
        assert loss(batch).item() == before
        torch.clear_autocast_cache()
        assert loss(batch).item() != before


@pytest.mark.parametrize(("inner", "inner_lr"), [(None, 0.3), (Adam, 1e-3)], ids=["plain", "adam"])
@pytest.mark.parametrize("inner_steps", [1, 3])
def test_the_walk_moves_when_the_whole_step_is_wrapped_in_autocast(setting, inner, inner_lr, inner_steps):
    net, loss, batch = setting
    meta = MetaOptimizer(
        SGD(net.parameters(), lr=0.0), inner_lr=inner_lr, inner=inner, inner_steps=inner_steps, shuffle=False
    )
    leg = batch if inner_steps == 1 else [batch] * inner_steps
    with autocast():
        loss(batch)  # fills the cache with the weights of the start
        first, second, third = meta.step(loss, [leg] * 3).tolist()
    assert third < second - 0.02 < first - 0.04


def test_the_micro_steps_of_a_leg_move_too(setting):
    net, loss, batch = setting
    met = []
    meta = MetaOptimizer(SGD(net.parameters()), inner_lr=0.3, inner_steps=3)
    with autocast():
        meta.gradient(lambda b: met.append(loss(b)) or met[-1], [[batch] * 3])
    first, second, third = (value.item() for value in met)
    assert third < second < first


def test_after_the_walk_autocast_sees_the_start_again_and_after_the_step_the_new_weights(setting):
    net, loss, batch = setting
    meta = MetaOptimizer(SGD(net.parameters(), lr=0.3), inner_lr=0.3)
    with autocast():
        start = loss(batch).item()
        meta.gradient(loss, [batch] * 3)
        assert loss(batch).item() == start
        meta.step(loss, [batch] * 3)
        stepped = loss(batch).item()
    with autocast():
        assert loss(batch).item() == stepped < start


def test_an_interrupted_walk_leaves_no_stale_copies_behind(setting):
    net, loss, batch = setting
    meta = MetaOptimizer(SGD(net.parameters()), inner_lr=0.3, check=True, shuffle=False)
    nan = (batch[0] * float("nan"), batch[1])
    with autocast():
        start = loss(batch).item()
        with pytest.raises(FloatingPointError, match="leg 2"):
            meta.step(loss, [batch, batch, nan])
        assert loss(batch).item() == start


def test_autocast_inside_the_loss_or_around_the_step_is_the_same_walk(setting):
    net, loss, batch = setting
    meta = MetaOptimizer(SGD(net.parameters()), inner_lr=0.3)

    def wrapped(b):
        with autocast():
            return loss(b)

    inside = meta.gradient(wrapped, [batch] * 3), net[0].weight.grad
    with autocast():
        around = meta.gradient(loss, [batch] * 3), net[0].weight.grad
    torch.testing.assert_close(sorted(inside[0].tolist()), sorted(around[0].tolist()), rtol=0, atol=0)
    assert torch.equal(inside[1], around[1])
    assert inside[1].dtype == torch.float32


def test_parameters_and_losses_keep_their_precision(setting):
    net, loss, batch = setting
    meta = MetaOptimizer(Adam(net.parameters()), inner_lr=0.1)
    with autocast():
        meta.step(loss, [batch] * 2)
    assert {t.dtype for p in net.parameters() for t in (p, p.grad)} == {torch.float32}


def test_float16_autocast_is_a_sentence_and_does_not_touch_anything(setting):
    net, loss, batch = setting
    meta = MetaOptimizer(SGD(net.parameters()), inner_lr=0.1)
    order = meta.generator.get_state()
    with torch.autocast("cpu", dtype=torch.float16), pytest.raises(InputError, match="bfloat16 autocast"):
        meta.step(loss, [batch])
    assert torch.equal(meta.generator.get_state(), order)
    assert net[0].weight.grad is None


def test_a_grad_scaler_is_a_sentence(setting):
    net, _, _ = setting
    meta = MetaOptimizer(SGD(net.parameters()), inner_lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(()))
    with pytest.raises(InputError, match="cannot be scaled by a GradScaler"):
        scaler.step(meta)
