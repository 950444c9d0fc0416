"""The losses of a run as they come, and the end of one whose losses stop being finite."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from domainwise.algorithms._bases import advice
from domainwise.experiment.trial import Trial
from domainwise.saved_models.saved import algorithm_of


class Diverged(ArithmeticError):  # noqa: N818  an outcome rather than a mistake
    """The loss stopped being finite."""

    def __init__(self, step: int, sentence: str) -> None:
        super().__init__(sentence)
        self.step = step


class Losses:
    """The losses of every update, which stay on the device until somebody looks."""

    def __init__(self, trial: Trial, sources: Sequence[str]) -> None:
        self.trial, self.sources = trial, sources
        self.waiting: list[tuple[int, dict[str, Tensor]]] = []
        self.sent: Sent | None = None
        self.seen: list[float] = []

    def keep(self, step: int, metrics: dict[str, Tensor]) -> None:
        self.waiting.append((step, metrics))

    def glance(self) -> None:
        """At what was sent at the last glance: the device is not waited for, and never runs out of work."""
        self._see()
        if self.waiting:
            self.sent = Sent(self.waiting)
            self.waiting = []

    def look(self) -> None:
        """At all of them."""
        self.glance()
        self._see()

    def _see(self) -> None:
        sent, self.sent = self.sent, None
        for step, losses in sent.arrived() if sent else ():
            bad = [name for name, value in losses.items() if not math.isfinite(value)]
            if bad:
                raise Diverged(step, self._sentence(step, bad))
            self.seen.append(losses["loss"])

    def mean(self) -> float:
        """Of the losses since the mean was last asked for."""
        mean = fmean(self.seen)
        self.seen.clear()
        return mean

    def state_dict(self) -> dict[str, Any]:
        """After a look: those that wait are not in it."""
        return {"seen": list(self.seen)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = list(state["seen"])

    def _sentence(self, step: int, bad: list[str]) -> str:
        algorithm = algorithm_of(self.trial)
        legs = [int(name.removeprefix("leg")) for name in bad if name.startswith("leg")]
        domain = f' (domain "{self.sources[legs[0]]}")' if legs and not algorithm.pooled else ""
        where = f" on leg {legs[0]}{domain}" if legs else ""
        return f"the loss stopped being finite at step {step}{where}: try {advice(algorithm)}"


class Sent:
    """Metrics of some updates on their way from the device."""

    def __init__(self, metrics: Sequence[tuple[int, dict[str, Tensor]]]) -> None:
        self.steps, self.names = [step for step, _ in metrics], list(metrics[0][1])
        self.table = torch.stack([torch.stack([one[name] for name in self.names]) for _, one in metrics])
        self.there: torch.cuda.Event | None = None
        if self.table.is_cuda:
            stream = torch.cuda.current_stream(self.table.device)  # which need not be of the current device
            pinned = torch.empty_like(self.table, device="cpu", pin_memory=True)
            self.table = pinned.copy_(self.table, non_blocking=True)  # to memory of another kind it would wait
            self.there = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]  # asleep, not spinning
            self.there.record(stream)

    def arrived(self) -> Iterator[tuple[int, dict[str, float]]]:
        """By step, once they have come."""
        if self.there is not None:
            self.there.synchronize()
        for step, row in zip(self.steps, self.table.tolist(), strict=True):
            yield step, dict(zip(self.names, row, strict=True))
