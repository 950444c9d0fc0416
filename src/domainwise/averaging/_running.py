"""Averagers that need to know no more than the step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from domainwise.averaging._base import Averager


@dataclass(repr=False, eq=False)
class SWA(Averager):
    """The mean of every ``every``-th model from step ``start`` on (Izmailov et al., 2018)."""

    start: int
    every: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._whole("start", least=0)
        self._whole("every", least=1)

    def update(self, params: Iterable[Tensor], step: int) -> None:
        if step >= self.start and (step - self.start) % self.every == 0:
            self._mean.add(params)


@dataclass(repr=False, eq=False)
class MA(Averager):
    """The mean of all models from step ``start`` on (Arpit et al., 2022)."""

    start: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        self._whole("start", least=0)

    def update(self, params: Iterable[Tensor], step: int) -> None:
        if step >= self.start:
            self._mean.add(params)


@dataclass(repr=False, eq=False)
class EMA(Averager):
    """``decay`` of the average so far and the rest of the newest model; the first model starts it."""

    decay: float = 0.999

    def __post_init__(self) -> None:
        super().__post_init__()
        self._number("decay", below=1)

    def update(self, params: Iterable[Tensor], step: int) -> None:
        self._mean.add(params, weight=1 - self.decay)
