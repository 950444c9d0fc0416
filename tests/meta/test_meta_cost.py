"""What a round costs: two copies of the parameters, no clone, no look at a value."""

from __future__ import annotations

import gc
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam

from domainwise import MetaOptimizer, and_mask, arithmetic, constant, last, sand_mask

SIZE = 10_007  # no other tensor of the process is likely to have as many entries


@pytest.fixture
def only_new_objects():
    """Hides what is alive already from the count below, which would take long to look through it."""
    gc.freeze()
    yield
    gc.unfreeze()


def live_copies() -> int:
    """How many tensors as large as the parameter are alive, the parameter among them."""
    tensors = (o for o in gc.get_objects() if type(o) in (Tensor, nn.Parameter))
    return len({t.data_ptr() for t in tensors if t.numel() == SIZE})


def copies_met(combine, n: int, rounds: int = 2, **settings) -> list[int]:
    """The most copies alive when a round's forward passes begin, round by round."""
    p = nn.Parameter(torch.ones(SIZE))
    meta = MetaOptimizer(SGD([p], lr=0.1), combine, inner_lr=0.1, **settings)
    met = []
    for _ in range(rounds):
        counts = []
        meta.step(lambda i, counts=counts: counts.append(live_copies()) or p.square().sum() / SIZE, list(range(n)))
        met.append(max(counts))
    return met


@pytest.mark.usefixtures("only_new_objects")
@pytest.mark.parametrize("combine", [arithmetic(), constant(), last()], ids=["arithmetic", "constant", "last"])
def test_a_weighted_walk_holds_two_more_copies_however_many_legs(combine):
    sum_so_far = 0 if combine == last() else 1  # nothing to keep before the only leg that counts
    for n in (2, 3, 8):
        # the parameter, where it started, the sum; from the second round on also the .grad of the one before
        assert copies_met(combine, n) == [2 + sum_so_far, 3 + sum_so_far]


@pytest.mark.usefixtures("only_new_objects")
def test_standing_still_needs_no_copy_of_the_start():
    p = nn.Parameter(torch.ones(SIZE))
    counts = []
    meta = MetaOptimizer(SGD([p], lr=0.1), inner_lr=0.0)
    meta.step(lambda i: counts.append(live_copies()) or p.square().sum(), list(range(5)))
    assert max(counts) == 2


@pytest.mark.usefixtures("only_new_objects")
def test_a_combine_that_sees_all_legs_keeps_all_of_them():
    assert [copies_met(and_mask(1.0), n, rounds=1)[0] for n in (2, 3, 8)] == [3, 4, 9]


class Uncopied(nn.Linear):
    def __deepcopy__(self, memo: object) -> nn.Module:
        raise AssertionError("a module was cloned")

    __copy__ = __reduce_ex__ = __deepcopy__


INNERS = {"plain": None, "momentum": partial(SGD, momentum=0.9), "adam": Adam}


@pytest.mark.parametrize("inner", INNERS.values(), ids=INNERS)
def test_no_module_is_cloned(inner):
    net = Uncopied(3, 2)
    meta = MetaOptimizer(SGD(net.parameters(), lr=0.1), inner_lr=0.1, inner=inner, module=net, buffers="mean")
    assert meta.step(lambda x: net(x).square().mean(), list(torch.randn(3, 4, 3))).shape == (3,)


COMBINES = {"arithmetic": arithmetic(), "last": last(), "and": and_mask(1.0), "sand": sand_mask(0.5, 10.0)}


def round_without_values(combine, inner=None, check=False) -> Tensor:
    """Tensors on the meta device have shapes but no values, so that looking at one is an error."""
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).to("meta")
    meta = MetaOptimizer(
        Adam(net.parameters(), weight_decay=0.1),
        combine,
        inner_lr=0.1,
        inner_steps=2,
        inner=inner,
        module=net,
        buffers="mean",
        check=check,
    )
    legs = [list(torch.randn(2, 5, 3, device="meta")) for _ in range(3)]
    meta.step(lambda x: net(x).square().mean(), legs)
    return meta.step(lambda x: net(x).square().mean(), legs)


@pytest.mark.parametrize("inner", INNERS.values(), ids=INNERS)
@pytest.mark.parametrize("combine", COMBINES.values(), ids=COMBINES)
def test_no_value_on_the_device_is_looked_at(combine, inner):
    met = round_without_values(combine, inner)
    assert (met.shape, met.device.type) == ((3,), "meta")


def test_check_looks_at_every_loss():
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        round_without_values(arithmetic(), check=True)


def test_the_order_can_be_drawn_beforehand_and_walked_later(problem):
    drawn, direct = problem(), problem()
    later, meta = (MetaOptimizer(SGD(t.net.parameters()), inner_lr=0.1, shuffle=t is direct) for t in (drawn, direct))
    order = MetaOptimizer(SGD(direct.net.parameters()), inner_lr=0.1).order(3)
    met = later.gradient(drawn.loss, [drawn.legs[i] for i in order])
    expected = meta.gradient(direct.loss, direct.legs)
    assert met.tolist() == [expected[i].item() for i in order]
    assert torch.equal(drawn.grad(), direct.grad())
