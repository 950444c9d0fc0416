"""Give the accuracy in every group of a test set, or on every target where there are no groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from statistics import fmean
from typing import TYPE_CHECKING, Any

from domainwise.data.splits import OFFICIAL
from domainwise.experiment.integrity import Damaged, read
from domainwise.experiment.results import Outcome
from domainwise.report.grid import accuracy, label, tabled, target

if TYPE_CHECKING:
    import pandas as pd


def by_group(outcomes: Sequence[Outcome]) -> dict[str, tuple[float, int | None]]:
    """Return the accuracy in every group, mean over the seeds, and the number of its images where it is known."""
    found: dict[str, list[tuple[float, int | None]]] = {}
    for outcome in outcomes:
        for name, share, images in groups_of(outcome):
            found.setdefault(name, []).append((share, images))
    return {name: (fmean(share for share, _ in own), own[0][1]) for name, own in found.items()}


def groups_of(outcome: Outcome) -> Iterator[tuple[str, float, int | None]]:
    """Yield the groups of the test images, or the targets, with their accuracy and where known the number of images."""
    if accuracy(outcome) is None:
        return
    if outcome.trial.targets != (OFFICIAL,):
        yield from ((name, share, None) for name, share in outcome.selected.get("targets", {}).items())
        return
    with suppress(Damaged, FileNotFoundError):
        counts: dict[str, Any] = read(outcome.folder / "counts.json").get(outcome.average or "model", {})
        part = counts.get(OFFICIAL, {}).get("main", {})
        yield from ((group, share, int(images)) for group, (share, images) in part.get("groups", {}).items())


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
