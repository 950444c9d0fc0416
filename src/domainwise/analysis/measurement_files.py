"""Files that an analysis leaves beside a trial, written and read without torch."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from domainwise.errors import warn
from domainwise.experiment.integrity import Damaged, read, sealed
from domainwise.experiment.records import publish

SURFACE, BALANCE = "surface.json", "balance.json"
MEASURES = ("variation", "off_centroid", "angle", "gain")  # of balance, at every model


@dataclass(frozen=True)
class Surface:
    """The loss of every domain on a plane: ``losses[domain][i][j]`` is the mean loss at ``(a[j], b[i])``."""

    a: Sequence[float]
    b: Sequence[float]
    losses: Mapping[str, Sequence[Sequence[float]]]
    start: tuple[float, float] | None  # where the walk began; None where the models are not those of a walk
    models: Mapping[str, tuple[float, float]]  # the end of each leg, by its domain, or models by their names
    targets: tuple[str, ...]
    of: str = ""  # which model of the trial, where it is not the selected one
    lr: float | None = None  # of the steps of the walk, where there was one

    @property
    def mean(self) -> tuple[float, float]:
        """The mean of the three models, where Arith heads."""
        places = list(self.models.values())
        return sum(a for a, _ in places) / len(places), sum(b for _, b in places) / len(places)

    @property
    def end(self) -> tuple[float, float]:
        """The end of the walk, where Fish heads."""
        return list(self.models.values())[-1]

    def save(self, folder: Path) -> None:
        """Write the surface into a trial's folder."""
        publish(folder / SURFACE, sealed(asdict(self)))

    @classmethod
    def read(cls, file: Path) -> Surface | None:
        """Read a surface; None where the models were at no finite place. A loss that is not finite is a hole in it."""
        kept = read(file)
        if None in kept["a"] or None in kept["b"]:
            return None
        models = {name: (a, b) for name, (a, b) in kept["models"].items()}
        start = None if kept["start"] is None else (kept["start"][0], kept["start"][1])
        losses = {
            name: [[math.nan if loss is None else loss for loss in row] for row in rows]
            for name, rows in kept["losses"].items()
        }
        own = {name: kept[name] for name in ("of", "lr") if name in kept}
        return cls(kept["a"], kept["b"], losses, start, models, tuple(kept["targets"]), **own)


def keep_balance(folder: Path, found: Mapping[str, Any]) -> None:
    """Write what was measured into a trial's folder, beside snapshots that were measured the same way before."""
    file = folder / BALANCE
    before = read_balance(file) or {}
    same = all(before.get(key) == found[key] for key in ("steps", "lr"))
    publish(file, sealed({**({"along": before["along"]} if same and "along" in before else {}), **found}))


def read_balance(file: Path) -> Mapping[str, Any] | None:
    """Read what was measured of balance; None where nothing was, or, with a warning, where the file is damaged."""
    if not os.path.lexists(file):
        return None
    try:
        found = read(file)
        places = [*([found] if "variation" in found else []), *found.get("along", [])]
        if not all(isinstance(place[key], int | float | None) for place in places for key in MEASURES):
            raise TypeError
        return found
    except Damaged as error:
        warn(f"{error}: balance has to be measured again there")
    except (KeyError, TypeError):
        warn(f"{file} is damaged: balance has to be measured again there")
    return None
