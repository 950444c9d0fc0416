"""Which classes are recognised and which are taken for each other: tables and matrices by target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from domainwise.report.drawing.matplotlib_svg import FAMILY, Panel
from domainwise.report.page.class_counts import Numbers, Tallies, pooled

MOST = 20  # classes that a table or a matrix has room for
PAIRS = 12


@dataclass(frozen=True)
class Heat:
    """A table of shares to be coloured; None where there is nothing to say."""

    columns: Sequence[str]
    rows: Mapping[str, Sequence[float | None]]
    left_out: int = 0  # columns


def recognised(found: Tallies, names: Mapping[str, Sequence[str]]) -> dict[str, Heat]:
    """For every target: the share of each class that each algorithm recognises, mean over seeds.

    Of many classes only the hardest, those with the lowest mean over the algorithms.
    """
    heats = {}
    for target, classes in names.items():
        rows = {name: _mean([np.diag(one.shares) for one in groups[target]]) for name, groups in found.items()}
        known = {name: row for name, row in rows.items() if row is not None}
        if known:
            shown = _lowest(_mean(list(known.values())), MOST)
            heats[target] = Heat([classes[i] for i in shown], _picked(known, shown), len(classes) - len(shown))
    return heats


def confused(found: Tallies, names: Mapping[str, Sequence[str]]) -> dict[str, Heat]:
    """For every target with too many classes for a matrix: the pairs most often confused, in shares of the first."""
    heats = {}
    for target, classes in names.items():
        rows = {name: _mean([one.shares for one in groups[target]]) for name, groups in found.items()}
        known = {name: _apart(row).ravel() for name, row in rows.items() if row is not None}
        if known and len(classes) > MOST:
            shown = _lowest(-np.asarray(_mean(list(known.values()))), PAIRS)
            pairs = [f"{classes[i // len(classes)]} → {classes[i % len(classes)]}" for i in shown]
            heats[target] = Heat(pairs, _picked(known, shown), len(known))
    return heats


def matrices(found: Tallies, names: Mapping[str, Sequence[str]]) -> dict[str, list[Panel]]:
    """For every target with few enough classes: a confusion matrix per algorithm, over all seeds together."""
    drawn = {}
    for target, classes in names.items():
        sums = {name: pooled(groups[target]) for name, groups in found.items()}
        panels = [
            Panel(name, _matrix(one.shares, classes, f"Confusion of {name} on {target}"))
            for name, one in sums.items()
            if one is not None
        ]
        if panels and len(classes) <= MOST:
            drawn[target] = panels
    return drawn


def _mean(rows: Sequence[Numbers]) -> Numbers | None:
    """Without the classes that a seed has no image of; nan where no seed has one."""
    if not rows:
        return None
    stacked = np.stack(rows)
    known = (~np.isnan(stacked)).sum(0)
    return np.where(known > 0, np.nansum(stacked, 0) / np.maximum(known, 1), np.nan)


def _apart(shares: Numbers) -> Numbers:
    """What went wrong: without the diagonal."""
    return np.where(np.eye(len(shares), dtype=bool), 0.0, shares)


def _lowest(values: Numbers | None, most: int) -> list[int]:
    """Positions of the lowest values, in their own order if all of them are shown."""
    assert values is not None
    if len(values) <= most:
        return list(range(len(values)))
    order = np.argsort(np.where(np.isnan(values), np.inf, values), kind="stable")
    return [int(i) for i in order[:most]]


def _picked(rows: Mapping[str, Numbers], shown: Sequence[int]) -> dict[str, list[float | None]]:
    return {name: [None if np.isnan(row[i]) else float(row[i]) for i in shown] for name, row in rows.items()}


def _matrix(shares: Numbers, classes: Sequence[str], described: str) -> str:
    """One unit per class; row: what an image is, column: what it is taken for."""
    n = len(classes)
    words = [name if len(name) <= 9 else name[:8] + "…" for name in classes]
    size = 0.62 if n <= 12 else 0.8
    margin = 0.5 + 0.58 * size * max(map(len, words))
    # a power below one, so that rare errors show
    cells = "".join(
        f'<rect class="{"right" if i == j else "wrong"}" x="{j}" y="{i}" width="1" height="1" '
        f'fill-opacity="{share**0.7:.2f}"/>'
        for (i, j), share in np.ndenumerate(shares)
        if share >= 0.005  # nan is not either
    )
    rows = "".join(f'<text x="-.25" y="{i + 0.5:g}" text-anchor="end">{escape(w)}</text>' for i, w in enumerate(words))
    columns = "".join(
        f'<text transform="translate({j + 0.5:g} -.3) rotate(-90)">{escape(w)}</text>'
        if margin > 1.5
        else f'<text x="{j + 0.5:g}" y="-.45" text-anchor="middle">{escape(w)}</text>'
        for j, w in enumerate(words)
    )
    box = f"{-margin:.2f} {-margin:.2f} {n + margin + 0.1:.2f} {n + margin + 0.1:.2f}"
    return (
        f'<svg viewBox="{box}" role="img" aria-label="{escape(described)}" xmlns="http://www.w3.org/2000/svg" '
        f'font-family="{FAMILY}" font-size="{size}" fill="currentColor" dominant-baseline="central">'
        f'<rect width="{n}" height="{n}" fill="none" stroke="currentColor" stroke-opacity=".25" stroke-width=".05"/>'
        f"{cells}{rows}{columns}</svg>"
    )
