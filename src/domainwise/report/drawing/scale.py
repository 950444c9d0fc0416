"""From values to places in a picture, and the round values that are written at its edge."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor, log10

WIDE = 30  # times the lowest: from here on, only powers of ten show what is low and what is high


@dataclass(frozen=True)
class Scale:
    low: float  # the value at ``start``
    high: float  # the value at ``end``
    start: float
    end: float
    powers: bool = False  # ten times as much is equally far everywhere

    def __call__(self, value: float) -> float:
        low, high, at = map(log10, (self.low, self.high, value)) if self.powers else (self.low, self.high, value)
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    def ticks(self, room: float) -> list[float]:
        """Round values at least ``room`` from each other."""
        most = max(1, int(abs(self.end - self.start) / room))
        return _powers(self.low, self.high, most) if self.powers else _round(self.low, self.high, most)


def around(values: Iterable[float], start: float, end: float, margin: float, *, may_be_wide: bool = False) -> Scale:
    """One that shows all of the values, with a share of its length left free on either side."""
    found = list(values) or [0.0, 1.0]
    low, high = min(found), max(found)
    if may_be_wide and low > 0 and high > WIDE * low:
        free = (high / low) ** margin
        return Scale(low / free, high * free, start, end, powers=True)
    alike = high - low <= 1e-9 * abs(high)
    free = (0.05 * abs(high) or 0.5) if alike else margin * (high - low)
    return Scale(low - free, high + free, start, end)


def _round(low: float, high: float, most: int) -> list[float]:
    power = 10.0 ** floor(log10((high - low) / most))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10, 20) if (high - low) / (factor * power) <= most)
    return [number * step for number in range(ceil(low / step), floor(high / step) + 1)]


def _powers(low: float, high: float, most: int) -> list[float]:
    first, last = ceil(log10(low)), floor(log10(high))
    every = max(1, ceil((last - first + 1) / most))
    return [10.0**power for power in range(first, last + 1, every)]
