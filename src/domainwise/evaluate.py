"""How well an algorithm predicts one part of one domain."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from domainwise.algorithms import Algorithm
from domainwise.data.sampling import Part, to_input

BATCH = 512


def evaluate(algorithm: Algorithm, part: Part) -> dict[str, float]:
    """Accuracy, mean cross-entropy and the number of images they are over."""
    images, labels = part
    right = torch.zeros((), device=labels.device)
    loss = torch.zeros((), device=labels.device)
    for start in range(0, len(labels), BATCH):
        y = labels[start : start + BATCH]
        logits = algorithm.predict(to_input(images[start : start + BATCH]))
        right += (logits.argmax(1) == y).sum()
        loss += F.cross_entropy(logits.float(), y, reduction="sum")
    return {"accuracy": right.item() / len(labels), "loss": loss.item() / len(labels), "count": len(labels)}
