"""The averagers beside one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from domainwise.averaging._spec import averagers


class Averages:
    """None, one or several of them, by name, as a text says. Each is told the same and knows of no other."""

    def __init__(self, text: str) -> None:
        self.each = averagers(text)

    def update(self, params: Sequence[Tensor], step: int) -> None:
        for one in self.each.values():
            one.update(params, step)

    def evaluated(self, step: int, validation_loss: float) -> None:
        for one in self.each.values():
            one.evaluated(step, validation_loss)

    def ready(self, last: bool) -> Iterator[tuple[str, list[Tensor]]]:
        """Those to look at now, one after the other, with their weights."""
        for name, one in self.each.items():
            if (last or not one.at_the_end) and (weights := one.weights()) is not None:
                yield name, weights

    def state_dict(self) -> dict[str, Any]:
        return {name: one.state_dict() for name, one in self.each.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if "scalars" in state:  # of a time when there was one at most, and this is its state
            state = dict.fromkeys(self.each, state)
        for name, one in self.each.items():
            one.load_state_dict(state[name])
