"""Compute losses: pure functions of networks, features and batches that algorithms are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from domainwise.errors import InputError
from domainwise.networks.samples import Samples, each, put_together

Batch = tuple[Samples, Tensor]  # inputs, a tensor or a dict of them, and labels of one domain's minibatch
Result = TypeVar("Result")


def in_full_precision(function: Callable[..., Result]) -> Callable[..., Result]:
    """Compute outside autocast, in float32 at least: a difference of squares in bfloat16 is mostly noise."""

    @wraps(function)
    def wrapped(*tensors: Tensor, **settings: object) -> Result:
        raised = [t.float() if t.dtype in (torch.bfloat16, torch.float16) else t for t in tensors]
        with torch.autocast(tensors[0].device.type, enabled=False):
            return function(*raised, **settings)

    return wrapped


def risk(logits: Tensor, y: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the mean cross-entropy of samples, each times the weight of its class where there are weights.

    It is a mean over samples, not over weights: so it is still a sum over parts of them, each times its share.
    """
    if weights is None:
        return F.cross_entropy(logits, y)
    return F.cross_entropy(logits, y, weights.to(logits.dtype), reduction="sum") / len(y)


def cross_entropy(net: Callable[[Samples], Tensor], batches: Sequence[Batch], weights: Tensor | None = None) -> Tensor:
    """Return the :func:`risk` of all samples, in one forward pass over the batches put together."""
    x, y = joined(batches)
    return risk(net(x), y, weights)


def joined(batches: Sequence[Batch]) -> Batch:
    """Put batches together."""
    if len(batches) == 1:
        return batches[0]
    return put_together([x for x, _ in batches]), torch.cat([y for _, y in batches])


def apart(values: Tensor, batches: Sequence[Batch]) -> list[Tensor]:
    """Undo :func:`joined` for what was computed from it: one piece per domain."""
    return list(torch.split(values, [len(y) for _, y in batches]))


def in_parts(batches: Sequence[Batch], parts: int) -> Iterator[tuple[float, list[Batch]]]:
    """Cut every batch into as many parts; yield what belongs together, with its share of all samples.

    A mean over samples is the sum of the means over the parts, each times its share.
    """
    samples = sum(len(y) for _, y in batches)
    for i in range(parts):
        pieces = [(each(lambda t, i=i: t.tensor_split(parts)[i], x), y.tensor_split(parts)[i]) for x, y in batches]
        part = [(x, y) for x, y in pieces if len(y)]
        if part:
            yield sum(len(y) for _, y in part) / samples, part


def mean_of(values: Iterable[Tensor]) -> Tensor:
    """Return the mean of tensors of one shape."""
    return torch.stack(list(values)).mean(0)


def risks(logits: Sequence[Tensor], batches: Sequence[Batch], weights: Tensor | None = None) -> Tensor:
    """Return the :func:`risk` of every domain, shape (n,)."""
    return torch.stack([risk(z, y, weights) for z, (_, y) in zip(logits, batches, strict=True)])


@in_full_precision
def coral(*features: Tensor) -> Tensor:
    """Return the mean squared differences of means and of unbiased covariances, averaged over all pairs of domains.

    Features are (samples, d); a single domain has nothing to differ from.
    """
    few = min(map(len, features))
    if few < 2:
        raise InputError(f"a covariance takes at least 2 samples of a domain, got {few}: use a larger batch")
    return _difference([f.mean(0) for f in features]) + _difference([_covariance(f) for f in features])


@in_full_precision
def coral_between(points: Tensor, first: Tensor) -> Tensor:
    """Return :func:`coral` of the points where ``first`` is 1 and where it is 0; no shape tells how many."""
    means, covariances = [], []
    for inside in torch.stack([first, 1 - first]).to(points.dtype):
        count = inside.sum()
        means.append(inside @ points / count.clamp_min(1))
        centered = (points - means[-1]) * inside[:, None]
        covariances.append(centered.T @ centered / (count - 1).clamp_min(1))
    return _difference(means) + _difference(covariances)


def _covariance(features: Tensor) -> Tensor:
    centered = features - features.mean(0)
    return centered.T @ centered / (len(features) - 1)  # torch.cov would wait for the device


def _difference(values: Sequence[Tensor]) -> Tensor:
    """Return the mean over all pairs of (a - b)^2, averaged over the entries: twice the unbiased variance."""
    first, *rest = values
    if not rest:
        return first.new_zeros(())
    center = sum(rest, first) / len(values)  # not torch.stack: covariances are large
    return torch.stack([(v - center).square().mean() for v in values]).sum() * 2 / len(rest)


@in_full_precision
def mmd(*features: Tensor) -> Tensor:
    """Return the biased mean discrepancy under a sum of seven Gaussian kernels, averaged over all pairs of domains."""
    n = len(features)
    if n == 1:
        return features[0].new_zeros(())
    means: Tensor = torch.block_diag(*[f.new_full((1, len(f)), 1 / len(f)) for f in features])  # type: ignore[no-untyped-call]
    return _discrepancy(torch.cat(features), means)


@in_full_precision
def mmd_between(points: Tensor, first: Tensor) -> Tensor:
    """Return :func:`mmd` of the points where ``first`` is 1 and where it is 0; no shape tells how many."""
    members = torch.stack([first, 1 - first]).to(points.dtype)
    return _discrepancy(points, members / members.sum(1, keepdim=True).clamp_min(1))


def _discrepancy(points: Tensor, means: Tensor) -> Tensor:
    """Return the discrepancy of n groups; a row of ``means`` weighs the points so that the mean of one comes out."""
    n = len(means)
    within_and_between = means @ _kernel(points) @ means.T  # (n, n)
    within = within_and_between.diagonal().mean()
    between = (within_and_between.sum() - n * within) / (n * (n - 1))
    return 2 * (within - between)


def _kernel(points: Tensor) -> Tensor:
    points = points - points.mean(0).detach()  # distances stay the same, their rounding errors do not
    norms = points.square().sum(1)
    squared = (norms[:, None] + norms - 2 * points @ points.T).clamp_min(1e-30)
    return torch.stack([torch.exp(-gamma * squared) for gamma in (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)]).sum(0)


def residual(logits: Tensor, y: Tensor) -> Tensor:
    """Return softmax minus one-hot label: the gradient of each sample's cross-entropy in its logits."""
    return logits.softmax(1).scatter_add(1, y[:, None], logits.new_full((len(y), 1), -1.0))


@in_full_precision
def irm(logits: Tensor, y: Tensor) -> Tensor:
    """Return the squared gradient of the risk in a common factor on the logits, unbiased as a product of two halves.

    The factor is 1, and the gradient is the mean of <softmax - onehot, logits>.
    """
    if len(y) < 2:
        raise InputError("the penalty of irm takes two halves of a minibatch, and a domain gave only one sample")
    tilt = (residual(logits, y) * logits).sum(1)
    return tilt[::2].mean() * tilt[1::2].mean()


def self_challenge(
    head: Callable[[Tensor], Tensor], features: Tensor, y: Tensor, *, feature_drop: float, batch_drop: float
) -> Tensor:
    """Return which features of which samples to keep, in the shape of the features.

    Features whose gradient is in the top share are muted, in the samples that this costs most confidence.
    """
    probe = features.detach().requires_grad_()
    with torch.enable_grad():
        logits = head(probe)
        (slope,) = torch.autograd.grad(logits.gather(1, y[:, None]).sum(), probe)
    with torch.no_grad():
        kept = slope < _quantile(slope, share=1 - feature_drop)
        change = _confidence(logits, y) - _confidence(head(probe * kept), y)
        return kept | (change < _quantile(change, share=1 - batch_drop))[:, None]


@in_full_precision
def _quantile(values: Tensor, *, share: float) -> Tensor:
    return values.quantile(share, dim=-1, keepdim=True)


def _confidence(logits: Tensor, y: Tensor) -> Tensor:
    return logits.softmax(1).gather(1, y[:, None]).squeeze(1)


@in_full_precision
def head_gradient(inputs: Tensor, logits: Tensor, y: Tensor) -> Tensor:
    """Return the gradient of the risk in the head, shape (classes, d)."""
    return residual(logits, y).T @ inputs / len(y)


@in_full_precision
def head_variance(inputs: Tensor, logits: Tensor, y: Tensor) -> Tensor:
    """Return the population variance over the samples of the head's gradient, shape (classes, d).

    A sample's gradient is an outer product, so that its square is the outer product of the squares.
    """
    delta = residual(logits, y)
    return delta.square().T @ inputs.square() / len(y) - (delta.T @ inputs / len(y)).square()


@in_full_precision
def head_hessian_product(inputs: Tensor, logits: Tensor, direction: Tensor) -> Tensor:
    """Return the Hessian of the risk in the head, times a direction of shape (classes, d) or a stack of them."""
    share = logits.softmax(1)
    moved = inputs @ direction.mT  # (..., samples, classes): how the logits change
    return (share * (moved - (share * moved).sum(-1, keepdim=True))).mT @ inputs / len(inputs)


@in_full_precision
def head_hessian_diagonal(inputs: Tensor, logits: Tensor) -> Tensor:
    """Return the diagonal of the Hessian of the risk in the head, shape (classes, d)."""
    share = logits.softmax(1)
    return (share - share.square()).T @ inputs.square() / len(inputs)


def distance_to(center: Tensor, values: Tensor) -> Tensor:
    """Return the mean squared distance of the domains to a center that stays; values have the shape (n, ...)."""
    return (values - center.detach()).flatten(1).square().sum(1).mean()
