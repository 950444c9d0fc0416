"""Average densely over the valley of the validation loss: SWAD (Cha et al., 2021)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np
from torch import Tensor

from domainwise.averaging._averager import Averager, Mean, State, listed
from domainwise.errors import InputError


@dataclass(frozen=True, eq=False)
class Segment:
    """Hold the mean over the steps from one evaluation to the next, and the validation loss at its end.

    The mean waits on the CPU, where an evaluation, which waits for the device anyway, has time to bring it.
    """

    step: int
    loss: float  # infinite where it is not a number
    values: list[Tensor]


@dataclass(repr=False, eq=False)
class SWAD(Averager):
    """Average the segments inside the loss valley, each counting alike however many steps it has.

    Args:
        converge: the loss has converged when it is the lowest of this many evaluations, itself the first of them.
        tolerance: the valley ends where this many evaluations in a row lie above the threshold.
        ratio: the threshold is this much above the mean loss on convergence.
        compat: "khanrc" counts segments as the authors' code does: some of them twice or three times.
    """

    at_the_end = True

    converge: int = 3
    tolerance: int = 6
    ratio: float = 0.3
    compat: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._whole("converge", least=1)
        self._whole("tolerance", least=1)
        self._number("ratio")
        if self.compat not in (None, "khanrc"):
            raise InputError(f"{self!r}: compat must be None or 'khanrc'")
        self.threshold = math.inf
        self.converged_at: int | None = None  # the last step of the segment with the lowest loss
        self._segment = Mean()
        self._queue: deque[Segment] = deque(maxlen=max(self.converge, self.tolerance))

    def update(self, params: Iterable[Tensor], step: int) -> None:
        if not self.over:
            self._segment.add(params)

    def evaluated(self, step: int, validation_loss: float) -> None:
        if self.over:
            return
        if self._segment.count == 0:
            raise InputError(f"{self!r} heard of an evaluation at step {step} before any update since the last one")
        loss = float(validation_loss)
        self._queue.append(
            Segment(step, loss if math.isfinite(loss) else math.inf, [v.cpu() for v in self._segment.values])
        )
        self._segment = Mean()
        if self.converged_at is None:
            self._converge()
        elif self.compat:
            self._advance_khanrc(self.converged_at)
        else:
            self._advance()

    @property
    def ready(self) -> bool:
        return self.converged_at is not None or any(math.isfinite(segment.loss) for segment in self._queue)

    def weights(self) -> list[Tensor] | None:
        if self.converged_at is None:
            return next((s.values for s in reversed(self._queue) if math.isfinite(s.loss)), None)
        rest = self._tolerated()[1:] if self.compat else list(self._queue)
        while rest and rest[-1].loss > self.threshold:
            rest.pop()
        final = Mean(self._mean.values, self._mean.count)
        _count(rest, final)
        return final.values

    def _converge(self) -> None:
        window = list(self._queue)[-self.converge :]
        losses = [segment.loss for segment in window if math.isfinite(segment.loss)]
        if len(window) < self.converge or not losses or window[0].loss > min(losses):
            return
        self.threshold = float(np.mean(losses)) * (1 + self.ratio)
        self.converged_at = window[0].step
        head = self._tolerated()[: max(0, self.tolerance - self.converge + 1)]
        start = len(head)  # of the unbroken run within the threshold at the head's end
        while start > 0 and head[start - 1].loss <= self.threshold:
            start -= 1
        if self.compat:
            # The lowest segment holds the place until the first is counted, which is the run's second, not its first.
            self._mean = Mean(window[0].values, count=0)
            _count([*window[1 : 1 + max(0, self.converge - self.tolerance)], *head[start + 1 :]], self._mean)
            return
        for _ in range(start if start < len(head) else len(self._queue) - self.converge):
            self._queue.popleft()
        _count([self._queue.popleft()], self._mean)
        self._advance()

    def _advance(self) -> None:
        """Count every segment of which it is known that the valley does not end before it."""
        while len(self._queue) >= self.tolerance:
            if min(segment.loss for segment in islice(self._queue, self.tolerance)) > self.threshold:
                self._end()
                return
            _count([self._queue.popleft()], self._mean)

    def _advance_khanrc(self, converged_at: int) -> None:
        tolerated = self._tolerated()
        if tolerated[0].step < converged_at:
            return
        if min(segment.loss for segment in tolerated) > self.threshold:
            self._end()
        else:
            _count(tolerated[:1], self._mean)

    def _tolerated(self) -> list[Segment]:
        return list(self._queue)[-self.tolerance :]

    def _end(self) -> None:
        self.over = True
        self._queue.clear()

    def state_dict(self) -> State:
        state = super().state_dict()
        state["scalars"] |= {
            "over": self.over,
            "threshold": None if self.converged_at is None else self.threshold,
            "converged_at": self.converged_at,
            "segment": self._segment.count,
            "queue": [[s.step, s.loss if math.isfinite(s.loss) else None] for s in self._queue],
        }
        state["tensors"] |= self._segment.tensors("segment")
        for k, segment in enumerate(self._queue):
            state["tensors"] |= Mean(segment.values).tensors(f"queue.{k}")
        return state

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        scalars, tensors = state["scalars"], state["tensors"]
        self.over, self.converged_at = scalars["over"], scalars["converged_at"]
        self.threshold = math.inf if self.converged_at is None else scalars["threshold"]
        self._segment = Mean.load(tensors, "segment", scalars["segment"])
        self._queue.clear()
        for k, (step, loss) in enumerate(scalars["queue"]):
            values = [v.cpu() for v in listed(tensors, f"queue.{k}")]
            self._queue.append(Segment(step, math.inf if loss is None else loss, values))


def _count(segments: Iterable[Segment], mean: Mean) -> None:
    for segment in segments:
        if math.isfinite(segment.loss):  # where it is not, the parameters may not be either
            mean.add(segment.values)
