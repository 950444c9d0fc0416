"""Base of all algorithms: a dataclass of hyperparameters, a loss, and an update."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import torch
from torch import Tensor

from domainwise.algorithms._checks import check_batches, check_network, numbers
from domainwise.algorithms._hyper import hyper, hypers, written
from domainwise.algorithms._outer import Outer
from domainwise.errors import InputError
from domainwise.losses import Batch, cross_entropy, in_parts
from domainwise.meta.combine import constant
from domainwise.meta.optimizer import MetaOptimizer
from domainwise.meta.ranks import check_alone
from domainwise.networks.network import Network
from domainwise.networks.samples import Samples
from domainwise.seeds import seed_hash


@dataclass(eq=False, repr=False, kw_only=True)
class Algorithm:
    """Base of all algorithms: ``setup`` gives it a network, ``update`` trains it, ``predict`` answers.

    An author overrides one or more of five members, most only the first:

    - :meth:`loss` of the minibatches of a leg;
    - :meth:`legs`, which deals the minibatches of the domains into legs;
    - :meth:`stepper`, which says how the legs are walked and combined (for a subclass of ``Walk``: ``weights``);
    - :meth:`prepare`, what is random or changes from update to update, with ``memory`` and :attr:`phase`;
    - :meth:`step`, what the device does in an update beyond a loss.

    The other attributes state facts, such as ``halves`` and ``linear`` on the network it needs.
    """

    name: ClassVar[str] = ""
    halves: ClassVar[bool] = False  # whether it calls net.features and net.logits
    linear: ClassVar[bool] = False  # ... and needs net.head to be a nn.Linear
    samplewise: ClassVar[bool] = False  # whether the loss of a leg is a mean over its samples, each on its own
    leg_parts: ClassVar[int] = 1  # see :meth:`take_parts`; an object may have its own
    matches_features: ClassVar[bool] = False  # whether all it adds to the cross-entropy is about the features
    extra_channels: ClassVar[int] = 0  # input channels the network must have beyond those of the images
    outer_settings: ClassVar[Outer] = Outer()  # of a trial; an object may have its own
    memory: ClassVar[tuple[str, ...]] = ()  # names of its own attributes that a run needs to go on
    recalled: ClassVar[tuple[str, ...]] = ()  # ... and those of them that a saved model needs to predict
    class_weights: ClassVar[Tensor | None] = None  # for losses.risk; an object may have its own

    lr: float = hyper(5e-5, above=0)
    weight_decay: float = hyper(0.0, least=0)

    def __post_init__(self) -> None:
        for field, about in hypers(type(self)).values():
            setattr(self, field.name, about.check(self.name, field, getattr(self, field.name)))

    def __repr__(self) -> str:
        return written(
            self.name, {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        )

    @property
    def fresh(self) -> int:
        """Return the number of minibatches of each domain that one update takes."""
        return 1

    @property
    def draws(self) -> int:
        """Return :attr:`fresh` by another name, unless a hyperparameter is called so."""
        return self.fresh

    @property
    def pooled(self) -> bool:
        """Whether every minibatch is drawn from all source domains together instead of from one."""
        return False

    @property
    def uncapturable(self) -> str:
        """Say why its step cannot be recorded in a CUDA graph; empty if it can."""
        return ""

    @property
    def phase(self) -> Hashable:
        """Return a value that differs between kinds of updates: a GPU records the step once for each."""
        return None

    def setup(self, net: Network, *, seed: int | None = None) -> Self:
        """Take a network to train. ``seed`` is for the algorithm's own randomness; None takes torch's."""
        check_network(self.name, net, halves=self.halves, linear=self.linear)
        seed = torch.initial_seed() if seed is None else seed
        self.net = net
        self.updates = 0
        self.domains: tuple[int, ...] = ()  # that the minibatches at hand are from, as numbers among all sources
        self.named = False  # whether update was told so
        self.generator = torch.Generator().manual_seed(seed_hash(seed, "algorithm"))
        self.order = torch.Generator().manual_seed(seed_hash(seed, "order"))
        self.optimizer = self.stepper()
        net.train()
        return self

    def loss(self, batches: Sequence[Batch]) -> Tensor:
        """Return the loss of one leg, without changing anything; here the mean cross-entropy of all its samples."""
        return cross_entropy(self.net, batches, self.class_weights)

    def legs(self, batches: Sequence[Any]) -> Sequence[Any]:
        """Deal one minibatch per domain into legs, each what :meth:`loss` takes; here all of them into one."""
        return [batches]

    def stepper(self) -> MetaOptimizer:
        """Make the optimizer that walks the legs and combines their gradients; here there is only one leg."""
        return MetaOptimizer(self.adam(), constant(), inner_lr=0.0, shuffle=False, generator=self.order)

    def adam(
        self, parameters: Iterable[Tensor] | None = None, *, lr: float | None = None, weight_decay: float | None = None
    ) -> torch.optim.Optimizer:
        """Make an Adam whose steps can be recorded; over the network it is the optimizer that the settings ask for."""
        outer = self.outer_settings if parameters is None else Outer()
        over = self.net.parameters() if parameters is None else parameters
        decay = self.weight_decay if weight_decay is None else weight_decay
        return outer.make(over, self.lr if lr is None else lr, decay, self.device)

    def update(self, batches: Sequence[Any], *, domains: Sequence[int] | None = None) -> dict[str, Tensor]:
        """Train on one minibatch per source domain (a list of ``fresh`` of them where that is above 1).

        Where only some take part ``domains`` says which, by numbers from 0; without it they are the first ones.
        """
        order = self._begin(batches, domains)
        return self._end(self.step([batches[i] for i in order]), order)

    def _begin(self, batches: Sequence[Any], domains: Sequence[int] | None = None) -> list[int]:
        """Do the host's part of an update; return the order in which :meth:`step` gets the batches."""
        self._needs_setup()
        check_alone(self.name)
        check_batches(self.name, batches, self.fresh, self.device)
        self.named = domains is not None
        self.domains = numbers(self.name, range(len(batches)) if domains is None else domains, len(batches))
        self.prepare(batches)
        self.outer_settings.set_rate(self.optimizer.outer, self.updates)
        if self.leg_parts > 1 and self.optimizer.split is None:
            self.optimizer.split = self._split
        order = self.optimizer.order(len(batches))
        self.domains = tuple(self.domains[i] for i in order)
        return order

    def take_parts(self, parts: int) -> None:
        """Compute every leg in so many parts, one after the other, which takes less memory and gives the same sum."""
        self.leg_parts = parts  # type: ignore[misc]  # its own

    def _split(self, leg: Sequence[Batch]) -> Iterable[tuple[float, Sequence[Batch]]]:
        return in_parts(leg, self.leg_parts)

    def _end(self, metrics: dict[str, Tensor], order: Sequence[int]) -> dict[str, Tensor]:
        """Count the update, and name the losses of the legs by the numbers of their domains, as they were given."""
        self.updates += 1
        if "leg0" in metrics:
            visits = enumerate(zip(order, self.domains, strict=True))
            legs = sorted((given, f"leg{domain}", metrics.pop(f"leg{i}")) for i, (given, domain) in visits)
            metrics |= {name: loss for _, name, loss in legs}
        return metrics

    def prepare(self, batches: Sequence[Any]) -> None:
        """Do the host's part of an update: draw what is random, change what depends on the updates made so far."""

    def step(self, batches: Sequence[Any]) -> dict[str, Tensor]:
        """Do the device's part of an update, the same every time: nothing in it waits for a number or draws one.

        The batches come in the order of the visits, and so do the numbers in ``self.domains``.
        """
        legs = self.legs(batches)
        losses = self.optimizer.step(self.loss, legs, order=range(len(legs)))
        each = {f"leg{i}": loss for i, loss in enumerate(losses)} if len(losses) > 1 else {}
        return {"loss": losses.mean(), **each}

    @torch.no_grad()
    def predict(self, x: Samples) -> Tensor:
        """Return the logits of inputs, one row each."""
        self._needs_setup()
        training = self.net.training
        self.net.eval()
        try:
            return self.answer(x)
        finally:
            self.net.train(training)

    def answer(self, x: Samples) -> Tensor:
        """Compute what :meth:`predict` returns; the network is in evaluation mode."""
        logits: Tensor = self.net(x)
        return logits

    def state_dict(self) -> dict[str, Any]:
        """Return everything that is needed to continue a run exactly."""
        self._needs_setup()
        return {
            "net": self.net.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "memory": {name: _state_of(getattr(self, name)) for name in ("updates", *self.memory)},
            **({"parts": self.leg_parts} if self.leg_parts > 1 else {}),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self._needs_setup()
        self.net.load_state_dict(state["net"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.take_parts(state.get("parts", 1))
        self.generator.set_state(state["generator"].cpu())  # a map_location moves it along with the rest
        for name, value in state["memory"].items():
            holder: Any = getattr(self, name, None)
            if hasattr(holder, "load_state_dict"):
                holder.load_state_dict(value)
            else:
                setattr(self, name, value.to(self.device, copy=True) if isinstance(value, Tensor) else value)

    @property
    def device(self) -> torch.device:
        """Return the device of the network."""
        return next(self.net.parameters()).device

    def _needs_setup(self) -> None:
        if not hasattr(self, "net"):
            raise InputError(f"{self!r} has no network yet: call setup(Network(featurizer, head)) first")


def _state_of(value: Any) -> Any:
    """Return the state of a network or an optimizer of an algorithm's own; anything else as it is."""
    return value.state_dict() if hasattr(value, "state_dict") else value


Kind = TypeVar("Kind", bound=type[Algorithm])


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(hyper,))
def algorithm(cls: Kind) -> Kind:
    """Make a subclass of :class:`Algorithm` an algorithm: a dataclass named after its class."""
    if not issubclass(cls, Algorithm):
        raise InputError(f"{cls.__name__} must inherit from domainwise.algorithms.Algorithm")
    cls.name = cls.__name__.lower()
    dataclass(eq=False, repr=False, kw_only=True)(cls)
    bare = [f.name for f in fields(cls) if "hyper" not in f.metadata]
    if bare:
        raise InputError(
            f"{cls.__name__}: write {bare[0]} as {bare[0]}: ... = hyper(default, draw), so that it can be set"
        )
    return cls
