"""Look at a network with averaged weights in it, then go on with its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from domainwise.errors import InputError


@contextmanager
def swapped_in(
    params: Iterable[Tensor], averaged: Sequence[Tensor] | None, buffers: Iterable[Tensor] = ()
) -> Iterator[None]:
    """The parameters hold the averaged values inside, and their own again outside, whatever happens in between.

    ``buffers`` are put back as well: give ``net.buffers()`` where batch-norm statistics are refreshed inside.
    """
    params, kept = list(params), list(buffers)
    if averaged is None:
        raise InputError("there is no average yet: ask the averager whether it is ready first")
    if len(params) != len(averaged):
        raise InputError(f"an average over {len(averaged)} parameters does not fit a network with {len(params)}")
    for i, (p, a) in enumerate(zip(params, averaged, strict=True)):
        if p.shape != a.shape:
            raise InputError(f"parameter {i} has shape {tuple(p.shape)}, but its average has {tuple(a.shape)}")
    own = [p.detach().clone() for p in (*params, *kept)]
    try:
        _write(params, averaged)
        yield
    finally:
        _write([*params, *kept], own)


@torch.no_grad()
def _write(params: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for p, value in zip(params, values, strict=True):  # which may come from another device
        p.copy_(value)
    torch.clear_autocast_cache()  # low-precision copies of what was there


@torch.no_grad()
def refresh_batch_norm(module: nn.Module, batches: Iterable[Sequence[tuple[Tensor, Tensor]]]) -> None:
    """Recompute the running statistics of batch-norm for the weights that are now in the module.

    Each of the ``batches`` is what one update takes, a minibatch per source domain, and passes through the network
    as a whole; all of them count alike. Dropout is off. Frozen batch-norm, which stays in evaluation mode whatever
    ``module.train()`` says, is left alone.
    """
    modes = {part: part.training for part in module.modules()}
    module.train()
    norms = [part for part in modes if isinstance(part, _BatchNorm) and part.training and part.track_running_stats]
    module.eval()
    try:
        if norms:
            _renew(module, norms, batches)
    finally:
        for part, mode in modes.items():
            part.training = mode


def _renew(module: nn.Module, norms: Sequence[_BatchNorm], batches: Iterable[Sequence[tuple[Tensor, Tensor]]]) -> None:
    """On an exception the statistics are what they were."""
    before = [(buffer, buffer.clone()) for norm in norms for buffer in norm.buffers()]
    momenta = [norm.momentum for norm in norms]
    passed = 0
    try:
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # the plain mean over the batches
            norm.training = True
        for batch in batches:
            module(torch.cat([x for x, _ in batch]))
            passed += 1
        if passed == 0:
            raise InputError("batch-norm statistics cannot be refreshed without a single batch")
    except BaseException:
        for buffer, value in before:
            buffer.copy_(value)
        raise
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
