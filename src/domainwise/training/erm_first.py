"""Train by ERM for some updates before an algorithm begins, as Fish's authors do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from domainwise.acceleration.cuda_graph import Update
from domainwise.algorithms import Algorithm, create
from domainwise.errors import InputError
from domainwise.experiment.trial import Trial
from domainwise.saved_models.build import outer_of


def erm_for(trial: Trial, algorithm: Algorithm) -> Algorithm | None:
    """Return the ERM that trains the network of an algorithm first; None where none is asked for."""
    if not trial.erm_updates:
        return None
    if algorithm.extra_channels:
        raise InputError(f"{algorithm.name} shows the network more than images, so ERM cannot train it first")
    erm = create("erm", lr=algorithm.lr, weight_decay=algorithm.weight_decay)
    erm.outer_settings = outer_of(trial)  # type: ignore[misc]  # its own
    return erm.setup(algorithm.net, seed=trial.seed)


class ErmFirst:
    """Update by ERM so many times, then by the algorithm."""

    def __init__(
        self, erm: Algorithm, updates: int, by_erm: Update, by_algorithm: Update, *, several: bool = False
    ) -> None:
        self.erm, self.updates, self.by_erm, self.by_algorithm = erm, updates, by_erm, by_algorithm
        self.several = several  # whether each domain comes with several minibatches

    def __call__(self, batches: Sequence[Any], **domains: Sequence[int]) -> dict[str, Tensor]:
        """Update on minibatches; ERM takes all that are there for each domain."""
        if self.erm.updates >= self.updates:
            return self.by_algorithm(batches, **domains)
        return self.by_erm([one for fresh in batches for one in fresh] if self.several else batches)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of ERM's optimizer while it is needed; the network is in the state of the algorithm."""
        done = self.erm.updates
        return {"updates": done, "optimizer": self.erm.optimizer.state_dict() if done < self.updates else None}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.erm.updates = state["updates"]
        if state["optimizer"] is not None:
            self.erm.optimizer.load_state_dict(state["optimizer"])
