"""Lay out what an official split of the data trains on and evaluates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from domainwise.data.batches.inputs import Part
from domainwise.data.domains import HOLDOUT, MAIN, PARTS, TEST, VAL, Domains
from domainwise.data.splits import OFFICIAL, official_rows
from domainwise.experiment.group_metrics import WILDS, group_accuracies, group_metrics, wilds_metrics
from domainwise.experiment.records import Judged
from domainwise.saved_models.evaluation import Judge

Indices = npt.NDArray[np.int64]


def official_parts(data: Domains, part: Callable[..., Part]) -> tuple[list[Part], dict[str, dict[str, list[Part]]]]:
    """Return the train images by domain, and each other part of the split as one, under its name.

    The test set stands under the name of the target, with the images of all its domains together.
    """
    starts = np.cumsum([0, *map(len, data)]).tolist()

    def parts(which: int) -> list[Part]:
        rows = official_rows(data, which)
        return [part(data.items[i], own, first=starts[i]) for i, own in rows.items()]

    validation = {PARTS[which]: {"holdout": parts(which)} for which in (HOLDOUT, VAL)}
    tests = {(OFFICIAL if which == TEST else PARTS[which]): {"main": parts(which)} for which in PARTS if which >= TEST}
    return parts(MAIN), {**validation, **tests}


def judge(data: Domains) -> Judge:
    """Return what computes scores beside accuracy: by the groups that the data name, or else by domain."""
    names, positions = data.subgroups or data.names, {name: i for i, name in enumerate(data.names)}

    def groups(part: Part) -> Indices:
        if part.domain.subgroups is not None:
            return part.domain.subgroups[part.rows]
        return np.full(len(part), positions[part.domain.name])

    def scores(parts: Sequence[Part], predicted: Indices) -> Judged:
        labels = np.concatenate([part.domain.labels[part.rows] for part in parts])
        inside = np.concatenate([groups(part) for part in parts])
        known = data.name in WILDS and bool(data.subgroups)
        found = (
            wilds_metrics(data.name, predicted, labels, inside, names)
            if known
            else group_metrics(predicted, labels, inside, names)
        )
        return {"metrics": found, "groups": group_accuracies(predicted, labels, inside, names)}

    return scores
