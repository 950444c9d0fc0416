"""Feed a network from arrays: minibatches to train on, and batches to evaluate."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from domainwise.data.batches.inputs import Inputs, Part, chances
from domainwise.data.batches.rows import Chosen
from domainwise.data.decoded.read_ahead import BATCHES, ahead
from domainwise.losses import Batch, joined
from domainwise.networks.samples import split
from domainwise.seeds import seed_hash

EVALUATION_BATCH = 256


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
        generator = self.sampling[0]
        if self.by == "uniform":
            return sorted(torch.randperm(len(self.parts), generator=generator)[: self.some].tolist())
        rows = torch.randint(int(self.ends[-1]), (2 * self.some,), generator=generator)
        drawn = [*dict.fromkeys(torch.searchsorted(self.ends, rows, right=True).tolist())][: self.some]
        if len(drawn) < self.some:  # a few domains have nearly all images
            others = self.sizes.double().index_fill_(0, torch.tensor(drawn), 0)
            drawn += torch.multinomial(others, self.some - len(drawn), generator=generator).tolist()
        return sorted(drawn)

    def _choose(self, i: int) -> list[tuple[int, Tensor]]:
        """Pairs of a domain and rows of it, together one minibatch."""
        generator = self.sampling[1 if self.some else i]
        if not self.pooled:
            return [(i, self._rows(self.parts[i], generator))]
        drawn = _draw_rows(int(self.ends[-1]), self.chances if self.balanced else None, self.batch, generator)
        owners = torch.searchsorted(self.ends, drawn, right=True)
        starts = self.ends - self.sizes
        return [(k, drawn[owners == k] - starts[k]) for k in sorted({*owners.tolist()})]

    @cached_property
    def sizes(self) -> Tensor:
        """The number of images of each part."""
        return torch.tensor([len(part) for part in self.parts])

    @cached_property
    def ends(self) -> Tensor:
        """The number of images of each part and of all before it."""
        return self.sizes.cumsum(0)

    @cached_property
    def chances(self) -> Tensor:
        """The chance of each image of all parts together, so that every class is drawn equally often."""
        return chances(np.concatenate([part.domain.labels[part.rows] for part in self.parts]))

    def _rows(self, part: Part, generator: torch.Generator) -> Tensor:
        return _draw_rows(len(part), part.chances if self.balanced else None, self.batch, generator)


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
