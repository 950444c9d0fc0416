"""What a trial's checkpoint must agree with for the trial to go on from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from domainwise.experiment.records import Journal
from domainwise.experiment.trial import Trial
from domainwise.machine import processor, versions
from domainwise.training.checkpoints import Checkpoints
from domainwise.training.run_options import RunOptions


def checkpoints_of(
    trial: Trial,
    folder: Path,
    options: RunOptions,
    say: Callable[[str], None],
) -> Checkpoints:
    device = options.device
    return Checkpoints(
        folder,
        identity=identity(trial),
        choices={
            "average": trial.average,
            "selection": trial.selection,
            "select_every": trial.select_every,
            **options.choices,
        },
        circumstances={
            **versions(),
            "threads": torch.get_num_threads(),
            "processor": processor(),
            "device": torch.cuda.get_device_name(device) if torch.device(device).type == "cuda" else device,
        },
        journals=(Journal.LEAN, Journal.WHOLE),
        agree=Journal.agree,
        every=options.checkpoint_every,
        device=device,
        say=say,
    )


def identity(trial: Trial) -> dict[str, Any]:
    """All that is in the id, by name, as JSON gives it back."""
    settings = trial.to_json()
    found: dict[str, Any] = json.loads(json.dumps({f.name: settings[f.name] for f in fields(trial) if f.compare}))
    return found
