"""Make features of a text from the vectors of its words, and number the words without a dictionary."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn
from torch.nn import functional as F

from domainwise.networks.forms import MASK, TOKENS, VECTORS


class Words(nn.Module):
    """Turn a text into the mean of its words' vectors, whatever their order, and that into features.

    Ids beyond the number of vectors share one with another id. Without a mask, 0 is no word.
    """

    def __init__(self, vectors: int = VECTORS, width: int = 64, features: int = 128) -> None:
        super().__init__()
        self.vectors = nn.Embedding(vectors, width)
        self.layers = nn.Sequential(nn.Linear(width, features), nn.ReLU())

    def forward(self, x: Mapping[str, Tensor]) -> Tensor:
        ids = x[TOKENS]
        there = x.get(MASK, ids != 0).float()
        share = there / there.sum(1, keepdim=True).clamp_min(1)
        vectors = self.vectors.weight
        mean = F.embedding_bag(ids % len(vectors), vectors, mode="sum", per_sample_weights=share)
        features: Tensor = self.layers(mean)
        return features
