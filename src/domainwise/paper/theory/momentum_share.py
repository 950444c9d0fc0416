"""The share of each domain in the memory of an Adam that walks from domain to domain.

Adam's first moment after t steps is ``(1 - beta) * sum_s beta^(t-s) g_s``: linear in the gradients, so the part that
each domain has in it can be followed exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from domainwise.errors import InputError
from domainwise.losses import Batch
from domainwise.meta.optimizer import MetaOptimizer
from domainwise.report.drawing.matplotlib_svg import COLOURS, Panel, panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Shares = list[list[float]]  # after every step, of every domain; each row sums to one


def expected(steps: int, domains: int = 3, beta: float = 0.9, inner_steps: int = 1) -> Shares:
    """Return the shares of domains with equally long gradients, visited in turn for ``inner_steps`` steps each."""
    if not 0 <= beta < 1 or min(steps, domains, inner_steps) < 1:
        raise InputError("beta must be from 0 up and below 1; steps, domains and inner_steps must be 1 or more")
    parts, rows = [0.0] * domains, []
    for step in range(steps):
        parts = [beta * part for part in parts]
        parts[step // inner_steps % domains] += 1.0
        rows.append([part / sum(parts) for part in parts])
    return rows


@dataclass(frozen=True)
class Followed:
    """The shares measured along a walk, and how exact they are."""

    shares: Shares  # of the lengths of the domains' parts
    error: float  # the largest difference between the parts' sum and the optimizer's own memory, relative to the latter


class _Follower:
    """Watches an Adam step by step and keeps what each domain has contributed to ``exp_avg``."""

    def __init__(self, domains: int, inner_steps: int, beta: float) -> None:
        self.domains, self.inner_steps, self.beta = domains, inner_steps, beta
        self.parts: Tensor | None = None  # (domains, parameters)
        self.shares: Shares = []
        self.error = 0.0

    def adam(self, params: list[nn.Parameter]) -> torch.optim.Adam:
        optimizer = torch.optim.Adam(params, betas=(self.beta, 0.999))
        optimizer.register_step_post_hook(self.after)
        return optimizer

    def after(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        used = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        gradient = torch.cat([p.grad.flatten() for p in used if p.grad is not None])
        memory = torch.cat([optimizer.state[p]["exp_avg"].flatten() for p in used])
        if self.parts is None:
            self.parts = torch.zeros(self.domains, len(gradient), dtype=gradient.dtype, device=gradient.device)
        turn = len(self.shares) // self.inner_steps % self.domains
        self.parts *= self.beta
        self.parts[turn] += (1 - self.beta) * gradient
        lengths = self.parts.norm(dim=1)
        self.shares.append((lengths / lengths.sum()).tolist())
        self.error = max(self.error, float((self.parts.sum(0) - memory).norm() / memory.norm()))


def followed(
    params: Sequence[nn.Parameter],
    loss: Callable[[Batch], Tensor],
    rounds: Sequence[Sequence[Any]],
    *,
    beta: float = 0.9,
    inner_steps: int = 1,
    lr: float = 1e-3,
) -> Followed:
    """Walk with an Adam that keeps its memory, in the order given, and measure each domain's part of it.

    ``rounds`` holds the legs of each :meth:`MetaOptimizer.step`; the parameters move as they do in training.
    """
    follower = _Follower(len(rounds[0]), inner_steps, beta)
    outer = torch.optim.Adam(params, lr=lr)
    meta = MetaOptimizer(outer, inner_lr=lr, inner_steps=inner_steps, inner=follower.adam, shuffle=False, sync="none")
    for legs in rounds:
        meta.step(loss, legs)
    return Followed(follower.shares, follower.error)


def share_figure(names: Sequence[str], analytic: Shares, measured: Shares | None = None) -> Panel:
    """Draw the computed shares as lines, the measured ones as dots."""
    described = f"Share of domains {', '.join(names)} in the first moment of Adam against the step"
    return panel("share in the first moment of Adam", described, 2.8, partial(_draw, names, analytic, measured))


def _draw(names: Sequence[str], analytic: Shares, measured: Shares | None, axes: Axes) -> None:
    for at, name in enumerate(names):
        colour = COLOURS[at % len(COLOURS)]
        axes.plot(range(1, len(analytic) + 1), [row[at] for row in analytic], color=colour, linewidth=1.4, label=name)
        if measured is not None:
            steps = range(1, len(measured) + 1)
            axes.plot(steps, [row[at] for row in measured], "o", color=colour, markersize=3.5, markeredgewidth=0)
    axes.set_xlabel("step of the walk")
    axes.set_ylabel("share")
    axes.set_ylim(-0.03, 1.03)
    axes.legend(frameon=False, ncols=min(len(names), 3), loc="upper right")
