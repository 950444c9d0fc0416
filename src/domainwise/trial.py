"""A trial: everything that determines a run, resolved, frozen and named by its hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

Value = float | int | str | bool | None


@dataclass(frozen=True)
class Trial:
    """One training run on all domains but the targets.

    The data's fingerprint and a third party's source hash are in the id; paths and the label are not.
    """

    data: str
    fingerprint: str
    targets: tuple[str, ...]
    algorithm: str  # "arith", or "my_idea.py:MyIdea"
    hyperparameters: Mapping[str, Value]  # every one of them, resolved
    source: str = ""  # sha256 of a third party's file
    size: int = 0  # side of the images that are trained on
    network: str = "small"
    batch: int = 32  # images of each domain in one minibatch
    steps: int = 300
    holdout: float = 0.2
    evaluate_every: int = 50
    seed: int = 0
    label: str = field(default="", compare=False)  # how the user wrote it: what tables call it
    file: str = field(default="", compare=False)  # where a third party's file lies

    @property
    def id(self) -> str:
        settings = asdict(self)
        del settings["label"], settings["file"]
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, **asdict(self)}

    @classmethod
    def from_json(cls, settings: Mapping[str, Any]) -> Trial:
        known = {key: value for key, value in settings.items() if key != "id"}
        return cls(**{**known, "targets": tuple(known["targets"])})
