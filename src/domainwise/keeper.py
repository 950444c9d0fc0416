"""Keeps the best model of a run as selection sees it, in memory until the run ends well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from domainwise.algorithms import Algorithm
from domainwise.data.domains import Domains
from domainwise.data.feed import Inputs
from domainwise.model import fingerprint, save
from domainwise.records import Record
from domainwise.select import pooled_validation, validation
from domainwise.trial import Trial

FOLDERS = {"model": "best", "average": "best-average"}


class Keeper:
    """``keep`` says whether to copy weights at all; without it this only watches."""

    def __init__(self, trial: Trial, *, keep: bool = False) -> None:
        self.trial, self.keep = trial, keep
        self.values: dict[str, float] = {}
        self.kept: dict[str, tuple[int, dict[str, Tensor]]] = {}

    def starts(self, algorithm: Algorithm, data: Domains, inputs: Inputs) -> None:
        self.algorithm = algorithm
        if self.keep:
            self.about: dict[str, Any] = {
                "trial": self.trial.to_json(),
                "classes": data.classes,
                "channels": data.shape[-1],
                "input_size": self.trial.input_size,
                "mean": inputs.recipe.mean,
                "std": inputs.recipe.std,
                "init": fingerprint(algorithm.net.state_dict()),
            }

    def look(self, which: str, record: Record, last: bool) -> None:
        """At the model as it is now, whose evaluation is in the record."""
        if not self.keep or not (last or record["step"] % self.trial.select_every == 0):
            return
        value = self._value(record)
        if which not in self.values or value > self.values[which]:  # the first of equals, as in selection
            self.values[which] = value
            weights = {name: tensor.detach().cpu().clone() for name, tensor in self.algorithm.net.state_dict().items()}
            self.kept[which] = record["step"], weights

    def write(self, folder: Path) -> None:
        for which, (step, weights) in self.kept.items():
            config = {**self.about, "step": step, "validation": self.values[which], "which": which}
            save(folder / FOLDERS[which], weights, config)

    def _value(self, record: Record) -> float:
        if self.trial.selection in ("last", "oracle"):
            return float(record["step"])
        measure = pooled_validation if self.trial.selection == "pooled" else validation
        return measure(record, self.trial.targets)
