"""Which record of a run is the one to report: functions from records to a record."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from domainwise.records import Record


def validation(record: Record, targets: Sequence[str]) -> float:
    """Accuracy on the source domains' hold-outs, every domain counting the same."""
    return fmean(parts["holdout"]["accuracy"] for name, parts in record["domains"].items() if name not in targets)


def by_validation(records: Sequence[Record], targets: Sequence[str]) -> Record:
    """Training-domain validation: the first record with the best validation accuracy. Never looks at a target."""
    return max(records, key=lambda record: validation(record, targets))


def summary(record: Record, targets: Sequence[str]) -> dict[str, object]:
    """The numbers tables print: target accuracy is on the target's main part, as in the published protocol."""
    accuracies = {name: record["domains"][name]["main"]["accuracy"] for name in targets}
    return {
        "step": record["step"],
        "validation": validation(record, targets),
        "target": fmean(accuracies.values()),
        "targets": accuracies,
    }
