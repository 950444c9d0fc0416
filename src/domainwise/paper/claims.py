"""Whether what the paper puts above something else comes out above it here too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True)
class Ordering:
    """Of all pairs that the paper orders and that were measured."""

    pairs: int
    kept: int
    tied: int  # came out the same here

    @property
    def said(self) -> str:
        tied = f", {self.tied} tie" if self.tied else ""
        return f"{self.kept} of {self.pairs} pairs in the paper's order{tied}"


def ordering(paper: Sequence[float | None], measured: Sequence[float | None]) -> Ordering:
    """What ties in the paper says nothing, and is left out."""
    both = [(theirs, ours) for theirs, ours in zip(paper, measured, strict=True) if None not in (theirs, ours)]
    signs = [(_sign(a[0], b[0]), _sign(a[1], b[1])) for a, b in combinations(both, 2)]
    told = [(theirs, ours) for theirs, ours in signs if theirs]
    return Ordering(len(told), sum(a == b for a, b in told), sum(b == 0 for _, b in told))


def _sign(a: float | None, b: float | None) -> int:
    assert a is not None
    assert b is not None
    return (a > b) - (a < b)
