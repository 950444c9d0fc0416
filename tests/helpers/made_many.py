"""An output folder with many ended trials, as a large sweep leaves it."""

from __future__ import annotations

import json
from pathlib import Path

from domainwise.data.domains import Domains
from domainwise.experiment.integrity import digest, sealed
from domainwise.experiment.output_folder import opened
from domainwise.experiment.trial import Trial


def finished(folder: Path, data: Domains, trials: list[Trial]) -> Path:
    """Every trial with a result and records, all plausible and none computed."""
    with opened(folder, data):
        pass
    for number, trial in enumerate(trials):
        path = folder / "trials" / trial.id
        path.mkdir(parents=True)
        score = 0.5 + number % 97 / 200
        chosen = {"step": 250, "validation": score, "target": score, "targets": dict.fromkeys(trial.targets, score)}
        result = {
            "id": trial.id, "status": "finished", "message": "", "step": 299, "selected": chosen, "last": chosen,
            "averages": {}, "seconds": 2.0, "device": "cpu", "threads": 1,
            "versions": {"domainwise": "0.1.0", "torch": "2.13.0", "python": "3.11.2", "numpy": "2.4.6"},
        }  # fmt: skip
        (path / "trial.json").write_text(json.dumps(sealed(trial.to_json()), indent=1))
        domains = {name: {part: {"accuracy": score, "loss": 1.0, "count": 60}}
                   for name in data.names for part in [("main" if name in trial.targets else "holdout")]}  # fmt: skip
        record = {"step": 250, "seconds": 2.0, "loss": 0.5, "domains": domains}
        (path / "records.jsonl").write_text(
            "".join(json.dumps({**record, "step": s}) + "\n" for s in range(0, 300, 30))
        )
        result["files"] = {"records.jsonl": digest(path / "records.jsonl")}
        (path / "result.json").write_text(json.dumps(sealed(result), indent=1))
    return folder
