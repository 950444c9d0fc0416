"""Tables from a folder of results alone, with nothing run and no data at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from domainwise.api import Results
from domainwise.experiment.results import Outcome
from domainwise.experiment.settings import resolve
from domainwise.experiment.trial import Trial
from domainwise.paper.drawing import Drawing
from domainwise.paper.page import Page
from domainwise.paper.remarks import preset_of
from domainwise.paper.rows import Wish

Made = TypeVar("Made", Page, Drawing)

# What a row of a table is about; all else has to be the same in a table.
OWN = {"data", "fingerprint", "targets", "algorithm", "hyperparameters", "source", "seed", "size"}
SETTINGS = [field.name for field in fields(Trial) if field.compare and field.name not in OWN]


def alike(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """Outcomes by the settings that differ between trials on the same data: "" where none does; the most first."""
    differing = [name for name in (*SETTINGS, "lr", "weight_decay") if _differs(name, outcomes)]
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        told = ", ".join(f"{name}={str(_value(outcome, name))[:12]}" for name in differing)
        groups.setdefault(told, []).append(outcome)
    return dict(sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])))


def _differs(name: str, outcomes: Sequence[Outcome]) -> bool:
    pairs = {(outcome.trial.data, str(_value(outcome, name))) for outcome in outcomes}
    return len(pairs) > len({data for data, _ in pairs})


def _value(outcome: Outcome, name: str) -> Any:
    trial = outcome.trial
    if trial.origins.get(name, "").startswith("algorithm "):  # what it would be without: that is no other table
        return getattr(resolve(preset_of(trial) or "quick", benchmark=trial.data), name)
    return trial.hyperparameters.get(name) if name in ("lr", "weight_decay") else getattr(trial, name)


def opened(folder: Path, wish: Wish | None = None) -> dict[str, list[Outcome]]:
    """What has ended in a folder, averages beside, by the settings that differ; of what was asked for alone."""
    wish = wish or Wish()
    targets = None if wish.targets in ("", "all") else {word.strip() for word in wish.targets.split(",")}
    return alike(
        [
            one
            for one in Results.open(folder).outcomes
            if one.trial.draw == 0  # what a search has drawn is none of the paper's settings
            and (not wish.algorithms or one.trial.algorithm in wish.algorithms)
            and (targets is None or targets.issuperset(one.trial.targets))
        ]
    )


def told(made: Made, settings: str) -> Made:
    """The same, with the settings that tell it from another one of the same folder."""
    if not settings:
        return made
    added = "".join(letter if letter.isalnum() or letter in ".-" else "-" for letter in settings)
    return replace(made, name=f"{made.name}-{added}", title=f"{made.title} ({settings})")
