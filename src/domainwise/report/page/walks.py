"""Say whether the walks of algorithms that walk still do something, and not too much, along training."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from domainwise.experiment.records import Record
from domainwise.report.grid import Grid, Group
from domainwise.report.page.measures import Section

THIRDS = ("early", "midway", "late")
OVERSHOOTS = 0.5  # of the steps of a walk raise the very loss that they descend: as many as go right
FADED = 0.1  # of an outer step is all that a walk goes
CAPTION = (
    "At every evaluation one more walk is made, beside training. Uphill: the percentage of its steps that raise the "
    "loss of the very minibatch that they descend. Length: how far it goes, in units of the last step of the outer "
    "optimizer. Means over all trials, in thirds of the evaluations."
)


def section(grid: Grid) -> Section | None:
    """Return the section on walks; None where no trial has recorded any, as those of earlier versions."""
    found = {name: health for name, groups in grid.items() if (health := _health(groups))}
    if not found:
        return None
    columns = [f"{what}, {third}" for what in ("uphill", "length") for third in THIRDS]
    rows = [(name, [(_shown(value), "") for value in (*rose, *far)]) for name, (rose, far) in found.items()]
    said = [sentence for name, (rose, far) in found.items() for sentence in _sentences(name, rose, far)]
    return Section("walks", "Walks", CAPTION, columns, rows, said)


Thirds = list[float | None]


def _health(groups: Mapping[str, Group]) -> tuple[Thirds, Thirds] | None:
    """The share of steps that overshoot, in percent, and the length of the walk, for each third of training."""
    rose: list[list[float]] = [[], [], []]
    far: list[list[float]] = [[], [], []]
    for one in (outcome for group in groups.values() for outcome in group.values() if not outcome.averaged):
        walked = [record for record in one.records() if "walk" in record]
        for i, record in enumerate(walked):
            third = 3 * i // len(walked)
            if (share := record["walk"].get("rose")) is not None:
                rose[third].append(100 * share)
            if (ratio := relative(record)) is not None:
                far[third].append(ratio)
    return ([_mean(values) for values in rose], [_mean(values) for values in far]) if any(rose) else None


def relative(record: Record) -> float | None:
    """Return how far a walk went in units of the last outer step, where both are known."""
    length, outer = (record["walk"].get(name) for name in ("length", "outer"))
    return length / outer if length is not None and outer else None


def _mean(values: list[float]) -> float | None:
    return fmean(values) if values else None


def _shown(value: float | None) -> str:
    return "\N{EN DASH}" if value is None else f"{value:.3g}"


def _sentences(name: str, rose: Thirds, far: Thirds) -> list[str]:
    wild = [f"{third} ({share:.0f} %)" for third, share in zip(THIRDS, rose, strict=True)
            if share is not None and share > 100 * OVERSHOOTS]  # fmt: skip
    said = []
    if wild:
        said.append(
            f"{name} overshoots: most steps of its walk raise the loss that they descend, {' and '.join(wild)} in "
            "training. A smaller inner_lr takes shorter steps; what that does to its accuracy has not been measured."
        )
    if (last := far[-1]) is not None and last < FADED:
        said.append(
            f"The walk of {name} has faded: late in training it goes {last:.2g} of an outer step, so that all legs are "
            "met almost where it begins, as without a walk."
        )
    return said
