from __future__ import annotations

from xml.etree import ElementTree

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from domainwise.errors import InputError
from domainwise.losses import Batch
from domainwise.paper.sketches import share_figure
from domainwise.paper.theory import expected, followed

PRINTED = {
    1: (1, 0, 0), 2: (0.474, 0.526, 0), 3: (0.299, 0.332, 0.369), 4: (0.503, 0.236, 0.262), 7: (0.433, 0.268, 0.298),
    10: (0.407, 0.281, 0.312), 15: (0.299, 0.332, 0.369),
}  # fmt: skip


@pytest.mark.parametrize(("step", "shares"), PRINTED.items())
def test_three_domains_in_turn_have_the_published_shares(step: int, shares: tuple[float, ...]) -> None:
    assert expected(15)[step - 1] == pytest.approx(shares, abs=5.1e-4)


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("inner_steps", [1, 3])
def test_shares_are_the_sum_of_powers_of_beta(beta: float, inner_steps: int) -> None:
    steps, domains = 13, 4
    powers = [beta ** (steps - s) if s < steps else 1.0 for s in range(1, steps + 1)]
    sums = [sum(p for s, p in enumerate(powers) if s // inner_steps % domains == d) for d in range(domains)]
    assert expected(steps, domains, beta, inner_steps)[-1] == pytest.approx([part / sum(powers) for part in sums])


def test_a_beta_of_one_is_refused() -> None:
    with pytest.raises(InputError, match="below 1"):
        expected(3, beta=1.0)


def rounds(count: int, inner_steps: int = 1) -> list[list[Batch] | list[list[Batch]]]:
    def batch(domain: int) -> Batch:
        return torch.randn(8, 4) + domain, torch.randint(3, (8,))

    if inner_steps == 1:
        return [[batch(d) for d in range(3)] for _ in range(count)]
    return [[[batch(d) for _ in range(inner_steps)] for d in range(3)] for _ in range(count)]


@pytest.mark.parametrize("inner_steps", [1, 2])
def test_the_parts_of_the_domains_add_up_to_what_adam_remembers(inner_steps: int) -> None:
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    found = followed(
        list(net.parameters()),
        lambda batch: F.cross_entropy(net(batch[0]), batch[1]),
        rounds(5, inner_steps),
        inner_steps=inner_steps,
    )
    assert len(found.shares) == 15 * inner_steps
    assert found.error < 1e-6
    assert all(sum(row) == pytest.approx(1) for row in found.shares)
    assert found.shares[0] == pytest.approx([1, 0, 0])


def test_gradients_that_never_change_have_exactly_the_expected_shares() -> None:
    place = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    directions = torch.eye(3, dtype=torch.float64)
    found = followed([place], lambda batch: directions[batch[1]] @ place, [[(place, d) for d in range(3)]] * 5)
    for row, analytic in zip(found.shares, expected(15), strict=True):
        assert row == pytest.approx(analytic)


def test_the_figure_has_a_line_for_every_domain_and_dots_where_measured() -> None:
    svg = share_figure(["a<b", "b"], expected(4, 2), expected(4, 2)).svg
    assert {"a<b, computed", "a<b, measured", "b, measured"} <= set(ElementTree.fromstring(svg).itertext())
    assert svg.count("<use") > share_figure(["a<b", "b"], expected(4, 2)).svg.count("<use")
