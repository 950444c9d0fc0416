"""Refuse what a MetaOptimizer does not take: each check is for something that would go silently wrong."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from domainwise.errors import InputError, is_number, is_whole, require, warn
from domainwise.meta.combine import MAKERS, Weighted
from domainwise.meta.round import Plain

NO_FP16 = (
    "a walk cannot be scaled by a GradScaler: its steps would be taken in scaled gradients. "
    "Use bfloat16 autocast, which needs no scaler, or float32"
)


class NoScaling:
    """Refuse where a GradScaler asks, before it steps an optimizer, whether that one unscales by itself."""

    def __bool__(self) -> bool:
        raise InputError(NO_FP16)


def check_round(outer: Optimizer, legs: object) -> None:
    """Refuse what would keep the result of a walk from the outer optimizer's step, or scale it.

    From now on ``scaler.step(meta.outer)`` is a sentence.
    """
    for optimizer in _inside(outer):
        optimizer._step_supports_amp_scaling = NoScaling()
        if not getattr(getattr(optimizer, "gradient_state", None), "sync_gradients", True):
            raise InputError(
                f"{type(optimizer).__name__} would skip this step to accumulate gradients, and the walk would be lost: "
                "leave accumulation out, and give the walk more legs or inner_steps"
            )
    if isinstance(legs, Mapping):
        raise InputError("legs must be a sequence, one per domain, got a mapping: give its values()")


def _inside(outer: Any) -> list[Any]:
    """Return an optimizer and those it wraps, as Accelerate's and Fabric's do."""
    chain = [outer]
    while (inner := getattr(chain[-1], "optimizer", None) or getattr(chain[-1], "outer", None)) is not None:
        if any(inner is one for one in chain):
            break
        chain.append(inner)
    return chain


def check_outer(outer: Any) -> None:
    """Refuse an outer optimizer that holds no parameters, or needs something to step."""
    if any(hasattr(one, "gradient") and hasattr(one, "outer") for one in _inside(outer)):
        raise InputError("the outer optimizer is a MetaOptimizer already: give it the plain torch.optim one")
    if isinstance(outer, type) or not (hasattr(outer, "param_groups") and callable(getattr(outer, "step", None))):
        raise InputError(f"outer must be an optimizer of torch.optim over the parameters to train, got {outer!r}")
    if any(getattr(one, "scaler", None) is not None for one in _inside(outer)):
        raise InputError(NO_FP16)
    needed = [
        p.name
        for p in inspect.signature(outer.step).parameters.values()
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if needed:
        raise InputError(
            f"{type(outer).__name__} needs a {needed[0]} to step; a walk hands its optimizer one gradient and no more"
        )


def check_inner(made: Any) -> Optimizer:
    """Refuse what the factory of the inner optimizer gave, unless it is an optimizer."""
    if not (isinstance(made, Optimizer) or (hasattr(made, "param_groups") and hasattr(made, "state"))):
        what = "a MetaOptimizer, a walk inside a walk" if hasattr(made, "outer") else f"a {type(made).__name__}"
        raise InputError(f"inner must make a plain optimizer, as torch.optim.Adam does: it made {what}")
    optimizer: Optimizer = made
    return optimizer


def check_state(state: object) -> None:
    """Refuse a state that is not a MetaOptimizer's."""
    keys = state.keys() if isinstance(state, Mapping) else set()
    if missing := {"outer", "inner", "order"} - keys:
        raise InputError(f"this is no state of a MetaOptimizer: it has no {' and no '.join(sorted(missing))}")
    if not isinstance(state, Mapping) or not isinstance(state["order"], Tensor):
        raise InputError("this is no state of a MetaOptimizer: its order is not the state of a generator")


def check_settings(
    inner_lr: Any, inner_steps: Any, inner: object, module: object, buffers: str, sync: str, size: object
) -> None:
    single = inner_lr.numel() == 1 if isinstance(inner_lr, Tensor) else is_number(inner_lr)
    if not (single and 0 <= float(inner_lr) < math.inf):
        raise InputError(f"inner_lr must be a number from 0 up, got {inner_lr!r}")
    if inner is not None and inner_lr == 0:
        raise InputError("inner_lr is 0, so the inner optimizer would never move: leave `inner` out, or give it a rate")
    if not is_whole(inner_steps) or inner_steps < 1:
        raise InputError(f"inner_steps must be a whole number from 1 up, got {inner_steps!r}")
    if buffers not in ("end", "start", "mean"):
        raise InputError(f'buffers must be "end", "start" or "mean", got {buffers!r}')
    if buffers != "end" and module is None:
        raise InputError(f'buffers="{buffers}" needs module=, the network whose buffers they are')
    if sync not in ("auto", "leg", "none"):
        raise InputError(f'sync must be "auto", "leg" or "none", got {sync!r}')
    if size is not None and not callable(size):
        raise InputError(f"size must be a function from a batch to its number of samples, got {size!r}")


def check_return(return_after: Any, inner: object) -> None:
    """Refuse returns that are no number of legs, and those that an inner optimizer would remember."""
    if return_after is None:
        return
    if not is_whole(return_after) or return_after < 1:
        raise InputError(f"return_after must be a whole number from 1 up, or None, got {return_after!r}")
    if inner is not None and not isinstance(inner, Plain):
        raise InputError(
            "return_after takes steps without a memory: an inner optimizer remembers what happened before the return"
        )


def check_order(order: Sequence[int], legs: int) -> list[int]:
    """Return the order of the visits, if it names each leg once."""
    visits = [int(leg) for leg in order]
    if sorted(visits) != list(range(legs)):
        raise InputError(f"the order of a walk must name each of its {legs} legs once, got {visits}")
    return visits


def check_kinds(combine: Any, inner: object, shuffle: object, generator: object, module: object, check: object) -> None:
    if combine is not None and combine in MAKERS:
        raise InputError(f"combine is to be what {combine.__name__}(...) gives: write the parentheses")
    if isinstance(inner, Optimizer):
        raise InputError("inner must be a function that makes an optimizer (torch.optim.Adam), not an optimizer")
    require("combine", combine, Weighted | Callable | None)
    require("inner", inner, Callable | None)
    require("shuffle", shuffle, bool)
    require("generator", generator, torch.Generator | None)
    require("module", module, nn.Module | None)
    require("check", check, bool)


def check_parameters(params: Sequence[nn.Parameter], moves: bool) -> None:
    """Refuse parameters that cannot walk, and warn of those that walk badly."""
    if not params:
        raise InputError("no parameter of the outer optimizer requires a gradient: there is nothing to train")
    if any(
        torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) == torch.float16
        for kind in {p.device.type for p in params}
        if torch.amp.is_autocast_available(kind)
    ):
        raise InputError(NO_FP16)
    if any(type(p).__name__ in ("DTensor", "FlatParameter") or "_fsdp_flattened" in vars(p) for p in params):
        raise InputError(
            "parameters that are spread over ranks (FSDP, DTensor) cannot walk: keep a whole network on every rank, "
            "plain or in DistributedDataParallel"
        )
    if moves and (short := next((p.dtype for p in params if p.dtype in (torch.bfloat16, torch.float16)), None)):
        warn(
            f"the small steps of a walk are rounded away in {short} parameters: "
            "keep parameters in float32, and compute in bfloat16 by autocast",
            UserWarning,
        )
    if any(p._post_accumulate_grad_hooks for p in params):
        warn(
            "a walk never runs the hooks of register_post_accumulate_grad_hook: it asks for gradients instead of "
            "accumulating them. Put what they do between gradient() and outer.step()",
            UserWarning,
        )


def one_number(value: object) -> Tensor:
    """Return the loss of a batch, if it is one number with a gradient."""
    if not isinstance(value, Tensor) or value.dim() != 0:
        got = f"one of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise InputError(f"the loss of a batch must be a tensor with a single number, got {got}")
    if not value.requires_grad:
        raise InputError(
            "the loss of a batch has no gradient: is there a torch.no_grad or inference_mode around the walk, a detach "
            "in the loss, or a checkpoint without use_reentrant=False?"
        )
    return value
