"""How a trial is run, which is no part of what it is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from domainwise.acceleration.cuda_graph import Fast
from domainwise.saved_models.keep import Keep


@dataclass(frozen=True)
class How:
    """On which device, by which path, and which models stay: see :class:`~domainwise.saved_models.keep.Keeper`."""

    device: str = "cpu"
    fast: Fast = Fast()
    keep: Keep = "best"
    snapshots: int = 0
    evaluate_all: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> How:
        return cls(**{**content, "fast": Fast(**content["fast"])})
