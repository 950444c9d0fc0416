"""How far a mean over seeds may be off: its standard error, how that is printed, and what so few seeds can say."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import stdev

# How many standard errors a 95 % interval reaches to each side, by the seeds less one (Student's t).
REACH = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10)
FEW = 5  # seeds, up to which an interval is far wider than its standard error looks


def standard_error(values: Sequence[float]) -> float | None:
    """Sample standard deviation (n - 1) over the root of the count; one value has none."""
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else None


def reach(seeds: int) -> float:
    """How many standard errors a 95 % interval over so many seeds (2 or more) reaches to each side."""
    return REACH[min(seeds - 1, len(REACH)) - 1]


def percent(fraction: float) -> str:
    return f"{100 * fraction:.1f}"


def error_text(error: float) -> str:
    """An error in percent. One that would print as 0.0 is never said to be nothing."""
    return "<0.1" if percent(error) == "0.0" else percent(error)


def about_errors(seeds: int, what: str = "the standard error") -> str:
    """A sentence for below a table."""
    if seeds < 2:
        return "One seed each, hence no errors."
    few = f"; with so few, a 95 % interval reaches {reach(seeds):.1f} times as far" if seeds <= FEW else ""
    return f"± is {what} over {seeds} seeds (of a sample, n - 1){few}."
