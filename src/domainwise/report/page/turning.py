"""Loss surfaces to be turned in 3-D, where plotly is installed: its own script, once for a page, and our data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from domainwise.report.page.surfaces import Surface

ALONG = 24  # places at which an arrow is laid onto a surface
WIDE = 50  # from this ratio of losses on, their logarithm is drawn

Point = tuple[float, float]


def available() -> bool:
    return find_spec("plotly") is not None


@cache
def library() -> str:
    """Plotly's script, from the installed package."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def scene(found: Surface, domains: Mapping[str, str]) -> dict[str, Any]:
    """All that a page needs to draw one; ``domains`` are those to choose from, with their titles."""
    every = np.concatenate([np.ravel(np.asarray(found.losses[name], dtype=float)) for name in domains])
    known = every[np.isfinite(every)]
    return {
        "a": _rounded(found.a),
        "b": _rounded(found.b),
        "log": bool(len(known) and known.min() > 0 and known.max() > WIDE * known.min()),
        "domains": [{"title": title, **_laid_on(found, name)} for name, title in domains.items()],
    }


def lifted(found: Surface, domain: str, points: Sequence[Point]) -> list[float]:
    """The loss at points of the plane, between those of the grid in proportion."""
    a, b, grid = np.asarray(found.a), np.asarray(found.b), np.asarray(found.losses[domain], dtype=float)
    heights = []
    for at_a, at_b in points:
        rows = [float(np.interp(at_a, a, row)) for row in grid]
        heights.append(float(np.interp(at_b, b, rows)))
    return heights


def _laid_on(found: Surface, domain: str) -> dict[str, Any]:
    marks: dict[str, dict[str, Any]] = {
        "models": _marked(found, domain, list(found.models.values()), list(found.models)),
        "mean": _marked(found, domain, [found.mean], ["their mean"]),
    }
    if found.start is not None:
        marks["start"] = _marked(found, domain, [found.start], ["start"])
        marks["fish"] = _marked(found, domain, _between(found.start, found.end), [])
        marks["arith"] = _marked(found, domain, _between(found.start, found.mean), [])
    return {"z": [_rounded(row) for row in found.losses[domain]], "marks": marks}


def _marked(found: Surface, domain: str, points: Sequence[Point], names: Sequence[str]) -> dict[str, Any]:
    return {
        "x": _rounded([a for a, _ in points]),
        "y": _rounded([b for _, b in points]),
        "z": _rounded(lifted(found, domain, points)),
        "names": list(names),
    }


def _between(start: Point, end: Point) -> list[Point]:
    shares = np.linspace(0, 1, ALONG)
    return [(float(start[0] + s * (end[0] - start[0])), float(start[1] + s * (end[1] - start[1]))) for s in shares]


def _rounded(values: Sequence[float | None]) -> list[float | None]:
    """To what an eye can see, so that pages stay small; what is not finite has no place."""
    return [None if value is None or not np.isfinite(value) else float(f"{value:.5g}") for value in values]
