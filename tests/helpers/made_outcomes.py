"""Outcomes with plausible numbers, written as a training loop would leave them, to test what reads them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from domainwise.experiment import records, selection as select
from domainwise.experiment.integrity import digest, sealed
from domainwise.experiment.results import Outcome, outcomes
from domainwise.experiment.trial import Trial

ANGLES = ("0", "15", "30", "75")


class Study:
    """An output folder that grows by one ended trial with every call of ``add``."""

    def __init__(self, folder: Path, domains: tuple[str, ...] = ANGLES) -> None:
        self.folder, self.domains = folder, domains

    def add(
        self,
        algorithm: str = "erm",
        accuracy: float = 0.7,
        targets: tuple[str, ...] = ("75",),
        seed: int = 0,
        *,
        status: str = "finished",
        ended: int = 300,
        validation: float = 0.95,
        loss: float = 2.3,
        **settings: Any,
    ) -> Study:
        hyperparameters = settings.pop("hyperparameters", {"lr": 1e-3, "weight_decay": 0.0})
        named: dict[str, Any] = {"data": "digits", "fingerprint": "f00d" * 8, **settings}
        trial = Trial(targets=targets, algorithm=algorithm, hyperparameters=hyperparameters, seed=seed, **named)
        folder = self.folder / "trials" / trial.id
        folder.mkdir(parents=True)
        records.publish(folder / "trial.json", sealed(trial.to_json()))
        made = [self._record(trial, step, accuracy, validation, loss) for step in range(50, ended + 1, 50)]
        for record in made:
            records.append(folder / "records.jsonl", record)
        files = {"records.jsonl": digest(folder / "records.jsonl")} if made else {}
        result = {**self._result(trial, made, status, ended), "files": files}
        records.publish(folder / "result.json", sealed(result))
        return self

    def _record(self, trial: Trial, step: int, accuracy: float, validation: float, loss: float) -> dict[str, Any]:
        """Rises to its best at step 250 and falls a little after that."""
        rise = (1 - math.exp(-step / 60)) / (1 - math.exp(-250 / 60)) if step <= 250 else 0.98
        scores = {name: accuracy if name in trial.targets else validation for name in self.domains}
        domains = {
            name: {part: {"accuracy": rise * score, "loss": 2.3 * (1 - rise * score), "count": 60}}
            for name, score in scores.items()
            for part in [("main" if name in trial.targets else "holdout")]
        }
        return {"step": step, "seconds": step / 100, "loss": loss * math.exp(-step / 80), "domains": domains}

    def _result(self, trial: Trial, made: list[dict[str, Any]], status: str, ended: int) -> dict[str, Any]:
        messages = {
            "diverged": f'the loss on domain "15" is not finite at step {ended}: try a smaller learning rate',
            "failed": "RuntimeError: out of memory",
        }
        best = select.summary(select.by_validation(made, trial.targets), trial.targets) if made else None
        return {
            "id": trial.id,
            "status": status,
            "message": messages.get(status, ""),
            "step": ended,
            "selected": best if status == "finished" else None,
            "last": select.summary(made[-1], trial.targets) if made else None,
            "seconds": ended / 100,
            "device": "cpu",
            "threads": 1,
            "versions": {"domainwise": "0.1.0", "torch": "2.13.0", "python": "3.11.2", "numpy": "2.4.6"},
        }

    @property
    def outcomes(self) -> list[Outcome]:
        return outcomes(self.folder)
