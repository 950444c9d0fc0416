"""What a round leaves in batch-norm statistics."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.optim import SGD

from domainwise import InputError, MetaOptimizer, Network, constant
from domainwise.algorithms import create

LEGS = [torch.full((4, 1), 8.0), torch.full((4, 1), 16.0)]


def after_one_round(policy: str, module: bool = True, inner_steps: int = 1):
    """Batch-norm with momentum 1/2, so that 0 becomes 4 and then 10 (or back and forth on the way with more steps)."""
    norm = nn.BatchNorm1d(1, momentum=0.5)
    meta = MetaOptimizer(
        SGD(norm.parameters()),
        constant(),
        inner_lr=0.1,
        inner_steps=inner_steps,
        shuffle=False,
        module=norm if module else None,
        buffers=policy,
    )
    legs = LEGS if inner_steps == 1 else [[leg] * inner_steps for leg in LEGS]
    meta.step(lambda x: norm(x).square().mean(), legs)
    return norm


@pytest.mark.parametrize("module", [True, False])
def test_end_leaves_buffers_where_the_walk_ended(module):
    norm = after_one_round("end", module)
    assert (norm.running_mean.item(), norm.num_batches_tracked.item()) == (10.0, 2)


def test_start_puts_back_every_buffer():
    norm = after_one_round("start")
    assert (norm.running_mean.item(), norm.running_var.item(), norm.num_batches_tracked.item()) == (0.0, 1.0, 0)


def test_mean_averages_over_the_legs_but_never_counters():
    norm = after_one_round("mean")
    assert norm.running_mean.item() == (4.0 + 10.0) / 2
    assert norm.running_var.item() == (0.5 + 0.25) / 2
    assert (norm.num_batches_tracked.item(), norm.num_batches_tracked.dtype) == (2, torch.int64)


def test_mean_counts_a_leg_of_several_steps_once():
    norm = after_one_round("mean", inner_steps=2)  # 4, 6 on the first leg; 11, 13.5 on the second
    assert norm.running_mean.item() == (6.0 + 13.5) / 2
    assert norm.num_batches_tracked.item() == 4


class Counter(nn.Module):
    """Puts a new tensor in the place of its buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen = self.seen + 1
        return self.weight * x


@pytest.mark.parametrize(("policy", "expected"), [("end", 3.0), ("start", 0.0), ("mean", 2.0)])
def test_buffers_replaced_by_the_forward_pass_are_followed(policy, expected):
    net = Counter()
    MetaOptimizer(SGD(net.parameters()), inner_lr=0.1, module=net, buffers=policy).step(net, list(torch.ones(3)))
    assert net.seen.item() == expected


@pytest.mark.parametrize("name", ["arith", "fish", "maml", "reptile"])
def test_an_algorithm_that_walks_can_say_what_stays(name: str) -> None:
    means = {}
    for policy in ("end", "start", "mean"):
        norm = nn.BatchNorm1d(1, momentum=0.5)
        walk = create(name, lr=1e-3, buffers=policy, shuffle=False).setup(Network(norm, nn.Linear(1, 2)), seed=0)
        walk.update([(leg, torch.tensor([0, 1, 0, 1])) for leg in LEGS])
        means[policy] = norm.running_mean.item()
    assert means == {"end": 10.0, "start": 0.0, "mean": 7.0}
    with pytest.raises(InputError, match="buffers must be one of end, start, mean"):
        create(name, buffers="middle")
