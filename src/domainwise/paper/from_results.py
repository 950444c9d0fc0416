"""Read the trials for a table from a folder of results, with nothing run and no data needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from domainwise.algorithms import parse
from domainwise.api import Results
from domainwise.experiment.results import Outcome
from domainwise.experiment.settings import resolve
from domainwise.experiment.trial import Trial
from domainwise.paper.figures import Drawing
from domainwise.paper.layout import PaperRequest, has_own_rate
from domainwise.paper.numbers import SCALED
from domainwise.paper.page import Page, preset_of

Made = TypeVar("Made", Page, Drawing)

# What the rows and columns of one table differ in; everything else has to be the same in a table.
VARIED = {"data", "fingerprint", "targets", "algorithm", "hyperparameters", "source", "seed", "size",
          "erm_updates"}  # fmt: skip
SETTINGS = [field.name for field in fields(Trial) if field.compare and field.name not in VARIED]


def group_by_settings(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """Group outcomes by the settings that differ on the same data ("" where none does), the largest group first."""
    differing = [name for name in (*SETTINGS, "lr", "weight_decay") if _differs(name, outcomes)]
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        text = ", ".join(f"{name}={str(_value(outcome, name))[:12]}" for name in differing)
        groups.setdefault(text, []).append(outcome)
    return dict(sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])))


def _differs(name: str, outcomes: Sequence[Outcome]) -> bool:
    pairs = {(outcome.trial.data, str(_value(outcome, name))) for outcome in outcomes}
    return len(pairs) > len({data for data, _ in pairs})


def _value(outcome: Outcome, name: str) -> Any:
    trial = outcome.trial
    if name == "lr" and has_own_rate(trial):  # the rate that the other rows of its table have
        return float(f"{float(trial.hyperparameters['lr'] or 0) / SCALED:.12g}")
    if trial.origins.get(name, "").startswith("algorithm "):  # an algorithm's own setting makes no other table
        return getattr(resolve(preset_of(trial) or "quick", benchmark=trial.data), name)
    return trial.hyperparameters.get(name) if name in ("lr", "weight_decay") else getattr(trial, name)


def open_results(folder: Path, request: PaperRequest | None = None) -> dict[str, list[Outcome]]:
    """Return the requested trials of a folder that have ended, with their averages, grouped by settings."""
    request = request or PaperRequest()
    names = {parse(name)[0].name for name in request.algorithms}
    targets = None if request.targets in ("", "all") else {word.strip() for word in request.targets.split(",")}
    return group_by_settings(
        [
            one
            for one in Results.open(folder).outcomes
            if one.trial.draw == 0  # the draws of a search are none of the paper's settings
            and (not names or one.trial.algorithm in names)
            and (targets is None or targets.issuperset(one.trial.targets))
        ]
    )


def named_by(made: Made, settings: str) -> Made:
    """Return the page or drawing with the settings in its name and title, to tell it from another of the folder."""
    if not settings:
        return made
    added = "".join(letter if letter.isalnum() or letter in ".-" else "-" for letter in settings)
    return replace(made, name=f"{made.name}-{added}", title=f"{made.title} ({settings})")
