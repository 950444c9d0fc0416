"""Closed forms and distances against brute force, in float64 and under autocast."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, vmap
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from domainwise import InputError, Network
from domainwise.algorithms import create, names
from domainwise.algorithms._bases import at_head
from domainwise.losses import (
    Batch,
    apart,
    coral,
    distance_to,
    head_gradient,
    head_hessian_diagonal,
    head_hessian_product,
    head_variance,
    irm,
    joined,
    mmd,
    residual,
    self_challenge,
)


def batch(samples: int = 7, d: int = 5) -> Batch:
    return torch.randn(samples, d, dtype=torch.float64), torch.randint(3, (samples,))


@pytest.fixture(params=[True, False], ids=["bias", "no bias"])
def head(request) -> nn.Linear:
    return nn.Linear(5, 3, bias=request.param, dtype=torch.float64)


def risk_of(head: nn.Linear, x: Tensor, y: Tensor):
    """The risk as a function of the head's parameters in one matrix, the bias as its last column."""
    biased = head.bias is not None

    def risk(matrix: Tensor, x: Tensor = x, y: Tensor = y) -> Tensor:
        params = {"weight": matrix[:, :5]} | ({"bias": matrix[:, 5]} if biased else {})
        return F.cross_entropy(functional_call(head, params, (x,)), y)

    matrix = torch.cat([head.weight, head.bias[:, None]], 1) if biased else head.weight
    return risk, matrix.detach()


def put_through(head: nn.Linear, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    (inputs,), (logits,) = at_head(Network(nn.Identity(), head), [(x, y)])
    return inputs, logits


def test_the_heads_gradient_is_autograds(head) -> None:
    x, y = batch()
    risk, matrix = risk_of(head, x, y)
    torch.testing.assert_close(head_gradient(*put_through(head, x, y), y), grad(risk)(matrix), rtol=1e-12, atol=1e-14)


def test_the_variance_of_the_heads_gradients_is_that_of_one_gradient_per_sample(head) -> None:
    x, y = batch()
    risk, matrix = risk_of(head, x, y)
    each = vmap(lambda one, label: grad(risk)(matrix, one[None], label[None]))(x, y)
    torch.testing.assert_close(
        head_variance(*put_through(head, x, y), y), each.var(0, correction=0), rtol=1e-10, atol=1e-14
    )


def test_the_heads_hessian_is_autograds_in_every_direction_and_on_its_diagonal(head) -> None:
    x, y = batch()
    risk, matrix = risk_of(head, x, y)
    full = jacrev(grad(risk))(matrix).reshape(matrix.numel(), matrix.numel())
    inputs, logits = put_through(head, x, y)
    directions = torch.randn(4, *matrix.shape, dtype=torch.float64)
    expected = (directions.flatten(1) @ full).reshape(directions.shape)
    torch.testing.assert_close(head_hessian_product(inputs, logits, directions), expected, rtol=1e-10, atol=1e-14)
    torch.testing.assert_close(head_hessian_product(inputs, logits, directions[0]), expected[0])
    torch.testing.assert_close(head_hessian_diagonal(inputs, logits).flatten(), full.diagonal(), rtol=1e-10, atol=1e-14)


def test_random_signs_estimate_the_diagonal_without_bias(head) -> None:
    x, y = batch()
    inputs, logits = put_through(head, x, y)
    signs = 2.0 * torch.randint(2, (20_000, 3, inputs.shape[1]), dtype=torch.float64) - 1
    estimate = (signs * head_hessian_product(inputs, logits, signs)).mean(0)
    torch.testing.assert_close(estimate, head_hessian_diagonal(inputs, logits), rtol=0, atol=0.02)


def test_the_residual_is_the_gradient_of_each_samples_cross_entropy() -> None:
    logits, y = torch.randn(6, 3, dtype=torch.float64, requires_grad=True), torch.randint(3, (6,))
    (expected,) = torch.autograd.grad(F.cross_entropy(logits, y, reduction="sum"), logits)
    torch.testing.assert_close(residual(logits, y), expected)


def test_the_irm_penalty_is_zero_in_expectation_where_no_factor_on_the_logits_helps() -> None:
    y = torch.tensor([0, 0, 1, 1, 0, 0, 1, 1])
    calibrated = torch.zeros(8, 2, dtype=torch.float64)  # half of them right: saying more or less surely gains nothing
    assert irm(calibrated, y).item() == 0
    overconfident = torch.tensor([[3.0, -3.0]], dtype=torch.float64).expand(8, 2)
    assert irm(overconfident, y).item() > 1


@pytest.mark.parametrize("distance", [coral, mmd])
def test_distances_are_symmetric_and_zero_only_between_equal_features(distance) -> None:
    a, b = torch.randn(6, 4, dtype=torch.float64), torch.randn(9, 4, dtype=torch.float64)
    assert distance(a, b).item() == pytest.approx(distance(b, a).item(), rel=1e-12)
    assert distance(a, b).item() > 0.01
    assert distance(a, a.flip(0)).item() == pytest.approx(0, abs=1e-12)


def test_distances_keep_their_precision_far_from_the_origin() -> None:
    a, b = torch.randn(8, 4), torch.randn(8, 4)
    assert mmd(a + 300, b + 300).item() == pytest.approx(mmd(a.double(), b.double()).item(), rel=1e-3)


@pytest.mark.parametrize("distance", [coral, mmd])
def test_more_domains_are_averaged_over_their_pairs_and_a_single_one_has_none(distance) -> None:
    features = [torch.randn(size, 3, dtype=torch.float64) for size in (4, 6, 3, 5)]
    pairs = torch.stack([distance(a, b) for a, b in combinations(features, 2)])
    torch.testing.assert_close(distance(*features), pairs.mean(), rtol=1e-12, atol=0)
    assert distance(features[0]).item() == 0


def test_the_center_of_a_distance_gets_no_gradient() -> None:
    values = torch.randn(3, 2, 2, requires_grad=True)
    center = (2 * values).mean(0)
    distance_to(center, values).backward()
    torch.testing.assert_close(values.grad, 2 / 3 * (values - center).detach())


def test_what_was_joined_comes_apart_again() -> None:
    batches = [batch(samples) for samples in (3, 1, 4)]
    for (x, _), piece in zip(batches, apart(joined(batches)[0], batches), strict=True):
        assert torch.equal(x, piece)


def test_self_challenge_mutes_the_steepest_features_of_the_samples_that_need_them() -> None:
    head = nn.Linear(4, 2, bias=False)
    head.weight.data = torch.tensor([[4.0, 1.0, 0.0, -1.0], [0.0, 0.0, 1.0, 0.0]])
    features = torch.ones(4, 4)
    features[3, 0] = 0  # the last sample of class 0 loses nothing by losing its first feature
    kept = self_challenge(head, features, torch.tensor([0, 0, 0, 0]), feature_drop=0.25, batch_drop=0.5)
    assert kept[:, 1:].all()
    assert kept[:, 0].tolist() == [False, False, False, True]
    with torch.no_grad():  # evaluating a loss must not need a graph
        again = self_challenge(head, features, torch.tensor([0, 0, 0, 0]), feature_drop=0.25, batch_drop=0.5)
    assert torch.equal(kept, again)


def test_penalties_leave_autocast_and_low_precision_alone() -> None:
    a, b = torch.randn(16, 8), torch.randn(16, 8) + 0.1
    low = a.bfloat16(), b.bfloat16()
    for distance in (coral, mmd):
        expected = distance(*(half.float() for half in low))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(distance(*low), expected)
    logits, y = torch.randn(16, 3).bfloat16(), torch.randint(3, (16,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert irm(logits, y).dtype == head_variance(a, logits, y).dtype == torch.float32
        assert torch.equal(head_variance(a, logits, y), head_variance(a, logits.float(), y))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: coral(torch.randn(1, 3), torch.randn(4, 3)), "at least 2 samples of a domain, got 1"),
        (lambda: irm(torch.randn(1, 3), torch.tensor([0])), "only one sample"),
    ],
)
def test_too_few_samples_are_a_sentence(call, sentence) -> None:
    with pytest.raises(InputError, match=sentence):
        call()


class Waiting(TorchDispatchMode):
    """Counts the times somebody asks a tensor for its number, which on a device means waiting for it."""

    times = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.times += function is torch.ops.aten._local_scalar_dense.default
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("text", [*names(), "irm(anneal=0)", "fishr(anneal=0)", "causirl(distance='mmd')"])
def test_no_loss_waits_for_the_device(text) -> None:
    algorithm = create(text)
    featurizer = nn.Sequential(nn.Conv2d(1 + algorithm.extra_channels, 2, 3), nn.Flatten())
    algorithm.setup(Network(featurizer, nn.Linear(18, 3)))
    data = [(torch.randn(4, 1, 5, 5), torch.randint(3, (4,))) for _ in range(3)]
    algorithm.update(data)
    with Waiting() as waiting:
        algorithm.loss(algorithm.legs(data)[0]).backward()
    assert waiting.times == 0
    with Waiting() as waiting:
        torch.ones(()).item()
    assert waiting.times == 1
