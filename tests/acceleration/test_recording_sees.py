"""A recording sees whatever an author may keep a number in that changes: with each, replaying is the same training."""

from __future__ import annotations

import argparse
import array
import collections
import functools
import sys
import types
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from test_recording import compared, trained
from torch import nn
from torch.nn import functional as F

from domainwise import testing
from domainwise.acceleration.watching import Notes
from domainwise.algorithms import Algorithm
from domainwise.testing import check_replayed_training_is_training

NOW = [1.0]


class Rates:
    """Its attribute stands in the class until somebody sets another."""

    rate = 1.0
    shared: ClassVar[float] = 1.0

    def of_the_module(self) -> float:
        return NOW[0]

    def of_the_class(self) -> float:
        return type(self).shared

    @property
    def as_property(self) -> float:
        return NOW[0]

    def __call__(self) -> float:
        return NOW[0]


class Hidden:
    __slots__ = ("__rate",)

    def __init__(self) -> None:
        self.__rate = 1.0

    def set(self, rate: float) -> None:
        self.__rate = rate

    def get(self) -> float:
        return self.__rate


class Scale(nn.Module):
    shared = 1.0

    def __init__(self) -> None:
        super().__init__()
        self._rate = 1.0

    def forward(self) -> float:
        return self._rate * NOW[0] * self.shared


class Table(dict[str, float]):
    rate: float


def with_a_default(state: dict[str, float] = {"rate": 1.0}) -> float:  # noqa: B006
    return state["rate"]


def with_an_attribute() -> float:
    return with_an_attribute.rate  # type: ignore[attr-defined]


def scheduler() -> torch.optim.lr_scheduler.LRScheduler:
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)


def stepped(one: Any, rate: float) -> None:
    one.optimizer.step()
    one.step()


def table() -> Table:
    one = Table()
    one.rate = 1.0
    return one


def reads_a_module(one: Any) -> float:
    import made_rates

    return made_rates.rate


def put(name: Any) -> Callable[[Any, float], None]:
    return lambda one, rate: setattr(one, name, rate)


def now(one: Any, rate: float) -> None:
    NOW[0] = rate


HELD: dict[str, tuple[Callable[[], Any], Callable[[Any, float], None], Callable[[Any], float]]] = {
    "a class's attribute set on the object": (Rates, put("rate"), lambda one: one.rate),
    "an attribute that comes late": (Rates, put("late"), lambda one: getattr(one, "late", 1.0)),
    "a class's attribute": (Rates, lambda one, rate: setattr(Rates, "shared", rate), lambda one: one.of_the_class()),
    "a global that a helper's method names": (Rates, now, lambda one: one.of_the_module()),
    "a global that a helper's property names": (Rates, now, lambda one: one.as_property),
    "a helper made in the step": (Rates, now, lambda one: Rates()()),
    "a class for a helper": (lambda: Rates, put("shared"), lambda one: one.shared),
    "a slot with two underscores": (Hidden, lambda one, rate: one.set(rate), lambda one: one.get()),
    "a private attribute of a module": (Scale, put("_rate"), lambda one: one()),
    "a global in forward": (Scale, now, lambda one: one()),
    "a class's attribute set on a module": (Scale, put("shared"), lambda one: one()),
    "dropout that was none": (lambda: nn.Dropout(0), put("p"), lambda one: 1.0 - one.p),
    "a dict with attributes": (table, put("rate"), lambda one: one.rate),
    "options": (lambda: argparse.Namespace(rate=1.0), put("rate"), lambda one: one.rate),
    "a UserDict": (collections.UserDict, lambda one, rate: one.update(r=rate), lambda one: one.get("r", 1.0)),
    "an array": (lambda: array.array("d", [1.0]), lambda one, rate: one.__setitem__(0, rate), lambda one: one[0]),
    "a bytearray": (lambda: bytearray([9]), lambda one, rate: one.__setitem__(0, int(9 * rate)), lambda one: one[0]),
    "a default": (
        lambda: with_a_default,
        lambda one, rate: one.__defaults__[0].update(rate=rate),
        lambda one: one(),
    ),
    "a function's attribute": (lambda: with_an_attribute, put("rate"), lambda one: one()),
    "a module imported where it is needed": (
        lambda: None,
        lambda one, rate: setattr(sys.modules["made_rates"], "rate", rate),
        reads_a_module,
    ),
    "a global in a cached function": (
        lambda: functools.cache(lambda: NOW[0]),
        lambda one, rate: (now(one, rate), one.cache_clear()),
        lambda one: one(),
    ),
    "a dict seen through a proxy": (lambda: types.MappingProxyType({"now": NOW}), now, lambda one: one["now"][0]),
    "a global by its name": (lambda: None, now, lambda one: globals()["NOW"][0]),
}


def keeping(make: Callable[[], Any], put: Callable[[Any, float], None], get: Callable[[Any], float]) -> type[Algorithm]:
    class Keeping(Algorithm):
        def setup(self, net, *, seed=None):
            self.held = make()
            put(self.held, 1.0)
            return super().setup(net, seed=seed)

        def prepare(self, batches):
            put(self.held, 1.0 if self.updates < 9 else 0.25)

        def loss(self, batches):
            return super().loss(batches) * get(self.held)

    return Keeping


@pytest.mark.parametrize("kind", HELD)
def test_a_number_that_changes_once_is_seen_wherever_it_is_kept(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "made_rates", types.ModuleType("made_rates"))
    monkeypatch.setattr(Rates, "shared", 1.0)
    update, said = compared(keeping(*HELD[kind]), steps=16)
    assert (update.made, said) == (2, [])


def test_a_rate_that_a_scheduler_changes_every_time_runs_as_it_is() -> None:
    _, said = compared(keeping(scheduler, stepped, lambda one: one.get_last_lr()[0]))
    assert "goes on changing, and self.held" in said[0]


def test_what_a_step_counts_on_its_class_is_counted_and_not_recorded() -> None:
    def counting() -> type[Algorithm]:
        class Counting(Algorithm):
            count = 0

            def loss(self, batches):
                type(self).count += 1
                return super().loss(batches) / type(self).count

        return Counting

    (_, _, expected, _), (one, _, found, said) = (trained(counting(), recorded) for recorded in (False, True))
    assert found == expected
    assert type(one).count == 20
    assert "step sets" in said[0]


def test_a_metric_that_is_no_tensor_runs_as_it_is_and_is_named() -> None:
    class Plainly(Algorithm):
        def step(self, batches):
            return {**super().step(batches), "weight": torch.ones(()) if self.updates > 90 else 0.5}

    update = trained(Algorithm, True, steps=1)[1]
    one = type(update)(trained(Plainly, False, steps=0)[0], (said := []).append, update.recorder)
    assert [one(testing._batches(one.algorithm, i))["weight"] for i in range(6)] == [0.5] * 6
    assert "returns a float for 'weight'" in said[0]


def test_a_list_that_holds_itself_runs_as_it_is() -> None:
    def circle() -> list[Any]:
        one: list[Any] = [1.0]
        one.append(one)
        return one

    _, said = compared(keeping(circle, lambda one, rate: one.__setitem__(0, rate), lambda one: one[0]))
    assert "self.held holds itself" in said[0]


def test_tensors_kept_by_other_keys_than_texts_are_each_looked_at() -> None:
    parameters = [nn.Parameter(torch.ones(())) for _ in range(3)]
    held = {parameter: torch.ones(()) for parameter in parameters}
    notes = Notes(torch.device("cpu"))
    notes.note("held", {"held": held}.get, "held")
    assert notes.changed() == ""
    held[parameters[1]].data = torch.ones(())
    assert notes.changed() == "held has been given other memory"


@pytest.mark.parametrize(
    "use",
    [
        lambda z, y: (F.one_hot(y, 2) * z).mean(),
        lambda z, y: (torch.eye(2)[y] * z).mean(),
        lambda z, y: (z[torch.arange(len(z)).flip(0)] * z).mean(),
        lambda z, y: z[torch.arange(len(z)), y].mean(),
    ],
    ids=["one_hot", "eye", "pairs", "own class"],
)
def test_what_a_gpu_can_record_passes_the_check(use: Callable[..., torch.Tensor]) -> None:
    class Picks(Algorithm):
        def loss(self, batches):
            logits, y = self.net(torch.cat([x for x, _ in batches])), torch.cat([y for _, y in batches])
            return super().loss(batches) + use(logits, y)

    check_replayed_training_is_training(Picks, {})


def test_a_tensor_printed_into_a_text_is_read_on_the_host() -> None:
    class Prints(Algorithm):
        def loss(self, batches):
            loss = super().loss(batches)
            return loss * len(repr(loss))

    assert "(.__repr__())" in trained(Prints, True)[3][0]
