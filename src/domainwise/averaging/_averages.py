"""Keep averages beside one run: named in a text, told of every step, and looked at in the network's place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from domainwise.averaging._averager import EMA, MA, SWA, Averager
from domainwise.averaging._swad import SWAD
from domainwise.errors import InputError, closest
from domainwise.experiment.trial import separated
from domainwise.networks.samples import put_together

_KINDS: dict[str, type[Averager]] = {"swad": SWAD, "swa": SWA, "ema": EMA, "ma": MA}
_SHAPE = re.compile(r"(?P<name>\w+)\s*(?:\((?P<settings>.*)\))?", re.DOTALL)


def names() -> list[str]:
    """Return the names of all averagers, with ``none``."""
    return ["none", *_KINDS]


def averager(text: str) -> Averager | None:
    """Return an averager by name, or as its ``repr`` writes it; ``none`` is None."""
    shape = _SHAPE.fullmatch(text.strip())
    if shape is None:
        raise InputError(f"cannot read the averager {text!r}: write a name or name(key=value)")
    name = shape["name"].lower()
    if name not in names():
        raise InputError(f'there is no averager "{shape["name"]}": {closest(name, names())}')
    settings = _settings(shape["settings"] or "", text)
    if name == "none":
        if settings:
            raise InputError(f"none is no averager at all, so it has no settings: got {text!r}")
        return None
    return _make(name, settings)


def averagers(text: str | Sequence[str]) -> dict[str, Averager]:
    """Return the averagers of a text, separated by commas, or of a list, by their ``repr``; ``none`` has none."""
    texts = separated(text) if isinstance(text, str) else [part for one in text for part in separated(one)]
    if not texts:
        raise InputError(f"no averager was named; known: {', '.join(names())}")
    made = [averager(one) for one in texts]
    found = [one for one in made if one is not None]
    if len(found) < len(made) > 1:
        raise InputError(f"none is no averager at all, so it cannot stand beside others: got {', '.join(texts)}")
    by_name = {repr(one): one for one in found}
    if len(by_name) < len(found):
        (twice, *_) = [name for name in by_name if sum(repr(one) == name for one in found) > 1]
        raise InputError(f"{twice} is named twice: name every averager once, or give one of them other settings")
    return by_name


def canonical(text: str | Sequence[str]) -> str:
    """Write the same averagers as one text, in the one way that a trial keeps."""
    return ",".join(averagers(text)) or "none"


def _make(name: str, settings: dict[str, Any]) -> Averager:
    known = {field.name: field.default for field in fields(_KINDS[name])}
    for key in settings:
        if key not in known:
            raise InputError(f'{name} has no setting "{key}": {closest(key, known)}')
    missing = [key for key, default in known.items() if default is MISSING and key not in settings]
    if missing:
        raise InputError(
            f"{name} must be told {' and '.join(missing)}: write {name}({', '.join(f'{key}=...' for key in known)})"
        )
    return _KINDS[name](**settings)


def _settings(text: str, whole: str) -> dict[str, Any]:
    try:
        call = ast.parse(f"_({text})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or any(keyword.arg is None for keyword in call.keywords):
            raise ValueError("settings are given by name")
        return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError) as error:
        raise InputError(f"cannot read the settings of the averager {whole!r}: write name(key=value, ...)") from error


class Averages:
    """Hold the averagers that a text names: none, one or several, each told the same and knowing of no other."""

    def __init__(self, text: str) -> None:
        self.each = averagers(text)

    def update(self, params: Sequence[Tensor], step: int) -> None:
        """Show all of them the parameters after a step."""
        for one in self.each.values():
            one.update(params, step)

    def evaluated(self, step: int, validation_loss: float) -> None:
        """Tell all of them the validation loss."""
        for one in self.each.values():
            one.evaluated(step, validation_loss)

    def ready(self, last: bool) -> Iterator[tuple[str, list[Tensor]]]:
        """Yield those to look at now, one after the other, with their weights."""
        for name, one in self.each.items():
            if (last or not one.at_the_end) and (weights := one.weights()) is not None:
                yield name, weights

    def state_dict(self) -> dict[str, Any]:
        """Return a snapshot of each."""
        return {name: one.state_dict() for name, one in self.each.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a snapshot."""
        if "scalars" in state:  # of a time when there was one at most, and this is its state
            state = dict.fromkeys(self.each, state)
        for name, one in self.each.items():
            one.load_state_dict(state[name])


@contextmanager
def swapped_in(
    params: Iterable[Tensor], averaged: Sequence[Tensor] | None, buffers: Iterable[Tensor] = ()
) -> Iterator[None]:
    """Have the parameters hold the averaged values inside, and their own again outside, whatever happens.

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
    """Recompute the statistics; on an exception they are what they were."""
    before = [(buffer, buffer.clone()) for norm in norms for buffer in norm.buffers()]
    momenta = [norm.momentum for norm in norms]
    passed = 0
    try:
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # the plain mean over the batches
            norm.training = True
        for batch in batches:
            module(put_together([x for x, _ in batch]))
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
