"""Whether confidences can be believed: reliability diagrams and calibration errors."""

from __future__ import annotations

from html import escape
from statistics import fmean

import numpy as np

from domainwise.report.drawing.matplotlib_svg import FAMILY, Panel
from domainwise.report.page.class_counts import Numbers, Tallies

WIDTH, HEIGHT, LEFT, BOTTOM = 120, 120, 26, 22  # of a diagram and its margins


def errors(found: Tallies) -> dict[str, list[float | None]]:
    """Expected calibration error of every algorithm: mean over seeds on each target, then the mean over the targets."""
    rows: dict[str, list[float | None]] = {}
    for name, groups in found.items():
        row = [fmean(one.calibration_error for one in seeds) if seeds else None for seeds in groups.values()]
        known = [value for value in row if value is not None]
        if known:
            rows[name] = [*row, fmean(known) if len(known) == len(row) else None]
    return rows


def diagrams(found: Tallies) -> list[Panel]:
    """For every algorithm, over all its targets and seeds: accuracy against confidence."""
    sums = {name: [one.bins for seeds in groups.values() for one in seeds] for name, groups in found.items()}
    return [
        Panel(name, _diagram(np.sum(bins, 0), f"Accuracy of {name} against its confidence"))
        for name, bins in sums.items()
        if bins
    ]


def _diagram(bins: Numbers, described: str) -> str:
    """A dot for every bin, its area the share of images in it; above the diagonal is modest, below it overconfident."""
    count, confidence, correct = bins
    points = [
        (LEFT + WIDTH * c / n, HEIGHT - HEIGHT * r / n, 1.2 + 9 * (n / count.sum()) ** 0.5)
        for n, c, r in zip(count, confidence, correct, strict=True)
        if n
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}"/>' for x, y, r in points)
    ticks = "".join(
        f'<text x="{LEFT + WIDTH * share:g}" y="{HEIGHT + 12}" text-anchor="middle">{100 * share:g}</text>'
        f'<text x="{LEFT - 5}" y="{HEIGHT - HEIGHT * share + 3:g}" text-anchor="end">{100 * share:g}</text>'
        for share in (0, 0.5, 1)
    )
    return (
        f'<svg viewBox="0 -6 {LEFT + WIDTH + 12} {HEIGHT + BOTTOM}" role="img" aria-label="{escape(described)}" '
        f'xmlns="http://www.w3.org/2000/svg" font-family="{FAMILY}" font-size="9" fill="currentColor">'
        f'<path d="M{LEFT} {HEIGHT}V0M{LEFT} {HEIGHT}h{WIDTH}M{LEFT} {HEIGHT}L{LEFT + WIDTH} 0" fill="none" '
        'stroke="currentColor" stroke-opacity=".3" stroke-width=".8"/>'
        f'<g class="reliability"><polyline points="{line}"/>{dots}</g>{ticks}</svg>'
    )
