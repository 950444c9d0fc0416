"""What came of a set of trials, read back from their folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from domainwise import records
from domainwise.trial import Trial


@dataclass(frozen=True)
class Outcome:
    """A trial and what came of it.

    ``result`` is the content of result.json:
    {"id": ..., "status": "finished" | "diverged" | "failed", "message": "" or a sentence, "step": the last one made,
     "selected": null or {"step": 250, "validation": 0.95, "target": 0.81, "targets": {"75": 0.81}},
     "last": the same of the last record, "seconds": 3.2, "device": "cpu", "threads": 1,
     "versions": {"domainwise": "0.1.0", "torch": ..., "python": ..., "numpy": ...}}
    """

    trial: Trial
    result: dict[str, Any]
    folder: Path

    def records(self) -> list[records.Record]:
        return list(records.read(self.folder / "records.jsonl"))


def outcomes(folder: Path) -> list[Outcome]:
    """Every trial of an output folder that has come to an end, well or badly."""
    found = []
    for result in sorted((folder / "trials").glob("*/result.json")):
        settings = json.loads((result.parent / "trial.json").read_text(encoding="utf-8"))
        found.append(Outcome(Trial.from_json(settings), json.loads(result.read_text(encoding="utf-8")), result.parent))
    return found
