"""Some images of a domain, and how they become input for a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from domainwise.data.batches.augment import Augmentation, Pixels, augmentation
from domainwise.data.batches.own_transform import OwnTransform
from domainwise.data.batches.rows import Chosen, Rows
from domainwise.data.decoded.image import in_threads
from domainwise.data.decoded.read_ahead import Source
from domainwise.data.domains import Domain, Labels
from domainwise.data.splits import Indices
from domainwise.networks.samples import Samples, put_together


@dataclass(frozen=True, eq=False)
class Part:
    """Some images of one domain, to train or to evaluate on; arrays that are not used are never sent to the device."""

    domain: Domain
    rows: Indices
    device: str
    on_host: bool = True  # keep images on the host
    first: int = 0  # what is added to a row where the images of several domains are counted as one

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def labels(self) -> Tensor:
        """The class of each image, on the device."""
        return torch.from_numpy(self.domain.labels[self.rows]).to(self.device)

    @cached_property
    def images(self) -> Rows:
        """The images to train on."""
        return Rows(self.domain.images, self.rows, self.device, self.on_host)

    @cached_property
    def evaluation(self) -> Rows:
        """The images to evaluate on."""
        whole = self.domain.evaluation
        return self.images if whole is None else Rows(whole, self.rows, self.device, self.on_host)

    @cached_property
    def shapes(self) -> Tensor:
        """Height and width, (N, 2) on the host, of the images before they were resized to be stored."""
        if self.domain.shapes is not None:
            return torch.from_numpy(self.domain.shapes[self.rows])
        return torch.tensor(self.domain.images.shape[1:3]).expand(len(self), 2)

    @cached_property
    def chances(self) -> Tensor:
        """The chance of each image, so that every class is drawn equally often."""
        return chances(self.domain.labels[self.rows])


def column_scales(parts: Sequence[Part]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the mean and the deviation of each column of a table, or channel of signals; 1 where it never changes.

    Dicts stay as they are.
    """
    if parts[0].domain.images.dtype.names:
        return (0.0,), (1.0,)
    rows = [part.domain.images[part.rows] for part in parts]
    rows = [each.swapaxes(1, 2).reshape(-1, each.shape[1]) if each.ndim == 3 else each for each in rows]
    count = sum(map(len, rows))
    mean = np.sum([each.sum(0, dtype=np.float64) for each in rows], 0) / count
    std = np.sqrt(np.sum([((each - mean) ** 2).sum(0) for each in rows], 0) / count)
    return tuple(mean.tolist()), tuple(np.where(std > 1e-12 * np.abs(mean), std, 1).tolist())


class Inputs:
    """Turn the images of parts into input for a network, by the recipe of a trial."""

    def __init__(
        self,
        recipe: str,
        size: int,
        mean: Sequence[float] = (0.0,),
        std: Sequence[float] = (1.0,),
        *,
        compiler: Callable[[Any], Any] = lambda function: function,
        own: OwnTransform | None = None,
    ) -> None:
        self.own = own  # augments in place of the recipe
        self.recipe: Augmentation = augmentation("none" if own else recipe, size, mean, std)
        # For minibatches, which have one shape; the batches of an evaluation have many.
        self.pixels: Pixels = compiler(self.recipe.pixels)
        self.random = recipe != "none"

    def training(self, parts: Sequence[Part], chosen: Sequence[Chosen], generator: torch.Generator) -> Samples:
        """Return the chosen images of several parts, augmented, as one batch."""
        return self._augmented(parts, chosen, generator, self.pixels)

    def validation(self, part: Part, rows: Chosen, generator: torch.Generator) -> Samples:
        """Return the chosen images of one part, augmented as in training."""
        return self._augmented([part], [rows], generator, self.recipe.pixels)

    def _augmented(
        self,
        parts: Sequence[Part],
        chosen: Sequence[Chosen],
        generator: torch.Generator,
        pixels: Pixels,
    ) -> Samples:
        if not self.random:
            return self.recipe.plain(
                put_together([part.images[rows] for part, rows in zip(parts, chosen, strict=True)])
            )
        ragged = parts[0].domain.originals is not None
        images = None if ragged else torch.cat([part.images[rows] for part, rows in zip(parts, chosen, strict=True)])
        if self.own is not None:
            made = self.own(_originals(parts, chosen) if images is None else images, generator)
            return self.recipe.normalise(made.to(parts[0].device))
        shapes = torch.cat([part.shapes[rows.host] for part, rows in zip(parts, chosen, strict=True)])
        params = self.recipe.parameters(len(shapes), shapes, generator)
        if images is None:
            return self.recipe.ragged(_originals(parts, chosen), params).to(parts[0].device)
        return self.recipe.apply_with(pixels, images, params)

    def source(self, part: Part) -> Source | None:
        """Return where the images of a part are read from to be augmented; None where they are in memory."""
        return None if self.random and part.domain.originals is not None else part.images.disk

    def begin(self, part: Part, rows: Chosen, *, plain: bool = False) -> Chosen:
        """Have the images read that are on the disk and will be asked for: as they are, or to be augmented."""
        if plain:
            return part.evaluation.begin(rows)
        return rows if self.source(part) is None else part.images.begin(rows)

    def plain(self, part: Part, rows: Chosen) -> Samples:
        """Return the chosen images of one part as they are, for evaluation."""
        return self.recipe.plain(part.evaluation[rows])


def _originals(parts: Sequence[Part], chosen: Sequence[Chosen]) -> list[Tensor]:
    places = [
        (part.domain.originals, int(part.rows[row]))
        for part, rows in zip(parts, chosen, strict=True)
        if part.domain.originals is not None
        for row in rows.host
    ]
    return [torch.from_numpy(image) for image in in_threads(lambda place: place[0][place[1]], places)]


def chances(labels: Labels) -> Tensor:
    """Return the chance of each image, so that every class is drawn equally often."""
    return torch.from_numpy(1.0 / np.bincount(labels)[labels])
