"""Compute scores that look at groups inside a domain, and those that each set of WILDS is judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from domainwise.data.sources.benchmarks import IDENTITIES
from domainwise.errors import InputError
from domainwise.experiment.metrics import MANY


@dataclass(frozen=True)
class Judged:
    """Say what a set of WILDS is judged by: which score, and which groups it looks at."""

    score: str  # of the named numbers of :func:`group_metrics`
    by: tuple[str, ...] = ()  # what the names of its groups begin with
    ignored: tuple[str, ...] = ()  # groups that never count as the worst


WILDS = {
    "camelyon17": Judged("accuracy", ("slide",)),
    "iwildcam": Judged("macro_f1", ("location",)),
    "fmow": Judged("worst_group", ("region",), ("region:Other",)),
    "amazon": Judged("percentile_10", ("user",)),
    "civilcomments": Judged("worst_group", IDENTITIES),
}


def group_accuracies(
    predicted: npt.ArrayLike, labels: npt.ArrayLike, groups: npt.ArrayLike, names: Sequence[str]
) -> dict[str, tuple[float, int]]:
    """Return the accuracy in every group that has rows, and how many it has.

    ``groups`` holds positions in ``names``, -1 for none: one for each row, or several columns of them, since a row may
    be in several groups.
    """
    right = np.asarray(predicted) == np.asarray(labels)
    columns = np.asarray(groups, np.int64).reshape(len(right), -1)
    inside = columns >= 0
    count = np.bincount(columns[inside], minlength=len(names))
    rights = np.bincount(columns[inside], np.broadcast_to(right[:, None], columns.shape)[inside], len(names))
    return {names[i]: (float(rights[i] / count[i]), int(count[i])) for i in np.flatnonzero(count).tolist()}


def group_metrics(
    predicted: npt.ArrayLike,
    labels: npt.ArrayLike,
    groups: npt.ArrayLike | None = None,
    names: Sequence[str] = (),
    *,
    by: Sequence[str] = (),
    ignored: Sequence[str] = (),
) -> dict[str, float]:
    """Return the named scores of predictions: accuracy, macro_f1 and, where there are groups, worst_group and others.

    Where there are up to 50 groups each has its accuracy under its own name, such as ``slide:23``. ``percentile_10`` is
    the accuracy that nine of ten groups exceed, interpolated as numpy does it. ``by`` takes only the groups whose names
    begin so (``slide`` takes ``slide:23``); those that are ``ignored`` are left out.
    """
    if len(np.asarray(labels)) == 0:
        raise InputError("there are no predictions to compute scores of")
    found = {"accuracy": float(np.mean(np.asarray(predicted) == np.asarray(labels)))}
    found["macro_f1"] = macro_f1_of_present(predicted, labels)
    accuracies = {} if groups is None else group_accuracies(predicted, labels, groups, names)
    counted = [
        accuracy
        for name, (accuracy, _) in accuracies.items()
        if name not in ignored and (not by or name.partition(":")[0] in by)
    ]
    if len(accuracies) <= MANY:
        found |= {name: accuracy for name, (accuracy, _) in accuracies.items()}
    if counted:
        found |= {"worst_group": min(counted), "percentile_10": float(np.percentile(counted, 10))}
    return found


def macro_f1_of_present(predicted: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the mean F1 over the classes that have rows; one that is only predicted lowers the others' alone."""
    true, guess = np.asarray(labels, np.int64), np.asarray(predicted, np.int64)
    size = int(max(true.max(), guess.max())) + 1
    there, taken = np.bincount(true, minlength=size), np.bincount(guess, minlength=size)
    right = np.bincount(true[true == guess], minlength=size)
    present = there > 0
    return float(np.mean(2 * right[present] / (there + taken)[present]))


def wilds_metrics(
    name: str, predicted: npt.ArrayLike, labels: npt.ArrayLike, groups: npt.ArrayLike, names: Sequence[str]
) -> dict[str, float]:
    """Return the scores that WILDS prints for one of its sets, with the one that it is judged by as ``judged``."""
    judged = WILDS[name]
    found = group_metrics(predicted, labels, groups, names, by=judged.by, ignored=judged.ignored)
    if judged.score not in found:
        raise InputError(f"{name} is judged by {judged.score}, and no row is in a group of {' or '.join(judged.by)}")
    return {**found, "judged": found[judged.score]}
