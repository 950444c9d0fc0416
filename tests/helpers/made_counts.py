"""Confusion and calibration counts beside made outcomes, as a trial leaves them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from made_outcomes import Study
from made_seals import reseal

from domainwise.experiment import records
from domainwise.experiment.metrics import measures


def part(confusion: list[list[int]]) -> dict[str, Any]:
    """All images with a confidence of 0.9, in one bin."""
    table = np.asarray(confusion)
    count, right = int(table.sum()), int(np.trace(table))
    bins = {"count": [0, count], "confidence": [0.0, 0.9 * count], "correct": [0, right]}
    return {"accuracy": right / count, "loss": 1.0, "count": count, "confusion": confusion, "calibration": bins}


def count(study: Study, *confusions: list[list[int]], averager: str = "") -> None:
    """Give the latest trials these confusions on their target, and with an averager a perfect averaged model."""
    for folder, confusion in zip(sorted_by_seed(study)[-len(confusions) :], confusions, strict=True):
        found, (target,) = part(confusion), json.loads((folder / "trial.json").read_text())["targets"]
        result = json.loads((folder / "result.json").read_text())
        about = {**measures(found), "worst_domain": "15", "worst_accuracy": 0.25}
        result["selected"]["measures"] = about
        counts = {"model": {target: {"main": found}}}
        if averager:
            counts[averager] = {target: {"main": part((np.eye(len(confusion), dtype=int) * 10).tolist())}}
            result["averages"] = {averager: {"selected": result["selected"], "last": result["last"]}}
        records.publish(folder / "counts.json", counts)
        reseal(folder, **result)


def sorted_by_seed(study: Study) -> list[Path]:
    return [one.folder for one in sorted(study.outcomes, key=lambda one: (one.trial.algorithm, one.trial.seed))]
