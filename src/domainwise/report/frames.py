"""Give results to compute with: a row for every trial, or for every evaluation of every trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from domainwise.experiment.results import Outcome
from domainwise.report.grid import label, target

if TYPE_CHECKING:
    import pandas as pd


def frame(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    """Return one row per trial; hyperparameters are the columns ``hyper.<name>``."""
    import pandas as pd

    columns = ["id", "data", "algorithm", "targets", "seed", *SETTINGS, "status", "message", "step"]
    columns += ["validation_accuracy"]
    columns += ["target_accuracy", "last_target_accuracy", *MEASURES, "worst_domain", "worst_accuracy", "seconds"]
    names = sorted({name for outcome in outcomes for name in outcome.trial.hyperparameters})
    ordered = sorted(outcomes, key=lambda one: (label(one.trial), one.trial.targets, one.trial.seed, one.trial.id))
    return pd.DataFrame([_flat(outcome) for outcome in ordered], columns=columns + [f"hyper.{name}" for name in names])


def curves(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    """Return one row per evaluation, domain and part of it (main or holdout), with the accuracy and the loss."""
    import pandas as pd

    rows = [
        {
            "id": one.trial.id,
            "data": one.trial.data,
            "algorithm": label(one.trial),
            "targets": target(one.trial),
            "seed": one.trial.seed,
            "draw": one.trial.draw,
            "step": record["step"],
            "domain": name,
            "is_target": name in one.trial.targets,
            "part": part,
            "accuracy": numbers.get("accuracy"),
            "loss": numbers.get("loss"),
        }
        for one in outcomes
        for record in one.records()
        for name, parts in record["domains"].items()
        for part, numbers in parts.items()
    ]
    columns = ["id", "data", "algorithm", "targets", "seed", "draw", "step", "domain", "is_target", "part"]
    return pd.DataFrame(rows, columns=[*columns, "accuracy", "loss"])


SETTINGS = ("draw", "network", "weights", "steps", "batch", "input_size", "average")
MEASURES = ("balanced_accuracy", "macro_f1", "calibration_error", "worst_group", "percentile_10", "judged")


def _worst(unseen: Mapping[str, float]) -> dict[str, object]:
    """Return the domain that does worst of those that a trial held out."""
    name = min(unseen, key=lambda domain: unseen[domain], default=None)
    return {"worst_domain": name, "worst_accuracy": None if name is None else unseen[name]}


def _flat(outcome: Outcome) -> dict[str, object]:
    trial, result = outcome.trial, outcome.result
    selected, last = outcome.selected, outcome.last
    return {
        "id": trial.id,
        "data": trial.data,
        "algorithm": label(trial),
        "targets": target(trial),
        "seed": trial.seed,
        **{name: getattr(trial, name) for name in SETTINGS},
        "average": outcome.average or "none",
        "status": result["status"],
        "message": result.get("message", ""),
        "step": selected.get("step"),
        "validation_accuracy": selected.get("validation"),
        "target_accuracy": selected.get("target"),
        "last_target_accuracy": last.get("target"),
        **{name: selected.get("measures", {}).get(name) for name in MEASURES},
        **_worst(selected.get("targets") or {}),
        "seconds": result.get("seconds"),
        **{f"hyper.{name}": value for name, value in trial.used.items()},
    }
