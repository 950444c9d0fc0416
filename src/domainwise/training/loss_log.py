"""Collect the losses of a run without waiting for the device, and end a run that diverges."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from domainwise.algorithms import Algorithm
from domainwise.algorithms._bases import advice


class Diverged(ArithmeticError):  # noqa: N818  an outcome rather than a mistake
    """Raised where a run diverges: a loss is inf or nan."""

    def __init__(self, step: int, sentence: str) -> None:
        super().__init__(sentence)
        self.step = step


class Losses:
    """Collect the losses of every update; they stay on the device until somebody asks for them."""

    def __init__(self, algorithm: Algorithm, sources: Sequence[str]) -> None:
        self.algorithm, self.sources = algorithm, sources
        self.waiting: list[tuple[int, dict[str, Tensor]]] = []
        self.sent: Sent | None = None
        self.seen: list[float] = []

    def add(self, step: int, metrics: dict[str, Tensor]) -> None:
        """Keep the losses of one update, without looking at them."""
        self.waiting.append((step, metrics))

    def poll(self) -> None:
        """Check the losses that the previous call sent, then send the new ones: the device is never waited for."""
        self._check_sent()
        if self.waiting:
            self.sent = Sent(self.waiting)
            self.waiting = []

    def flush(self) -> None:
        """Check all losses so far."""
        self.poll()
        self._check_sent()

    def _check_sent(self) -> None:
        sent, self.sent = self.sent, None
        for step, losses in sent.arrived() if sent else ():
            bad = [name for name, value in losses.items() if not math.isfinite(value)]
            if bad:
                raise Diverged(step, self._sentence(step, bad))
            self.seen.append(losses["loss"])

    def mean(self) -> float:
        """Return the mean of the losses since this was last asked for."""
        mean = fmean(self.seen)
        self.seen.clear()
        return mean

    def state_dict(self) -> dict[str, Any]:
        """Return the losses that no mean has counted yet; flush before, for those that wait are not among them."""
        return {"seen": list(self.seen)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = list(state["seen"])

    def _sentence(self, step: int, bad: list[str]) -> str:
        legs = [int(name.removeprefix("leg")) for name in bad if name.startswith("leg")]
        domain = f' (domain "{self.sources[legs[0]]}")' if legs and not self.algorithm.pooled else ""
        where = f" on leg {legs[0]}{domain}" if legs else ""
        return f"the loss stopped being finite at step {step}{where}: try {advice(self.algorithm)}"


class Sent:
    """Carry the losses of some updates from the device to the host."""

    def __init__(self, metrics: Sequence[tuple[int, dict[str, Tensor]]]) -> None:
        self.names = [(step, list(one)) for step, one in metrics]  # which differ where legs take turns
        self.values = torch.stack([value for _, one in metrics for value in one.values()])
        self.there: torch.cuda.Event | None = None
        if self.values.is_cuda:
            stream = torch.cuda.current_stream(self.values.device)  # which need not be of the current device
            pinned = torch.empty_like(self.values, device="cpu", pin_memory=True)
            self.values = pinned.copy_(self.values, non_blocking=True)  # to memory of another kind it would wait
            self.there = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]  # asleep, not spinning
            self.there.record(stream)

    def arrived(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Wait for them, and yield every step with its losses by name."""
        if self.there is not None:
            self.there.synchronize()
        values = iter(self.values.tolist())
        for step, names in self.names:
            yield step, {name: next(values) for name in names}
