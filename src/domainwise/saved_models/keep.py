"""Keep models of a run: the best by the rule of selection, those of every evaluation, or some spread over training."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from domainwise.algorithms import Algorithm
from domainwise.data.batches.inputs import Inputs
from domainwise.data.domains import Domains
from domainwise.data.splits import is_official, sources_of
from domainwise.errors import InputError
from domainwise.experiment.outcomes import Table, write
from domainwise.experiment.records import Record
from domainwise.experiment.results import OUTCOMES
from domainwise.experiment.selection import rule
from domainwise.experiment.settings import whole
from domainwise.experiment.trial import Trial
from domainwise.files import names_in
from domainwise.saved_models.build import Featurizer, told_layout
from domainwise.saved_models.saved import fingerprint, save

Keep = Literal["best", "none", "all"]
Outcomes = dict[str, dict[str, dict[str, Tensor]]]  # as Evaluator.outcomes returns them


class Keeper:
    """Keeps the best model in memory until the run has ended well, and writes all others into the folder at once.

    Args:
        keep: "best", "none", or "all" for the model of every evaluation too, in ``models/<step>`` and, averaged, in
            ``models-average/<step>``. What is averaged by another than the first averager named has its name behind.
        snapshots: how many models to keep in ``snapshots/<step>``, spread evenly; the last is the final one.
        folder: the trial's, for what is written at once.
    """

    def __init__(self, trial: Trial, keep: Keep = "none", snapshots: int = 0, folder: Path | None = None) -> None:
        self.trial, self.keep, self.folder = trial, keep, folder
        self.snapshots = spread(snapshots, trial.steps)
        self.values: dict[str, float] = {}
        self.kept: dict[str, tuple[int, dict[str, Tensor]]] = {}
        self.recalled: dict[str, dict[str, Any]] = {}  # beside the weights of each
        self.outcomes: dict[str, tuple[int, Outcomes]] = {}  # of the best step so far

    def begin(self, algorithm: Algorithm, data: Domains, inputs: Inputs, featurizer: Featurizer | None = None) -> None:
        """Take the algorithm whose models are to be kept, before its first update.

        Where it trains a head on frozen features, ``featurizer`` made them, and is a part of every model.
        """
        self.algorithm, self.classes, self.featurizer = algorithm, len(data.classes), featurizer
        if self.keep != "none" or self.snapshots:
            self.about: dict[str, Any] = {
                "trial": self.trial.shared(),
                "classes": data.classes,
                "domains": _known(data, self.trial),
                **told_layout(data, self.trial.input_size),
                **({"architecture": made} if (made := _architecture(algorithm)) else {}),
                "input_size": self.trial.input_size,
                "mean": (featurizer or inputs.recipe).mean,
                "std": (featurizer or inputs.recipe).std,
                "init": fingerprint(algorithm.net.state_dict()) + (f"+{featurizer.digest}" if featurizer else ""),
            }

    @property
    def leg_parts(self) -> int:
        """How many parts the algorithm computes every leg in, for want of memory."""
        return self.algorithm.leg_parts if hasattr(self, "algorithm") else 1

    def updated(self, step: int) -> None:
        """Write a snapshot of the model, if this is a step for one."""
        if step in self.snapshots:
            self._write(f"snapshots/{step}", self._weights(), {"step": step, "validation": None, "which": "model"})

    def evaluated(self, which: str, record: Record, last: bool, outcomes: Callable[[], Outcomes] = dict) -> None:
        """Keep the current weights, and what they made of every image, if this record of them is the best so far.

        ``which`` is "model", or the name of the averager whose weights are in the network now.
        """
        value = self._value(record)
        if self.keep == "all":
            config = {"step": record["step"], "validation": value, **self._told(which)}
            self._write(f"models{self._behind(which)}/{record['step']}", self._weights(), config)
        if not (last or record["step"] % self.trial.select_every == 0):
            return
        if which not in self.values or value > self.values[which]:  # the first of equals, as in selection
            self.values[which] = value
            self.outcomes[which] = record["step"], outcomes()
            if self.keep == "none":
                return
            self.kept[which], self.recalled[which] = (record["step"], self._weights()), self._recalled()

    def settled(self, step: int) -> bool:
        """Whether the model has not become better for as many evaluations as the trial has patience for."""
        best, _ = self.outcomes.get("model", (step, {}))
        patience = self.trial.patience * self.trial.evaluate_every
        return patience > 0 and step % self.trial.select_every == 0 and step - best >= patience

    def write_outcomes(self, folder: Path, steps: Mapping[str, int]) -> None:
        """Write what the selected models made of every image; ``steps`` are those that were selected.

        Of a run that went on from a checkpoint of an earlier version, the best step may not be known.
        """
        known = {which: one for which, one in self.outcomes.items() if one[0] == steps.get(which) and one[1]}
        tables = {which: (step, _as_arrays(outcomes)) for which, (step, outcomes) in known.items()}
        if tables:
            write(folder / OUTCOMES, self.classes, tables)

    def write(self, folder: Path) -> None:
        """Write the best models into a trial's folder, in place of those of an earlier run."""
        for which, (step, weights) in self.kept.items():
            config = {"step": step, "validation": self.values[which], **self._told(which)}
            save(
                folder / f"best{self._behind(which)}",
                weights,
                {**self.about, **config, **self.recalled[which]},
                self.featurizer,
            )
        if self.kept:  # one of an earlier run would be taken for an average of this
            own = {f"best{self._behind(which)}" for which in self.kept}
            for stale in [name for name in names_in(folder) if name.startswith("best-average") and name not in own]:
                shutil.rmtree(folder / stale)

    def state_dict(self) -> dict[str, Any]:
        kept = {"values": dict(self.values), "kept": dict(self.kept), "recalled": dict(self.recalled)}
        return {**kept, "outcomes": dict(self.outcomes)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.values, self.kept, recalled = (self._named(state.get(key, {})) for key in ("values", "kept", "recalled"))
        self.recalled = {which: recalled.get(which, {}) for which in self.kept}
        self.outcomes = dict(state.get("outcomes", {}))

    def _named(self, state: dict[str, Any]) -> dict[str, Any]:
        """Put the names of averagers in place: the only one there could be was called "average" once."""
        return {self.trial.averages[0] if which == "average" else which: value for which, value in state.items()}

    def _told(self, which: str) -> dict[str, str]:
        return {"which": "model"} if which == "model" else {"which": "average", "average": which}

    def _behind(self, which: str) -> str:
        """The end of a folder's name: nothing but what every shell and every system takes as it is."""
        if which == "model":
            return ""
        words = "-".join(re.findall(r"[\w.=]+", which))
        return "-average" + f"-{words}" * (which != self.trial.averages[0])

    def _weights(self) -> dict[str, Tensor]:
        return {name: tensor.detach().to("cpu", copy=True) for name, tensor in self.algorithm.net.state_dict().items()}

    def _write(self, place: str, weights: dict[str, Tensor], config: dict[str, Any]) -> None:
        assert self.folder is not None
        save(self.folder / place, weights, {**self.about, **config, **self._recalled()}, self.featurizer)

    def _recalled(self) -> dict[str, Any]:
        found = {name: getattr(self.algorithm, name) for name in self.algorithm.recalled}
        try:
            return {"recalled": json.loads(json.dumps(found))} if found else {}
        except (TypeError, ValueError) as error:
            raise InputError(f"{self.trial.algorithm}: what it recalls must be numbers and texts: {error}") from error

    def _value(self, record: Record) -> float:
        return rule(self.trial.selection).value(record, self.trial.targets)


def _architecture(algorithm: Algorithm) -> Any:
    return getattr(getattr(algorithm.net, "featurizer", None), "architecture", None)


def _as_arrays(outcomes: Outcomes) -> Table:
    return {
        domain: {part: {name: column.numpy() for name, column in columns.items()} for part, columns in parts.items()}
        for domain, parts in outcomes.items()
    }


def checked(keep: Keep) -> Keep:
    if keep not in ("best", "none", "all"):
        raise InputError(f'keep must be "best", "none" or "all", got {keep!r}')
    return keep


def spread(count: int, steps: int) -> frozenset[int]:
    """Return ``count`` steps at equal distances, the last of which is the last of the training."""
    if not whole(count, least=0) or count > steps:
        raise InputError(f"snapshots is how many models to keep, from 0 to the {steps:,} updates, got {count!r}")
    return frozenset(max(0, round(k * steps / count) - 1) for k in range(1, count + 1))


def _known(data: Domains, trial: Trial) -> Sequence[str]:
    """The domains of the data; of an official split those that are trained on, since the others are no targets."""
    return sources_of(data, trial.targets) if is_official(data, trial.targets) else data.names
