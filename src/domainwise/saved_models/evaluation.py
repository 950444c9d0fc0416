"""How well an algorithm predicts one part of one domain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from domainwise.acceleration.device_lock import with_device_lock
from domainwise.algorithms import Algorithm
from domainwise.data.batches.feed import Inputs, Part, batches
from domainwise.experiment.metrics import BINS, kept
from domainwise.experiment.records import Scores

Numbers = npt.NDArray[np.float32]


def evaluate(
    algorithm: Algorithm, part: Part, inputs: Inputs, generator: torch.Generator | None = None, *, counts: bool = False
) -> Scores:
    """Accuracy, mean cross-entropy and the number of images they are over; with a generator, of augmented images.

    With ``counts`` also what :mod:`domainwise.experiment.metrics` derives everything else from.
    """
    return begin(algorithm, part, inputs, generator, counts=counts).result()


def begin(
    algorithm: Algorithm, part: Part, inputs: Inputs, generator: torch.Generator | None = None, *, counts: bool = False
) -> Evaluation:
    """:func:`evaluate` without waiting for the device, which then has the next part to go on with."""
    return Evaluation(with_device_lock(lambda: _sums(algorithm, part, inputs, generator, counts)), len(part))


@dataclass(frozen=True)
class Evaluation:
    sums: dict[str, Tensor]  # on the device
    count: int

    def result(self) -> Scores:
        return _named(_fetched(self.sums), self.count)


def _sums(
    algorithm: Algorithm, part: Part, inputs: Inputs, generator: torch.Generator | None, counts: bool
) -> dict[str, Tensor]:
    sums: dict[str, Tensor] = {}
    for x, y in batches(part, inputs, generator):
        logits = algorithm.predict(x).float()
        found = {**_totals(logits, y), **(_counts(logits, y) if counts else {})}
        sums = {name: sums[name] + value if sums else value for name, value in found.items()}
    return sums


def _totals(logits: Tensor, y: Tensor) -> dict[str, Tensor]:
    right = (logits.argmax(1) == y).sum()
    return {"right": right.float(), "loss": F.cross_entropy(logits, y, reduction="sum")}


def _counts(logits: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Sums over one batch. Float32 holds whole numbers up to 16 million exactly, more than a domain has images."""
    confidence, predicted = logits.softmax(1).max(1)
    classes = logits.shape[1]
    confusion = torch.zeros(classes * classes, device=logits.device)
    confusion.index_add_(0, y * classes + predicted, torch.ones_like(confidence))
    bins = (confidence * BINS).long().clamp(0, BINS - 1)
    inside = (bins == torch.arange(BINS, device=logits.device)[:, None]).float()  # (BINS, N)
    return {
        "confusion": confusion.view(classes, classes),
        "bin_count": inside.sum(1),
        # a product and a sum rather than a matrix product, which a GPU may round to TF32
        "bin_confidence": (inside * confidence).sum(1),
        "bin_correct": (inside * (predicted == y)).sum(1),
    }


def _fetched(sums: dict[str, Tensor]) -> dict[str, Numbers]:
    """All of them in one transfer."""
    flat = torch.cat([value.flatten() for value in sums.values()]).cpu().numpy()
    found, start = {}, 0
    for name, value in sums.items():
        found[name] = flat[start : start + value.numel()].reshape(value.shape)
        start += value.numel()
    return found


def _named(sums: dict[str, Numbers], count: int) -> Scores:
    found: Scores = {"accuracy": sums["right"].item() / count, "loss": sums["loss"].item() / count, "count": count}
    if "confusion" not in sums:
        return found
    return {
        **found,
        "confusion": kept(sums["confusion"].astype(np.int64)),
        "calibration": {
            "count": sums["bin_count"].astype(np.int64).tolist(),
            "confidence": sums["bin_confidence"].tolist(),
            "correct": sums["bin_correct"].astype(np.int64).tolist(),
        },
    }
