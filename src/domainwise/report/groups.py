"""Give the accuracy in every group of a test set, or on every target where there are no groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from statistics import fmean
from typing import TYPE_CHECKING, Any

from domainwise.experiment.integrity import Damaged, read
from domainwise.experiment.results import Outcome
from domainwise.report.grid import accuracy, label, tabled, target

if TYPE_CHECKING:
    import pandas as pd


def by_group(outcomes: Sequence[Outcome]) -> dict[str, tuple[float, int]]:
    """Return the accuracy in every group, mean over the seeds, and the number of its images."""
    found: dict[str, list[tuple[float, int]]] = {}
    for outcome in outcomes:
        for name, share, images in groups_of(outcome):
            found.setdefault(name, []).append((share, images))
    return {name: (fmean(share for share, _ in own), own[0][1]) for name, own in found.items()}


def groups_of(outcome: Outcome) -> Iterator[tuple[str, float, int]]:
    """Yield the groups of the targets with the accuracy of the selected model, and the number of their images."""
    if accuracy(outcome) is None:
        return
    counts: dict[str, Any] = {}
    with suppress(Damaged, FileNotFoundError):
        counts = read(outcome.folder / "counts.json").get(outcome.average or "model", {})
    for name in outcome.trial.targets:
        part = counts.get(name, {}).get("main", {})
        if "groups" in part:
            yield from ((group, share, int(images)) for group, (share, images) in part["groups"].items())
        elif "accuracy" in part:
            yield name, part["accuracy"], part.get("count", 0)


def frame(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    """Return a row for every trial and group of its targets."""
    import pandas as pd

    rows = [
        {"id": one.trial.id, "algorithm": label(one.trial), "targets": target(one.trial), "seed": one.trial.seed,
         "group": name, "accuracy": share, "images": images}
        for one in tabled(outcomes)
        for name, share, images in groups_of(one)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["id", "algorithm", "targets", "seed", "group", "accuracy", "images"])
