"""Feed a network from arrays: minibatches to train on, and batches to evaluate."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from domainwise.data.batches.augment import Augmentation, Pixels, augmentation
from domainwise.data.domains import Domain, Domains, Labels, Values
from domainwise.data.splits import Indices
from domainwise.losses import Batch
from domainwise.seeds import seed_hash

EVALUATION_BATCH = 256


class Rows:
    """Some rows of an array, which lies on the GPU if that has room, and otherwise on the host.

    An array is on a GPU only once, however many trials a process runs at a time.
    """

    def __init__(self, array: Values, rows: Indices, device: str, on_host: bool) -> None:
        self.device, self.source = device, array
        self.array = torch.from_numpy(array) if on_host else _on_device(array, device)
        self.rows = torch.from_numpy(rows).to(self.array.device)

    def __getitem__(self, chosen: Chosen) -> Tensor:
        images = self.array[self.rows[chosen.device if self.array.is_cuda else chosen.host]]
        if images.is_cuda or self.device == "cpu":
            return images
        # The host runs ahead of the device, so that this copy happens during the update before.
        return images.pin_memory().to(self.device, non_blocking=True)


class Chosen(NamedTuple):
    """The positions of some images of a part, on the host and on the device."""

    host: Tensor
    device: Tensor

    @classmethod
    def of(cls, rows: Sequence[Tensor], device: str) -> list[Chosen]:
        """Send positions to a device in one copy that is not waited for."""
        if torch.device(device).type == "cpu":
            return [cls(chosen, chosen) for chosen in rows]
        moved = torch.cat(list(rows)).pin_memory().to(device, non_blocking=True)
        return [cls(*both) for both in zip(rows, torch.split(moved, [len(chosen) for chosen in rows]), strict=True)]


_lock = threading.Lock()
_copies: WeakValueDictionary[tuple[int, str], Tensor] = WeakValueDictionary()


def _on_device(array: Values, device: str) -> Tensor:
    """The only copy of an array on a device, known by the array's identity while some rows hold both."""
    with _lock:
        copy = _copies.get((id(array), device))
        if copy is None:
            _copies[id(array), device] = copy = torch.from_numpy(array).to(device)
            if copy.is_cuda:  # trials on other streams use it too
                torch.cuda.current_stream(device).synchronize()
        return copy


def has_room(data: Domains, device: str, share: float = 0.6) -> bool:
    """Return whether all images fit into a share of a GPU's free memory; on a host they stay where they are."""
    if torch.device(device).type == "cpu":
        return False
    free, _ = torch.cuda.mem_get_info(device)
    arrays = [array for domain in data for array in (domain.images, domain.evaluation) if array is not None]
    return sum(array.nbytes for array in arrays if (id(array), device) not in _copies) < share * free


@dataclass(frozen=True, eq=False)
class Part:
    """Some images of one domain, to train or to evaluate on; arrays that are not used are never sent to the device."""

    domain: Domain
    rows: Indices
    device: str
    on_host: bool = True  # keep images on the host

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
        return _chances(self.domain.labels[self.rows])


def column_scales(parts: Sequence[Part]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the mean and the standard deviation of each column of a table; 1 where a column never changes."""
    rows = [part.domain.images[part.rows] for part in parts]
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
    ) -> None:
        self.recipe: Augmentation = augmentation(recipe, size, mean, std)
        # For minibatches, which have one shape; the batches of an evaluation have many.
        self.pixels: Pixels = compiler(self.recipe.pixels)
        self.random = recipe != "none"

    def training(self, parts: Sequence[Part], chosen: Sequence[Chosen], generator: torch.Generator) -> Tensor:
        """Return the chosen images of several parts, augmented, as one batch."""
        return self._augmented(parts, chosen, generator, self.pixels)

    def validation(self, part: Part, rows: Chosen, generator: torch.Generator) -> Tensor:
        """Return the chosen images of one part, augmented as in training."""
        return self._augmented([part], [rows], generator, self.recipe.pixels)

    def _augmented(
        self,
        parts: Sequence[Part],
        chosen: Sequence[Chosen],
        generator: torch.Generator,
        pixels: Pixels,
    ) -> Tensor:
        if not self.random:
            return self.recipe.plain(torch.cat([part.images[rows] for part, rows in zip(parts, chosen, strict=True)]))
        shapes = torch.cat([part.shapes[rows.host] for part, rows in zip(parts, chosen, strict=True)])
        params = self.recipe.parameters(len(shapes), shapes, generator)
        if parts[0].domain.originals is not None:
            return self.recipe.ragged(_originals(parts, chosen), params).to(parts[0].device)
        images = torch.cat([part.images[rows] for part, rows in zip(parts, chosen, strict=True)])
        return self.recipe.apply_with(pixels, images, params)

    def plain(self, part: Part, rows: Chosen) -> Tensor:
        """Return the chosen images of one part as they are, for evaluation."""
        return self.recipe.plain(part.evaluation[rows])


def _originals(parts: Sequence[Part], chosen: Sequence[Chosen]) -> list[Tensor]:
    return [
        torch.from_numpy(part.domain.originals[int(part.rows[row])])
        for part, rows in zip(parts, chosen, strict=True)
        if part.domain.originals is not None
        for row in rows.host
    ]


class Feed:
    """Draw minibatches of the source domains, with replacement.

    Every domain has its own generator, so that no domain's draws depend on another's. They are on the host: the same
    seed draws the same images whatever the device. ``pooled`` draws every minibatch from all sources together.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        inputs: Inputs,
        batch: int,
        seed: int,
        *,
        balanced: bool = False,
        pooled: bool = False,
    ) -> None:
        self.parts, self.inputs, self.batch, self.balanced, self.pooled = list(parts), inputs, batch, balanced, pooled
        self.sampling = [torch.Generator().manual_seed(seed_hash(seed, "sampling", i)) for i in range(len(parts))]
        self.augmenting = torch.Generator().manual_seed(seed_hash(seed, "augmentation"))

    def draw(self, times: int = 1) -> list[Batch] | list[list[Batch]]:
        """Return one minibatch per domain, or a list of ``times`` of them per domain where that is above one."""
        drawn = [self._choose(i) for i in range(len(self.parts)) for _ in range(times)]
        pieces = [piece for minibatch in drawn for piece in minibatch]
        parts = [self.parts[i] for i, _ in pieces]
        rows = Chosen.of([chosen for _, chosen in pieces], parts[0].device)
        x = self.inputs.training(parts, rows, self.augmenting)
        y = torch.cat([part.labels[chosen.device] for part, chosen in zip(parts, rows, strict=True)])
        batches = list(zip(torch.split(x, self.batch), torch.split(y, self.batch), strict=True))
        return batches if times == 1 else [batches[i : i + times] for i in range(0, len(batches), times)]

    def state_dict(self) -> dict[str, Any]:
        """Return the states of all generators, which continue the draws exactly."""
        return {
            "sampling": [generator.get_state() for generator in self.sampling],
            "augmenting": self.augmenting.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from the states that :meth:`state_dict` returned."""
        for generator, saved in zip(self.sampling, state["sampling"], strict=True):
            generator.set_state(saved)
        self.augmenting.set_state(state["augmenting"])

    def _choose(self, i: int) -> list[tuple[int, Tensor]]:
        """Pairs of a domain and rows of it, together one minibatch."""
        if not self.pooled:
            return [(i, self._rows(self.parts[i], self.sampling[i]))]
        ends = np.cumsum([0, *(len(part) for part in self.parts)])
        chances = self.chances if self.balanced else None
        drawn = _draw_rows(int(ends[-1]), chances, self.batch, self.sampling[i])
        inside = [(k, drawn[(drawn >= a) & (drawn < b)] - a) for k, (a, b) in enumerate(pairwise(ends.tolist()))]
        return [(k, rows) for k, rows in inside if len(rows)]

    @cached_property
    def chances(self) -> Tensor:
        """The chance of each image of all parts together, so that every class is drawn equally often."""
        return _chances(np.concatenate([part.domain.labels[part.rows] for part in self.parts]))

    def _rows(self, part: Part, generator: torch.Generator) -> Tensor:
        return _draw_rows(len(part), part.chances if self.balanced else None, self.batch, generator)


def _chances(labels: Labels) -> Tensor:
    return torch.from_numpy(1.0 / np.bincount(labels)[labels])


def _draw_rows(size: int, chances: Tensor | None, count: int, generator: torch.Generator) -> Tensor:
    if chances is None:
        return torch.randint(size, (count,), generator=generator)
    return torch.multinomial(chances, count, replacement=True, generator=generator)


def batches(part: Part, inputs: Inputs, generator: torch.Generator | None = None) -> Iterator[Batch]:
    """Yield a part from start to end, to evaluate; with a generator, augmented as in training."""
    for start in range(0, len(part), EVALUATION_BATCH):
        (rows,) = Chosen.of([torch.arange(start, min(start + EVALUATION_BATCH, len(part)))], part.device)
        x = inputs.plain(part, rows) if generator is None else inputs.validation(part, rows, generator)
        yield x, part.labels[start : start + EVALUATION_BATCH]
