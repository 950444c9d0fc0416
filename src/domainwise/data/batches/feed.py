"""Feed a network from arrays: minibatches to train on, and batches to evaluate."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from domainwise.data.batches.augment import Augmentation, Pixels, augmentation
from domainwise.data.batches.own_transform import OwnTransform
from domainwise.data.batches.rows import Chosen, Rows
from domainwise.data.decoded.image import in_threads
from domainwise.data.decoded.read_ahead import BATCHES, Source, ahead
from domainwise.data.domains import Domain, Labels
from domainwise.data.splits import Indices
from domainwise.losses import Batch, joined
from domainwise.networks.samples import Samples, put_together, split
from domainwise.seeds import seed_hash

EVALUATION_BATCH = 256


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
        return _chances(self.domain.labels[self.rows])


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


class Drawn(NamedTuple):
    """The rows of one update, drawn before they are needed."""

    times: int
    before: list[Tensor]  # the states of the generators
    domains: list[int]  # that take part, by number
    parts: list[Part]
    rows: list[Chosen]


class Feed:
    """Draw minibatches of the source domains, with replacement.

    Every domain has its own generator, so that no domain's draws depend on another's. They are on the host: the same
    seed draws the same images whatever the device. ``pooled`` draws every minibatch from all sources together.

    With ``some`` only so many domains take part in an update, other ones each time: all equally often, or ``by`` size.
    Which they are is drawn by one generator and their rows by another, however many domains there are.
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
        some: int = 0,
        by: str = "uniform",
    ) -> None:
        self.parts, self.inputs, self.batch, self.balanced, self.pooled = list(parts), inputs, batch, balanced, pooled
        self.some, self.by = some, by
        streams = ("domains", "rows") if some else range(len(parts))
        self.sampling = [torch.Generator().manual_seed(seed_hash(seed, "sampling", of)) for of in streams]
        self.domains = list(range(len(parts)))  # of the minibatches drawn last
        self.augmenting = torch.Generator().manual_seed(seed_hash(seed, "augmentation"))
        self.ahead: deque[Drawn] = deque()

    def aside(self, seed: int) -> Feed:
        """Return a feed that draws such minibatches too, from another seed, so that no draw here depends on it."""
        how = {"balanced": self.balanced, "pooled": self.pooled, "some": self.some, "by": self.by}
        return Feed(self.parts, self.inputs, self.batch, seed, **how)  # type: ignore[arg-type]  # each as it is here

    def draw(self, times: int = 1) -> list[Batch] | list[list[Batch]]:
        """Return a minibatch of each domain that takes part, or where ``times`` is above one a list of as many."""
        if self.ahead and self.ahead[0].times != times:
            self._set(self.ahead[0].before)
        while len(self.ahead) <= self.many:
            self.ahead.append(self._next(times))
        _, _, self.domains, parts, rows = self.ahead.popleft()
        x = self.inputs.training(parts, rows, self.augmenting)
        y = torch.cat([part.labels[chosen.device] for part, chosen in zip(parts, rows, strict=True)])
        batches = list(zip(split(x, self.batch), torch.split(y, self.batch), strict=True))
        return batches if times == 1 else [batches[i : i + times] for i in range(0, len(batches), times)]

    @cached_property
    def many(self) -> int:
        """How many updates are drawn ahead of the next one, so that their images can be read meanwhile."""
        disk = self.inputs.source(self.parts[0])
        return 0 if disk is None else max(BATCHES, -(-disk.threads // (self.batch * (self.some or len(self.parts)))))

    def _next(self, times: int) -> Drawn:
        """Draw the rows of one update, and begin to read those that are on the disk."""
        before = self._states() if self.many else []
        domains = self._taking_part()
        drawn = [self._choose(i) for i in domains for _ in range(times)]
        pieces = [piece for minibatch in drawn for piece in minibatch]
        parts = [self.parts[i] for i, _ in pieces]
        rows = Chosen.of([chosen for _, chosen in pieces], parts[0].device)
        return Drawn(
            times, before, domains, parts, [self.inputs.begin(*both) for both in zip(parts, rows, strict=True)]
        )

    def _states(self) -> list[Tensor]:
        return [generator.get_state() for generator in self.sampling]

    def _set(self, states: Sequence[Tensor]) -> None:
        """Go on from states of the generators, without what was drawn ahead."""
        self.ahead.clear()
        for generator, state in zip(self.sampling, states, strict=True):
            generator.set_state(state)

    def state_dict(self) -> dict[str, Any]:
        """Return the states of all generators, which continue the draws exactly; what is drawn ahead is drawn again."""
        sampling = self.ahead[0].before if self.ahead else self._states()
        return {"sampling": sampling, "augmenting": self.augmenting.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from the states that :meth:`state_dict` returned."""
        self._set(state["sampling"])
        self.augmenting.set_state(state["augmenting"])

    def _taking_part(self) -> list[int]:
        """The numbers of the domains that the next minibatches are of, in their order."""
        if not self.some or self.pooled:
            return list(range(self.some or len(self.parts)))
        chances = self.sizes.double() if self.by == "size" else torch.ones(len(self.parts))
        drawn: list[int] = torch.multinomial(chances, self.some, generator=self.sampling[0]).tolist()
        return sorted(drawn)

    def _choose(self, i: int) -> list[tuple[int, Tensor]]:
        """Pairs of a domain and rows of it, together one minibatch."""
        generator = self.sampling[1 if self.some else i]
        if not self.pooled:
            return [(i, self._rows(self.parts[i], generator))]
        ends = self.sizes.cumsum(0)
        drawn = _draw_rows(int(ends[-1]), self.chances if self.balanced else None, self.batch, generator)
        owners = torch.searchsorted(ends, drawn, right=True)
        starts = ends - self.sizes
        return [(k, drawn[owners == k] - starts[k]) for k in sorted({*owners.tolist()})]

    @cached_property
    def sizes(self) -> Tensor:
        """The number of images of each part."""
        return torch.tensor([len(part) for part in self.parts])

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
    done = 0
    for rows in ahead(_in_order(part, inputs, plain=generator is None), BATCHES):
        x = inputs.plain(part, rows) if generator is None else inputs.validation(part, rows, generator)
        yield x, part.labels[done : done + len(rows.host)]
        done += len(rows.host)


def together(parts: Sequence[Part], inputs: Inputs, generator: torch.Generator | None = None) -> Iterator[Batch]:
    """Yield several parts as :func:`batches` does one, small ones in one batch."""
    waiting: list[Batch] = []
    for batch in (batch for part in parts for batch in batches(part, inputs, generator)):
        if waiting and sum(len(y) for _, y in (*waiting, batch)) > EVALUATION_BATCH:
            yield joined(waiting)
            waiting = []
        waiting.append(batch)
    if waiting:
        yield joined(waiting)


def _in_order(part: Part, inputs: Inputs, plain: bool) -> Iterator[Chosen]:
    for start in range(0, len(part), EVALUATION_BATCH):
        (rows,) = Chosen.of([torch.arange(start, min(start + EVALUATION_BATCH, len(part)))], part.device)
        yield inputs.begin(part, rows, plain=plain)
