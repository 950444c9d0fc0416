"""What has to be kept in mind about a table: data that stands in, and settings that are not the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from domainwise.experiment.results import Outcome
from domainwise.experiment.settings import PRESETS, of_algorithm, resolve
from domainwise.experiment.trial import Trial
from domainwise.paper.columns import names_of, stand_in
from domainwise.paper.numbers import DATA_SETS

TOLD = ("network", "input_size", "augment", "validation", "batch", "steps", "evaluate_every", "holdout", "precision",
        "dropout", "freeze_batch_norm", "test", "selection")  # fmt: skip


def remarks(outcomes: Sequence[Outcome], preset: str) -> list[str]:
    if other := stand_in(names_of(outcomes)):
        return [f"{other} stands in for the paper's data: the numbers are not comparable with the paper's."]
    own = [outcome.trial for outcome in outcomes if outcome.trial.data in DATA_SETS]
    used = sorted({preset_of(trial) for trial in own} - {"", preset})
    found = [f"Measured with preset {', '.join(used)}; this table is meant for preset {preset}."] if used else []
    if differing := sorted({text for trial in own for text in _differing(trial, preset)}):
        found.append(f"Not as its preset has it: {', '.join(differing)}.")
    return found


def preset_of(trial: Trial) -> str:
    named = (origin.removeprefix("preset ") for origin in trial.origins.values() if origin.startswith("preset "))
    return next((name for name in named if name in PRESETS), "")


def _differing(trial: Trial, preset: str) -> list[str]:
    """Every setting that is not that of the preset the trial was made with."""
    usual = of_algorithm(resolve(preset_of(trial) or preset, benchmark=trial.data, device="cuda"), trial.algorithm)
    pairs = [(name, getattr(trial, name), getattr(usual, name)) for name in TOLD]
    pairs.append(("lr", trial.hyperparameters.get("lr"), usual.lr))
    return [f"{name} {_written(here)} instead of {_written(there)}" for name, here, there in pairs if here != there]


def _written(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
