"""Make the outer optimizer of an algorithm as the settings of a trial have it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from domainwise.experiment.optimization import SGD, Adam, AdamW, Constant


@dataclass(frozen=True)
class Outer:
    """Say which optimizer an algorithm steps, how its learning rate goes, and how long a gradient may be."""

    optimizer: Adam | SGD = Adam()
    schedule: Constant = Constant()
    clip: float = 0.0  # the largest norm of all gradients together; 0: any
    updates: int = 0  # that a schedule is laid out for
    made: int = 0  # of them before the first of the algorithm's own

    @property
    def untried(self) -> str:
        """Say what of it was never tried in a CUDA graph; empty where nothing is."""
        named = {"optimizer": self.optimizer != Adam(), "schedule": self.schedule != Constant(), "clip": self.clip > 0}
        tried = [name for name, other in named.items() if other]
        return f"the setting {' and '.join(tried)} was never tried in one" if tried else ""

    def make(self, parameters: Iterable[Tensor], lr: float, weight_decay: float, device: torch.device) -> Optimizer:
        """Return the optimizer, whose steps can be recorded on a GPU."""
        on_gpu = device.type == "cuda"
        rate: Any = torch.tensor(lr, device=device) if on_gpu else lr  # a graph reads it anew every time
        about: dict[str, Any] = {"lr": rate, "weight_decay": weight_decay, "fused": True}
        made: Optimizer
        if isinstance(self.optimizer, SGD):
            made = torch.optim.SGD(
                parameters, momentum=self.optimizer.momentum, nesterov=self.optimizer.nesterov, **about
            )
        else:
            kind = torch.optim.AdamW if isinstance(self.optimizer, AdamW) else torch.optim.Adam
            made = kind(parameters, amsgrad=self.optimizer.amsgrad, capturable=on_gpu, **about)
        if self.clip:
            made.register_step_pre_hook(self._clipped)
        if self.schedule != Constant():
            for group in made.param_groups:
                group["initial_lr"] = lr
        return made

    def _clipped(self, optimizer: Optimizer, args: object, options: object) -> None:
        clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], self.clip)

    def set_rate(self, optimizer: Optimizer, update: int) -> None:
        """Set the learning rate of an update, counted from 0, where it is not the same throughout.

        It follows from the number of the update alone, so that a run that goes on from a checkpoint has the same ones.
        """
        for group in optimizer.param_groups:
            if "initial_lr" in group:
                rate = group["initial_lr"] * self.schedule.factor(self.made + update, self.updates)
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(rate)
                else:
                    group["lr"] = rate
