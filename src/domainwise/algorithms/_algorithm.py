"""What every algorithm is: a dataclass of hyperparameters, a loss, and an update."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, fields
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import numpy as np
import torch
from torch import Tensor

from domainwise.algorithms._checks import check_batches, check_network
from domainwise.algorithms._hyper import Hyper, Value, hyper
from domainwise.errors import InputError, closest
from domainwise.losses import Batch, cross_entropy
from domainwise.meta.combine import constant
from domainwise.meta.optimizer import MetaOptimizer
from domainwise.meta.ranks import check_alone
from domainwise.networks.network import Network
from domainwise.seeds import seed_hash


@dataclass(eq=False, repr=False, kw_only=True)
class Algorithm:
    """Base of all algorithms. Most override only :meth:`loss`; one that walks also :meth:`legs` and :meth:`stepper`.

    ``setup`` gives it a network; from then on ``update`` trains and ``predict`` answers. An update is :meth:`prepare`,
    the host's part, then :meth:`step`, the device's.
    """

    name: ClassVar[str] = ""
    halves: ClassVar[bool] = False  # whether it takes net.features and net.logits apart
    linear: ClassVar[bool] = False  # ... and needs net.head to be a nn.Linear
    extra_channels: ClassVar[int] = 0  # input channels the network must have beyond those of the images
    memory: ClassVar[tuple[str, ...]] = ()  # attributes of its own that belong to the state, or have one
    recalled: ClassVar[tuple[str, ...]] = ()  # ... and those of them that a saved model predicts by

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
        """Minibatches of each domain that one update takes."""
        return 1

    @property
    def draws(self) -> int:
        """Another name for :attr:`fresh`, where no hyperparameter is called that."""
        return self.fresh

    @property
    def pooled(self) -> bool:
        """Whether minibatches are to be drawn from all source domains together instead of one domain each."""
        return False

    @property
    def uncapturable(self) -> str:
        """Why its step cannot be recorded in a CUDA graph, where it cannot."""
        return ""

    @property
    def phase(self) -> Hashable:
        """The kind of the next update, where several kinds follow each other: each has a recording of its own."""
        return None

    def setup(self, net: Network, *, seed: int | None = None) -> Self:
        """Take a network to train. ``seed`` is for the algorithm's own randomness; None takes torch's."""
        check_network(self.name, net, halves=self.halves, linear=self.linear)
        seed = torch.initial_seed() if seed is None else seed
        self.net = net
        self.updates = 0
        self.generator = torch.Generator().manual_seed(seed_hash(seed, "algorithm"))
        self.order = torch.Generator().manual_seed(seed_hash(seed, "order"))
        self.optimizer = self.stepper()
        net.train()
        return self

    def loss(self, batches: Sequence[Batch]) -> Tensor:
        """The loss of one leg; here the mean cross-entropy of all its samples."""
        return cross_entropy(self.net, batches)

    def legs(self, batches: Sequence[Any]) -> Sequence[Any]:
        """Deal one minibatch per domain into legs, each what :meth:`loss` takes; here all of them into one."""
        return [batches]

    def stepper(self) -> MetaOptimizer:
        return MetaOptimizer(self.adam(), constant(), inner_lr=0.0, shuffle=False, generator=self.order)

    def adam(
        self, parameters: Iterable[Tensor] | None = None, *, lr: float | None = None, weight_decay: float | None = None
    ) -> torch.optim.Adam:
        """An Adam that can be recorded, over the network or other parameters, by the hyperparameters or others."""
        on_gpu = self.device.type == "cuda"
        lr = self.lr if lr is None else lr
        return torch.optim.Adam(
            self.net.parameters() if parameters is None else parameters,
            lr=torch.tensor(lr, device=self.device) if on_gpu else lr,  # a graph reads it anew every time
            weight_decay=self.weight_decay if weight_decay is None else weight_decay,
            fused=True,
            capturable=on_gpu,
        )

    def update(self, batches: Sequence[Any]) -> dict[str, Tensor]:
        """One training step on one minibatch per source domain (a list of ``fresh`` of them where that is above 1)."""
        order = self.begin(batches)
        return self.end(self.step([batches[i] for i in order]), order)

    def begin(self, batches: Sequence[Any]) -> list[int]:
        """All of an update that is the host's; returns the order in which :meth:`step` is to be given the batches."""
        self._needs_setup()
        check_alone(self.name)
        check_batches(self.name, batches, self.fresh, self.device)
        self.prepare(batches)
        return self.visits(len(batches))

    def end(self, metrics: dict[str, Tensor], order: Sequence[int]) -> dict[str, Tensor]:
        """Count the update, and name the losses of the legs by the domains as they were given."""
        self.updates += 1
        if "leg0" not in metrics:
            return metrics
        return {**metrics, **{f"leg{i}": metrics[f"leg{order.index(i)}"] for i in range(len(order))}}

    def visits(self, n: int) -> list[int]:
        """The order in which an update takes the domains; one that walks draws it."""
        return list(range(n))

    def prepare(self, batches: Sequence[Any]) -> None:
        """The host's part of an update: draw what is random, change what depends on the number of updates so far."""

    def step(self, batches: Sequence[Any]) -> dict[str, Tensor]:
        """The device's part of an update, the same every time: nothing in it waits for a number or draws one."""
        losses = self.optimizer.step(self.loss, self.legs(batches))
        legs = {f"leg{i}": loss for i, loss in enumerate(losses)} if len(losses) > 1 else {}
        return {"loss": losses.mean(), **legs}

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        self._needs_setup()
        training = self.net.training
        self.net.eval()
        try:
            return self.answer(x)
        finally:
            self.net.train(training)

    def answer(self, x: Tensor) -> Tensor:
        """What :meth:`predict` gives, asked for in evaluation mode."""
        logits: Tensor = self.net(x)
        return logits

    def advice(self) -> str:
        """What to try when the loss stops being finite, to follow the word "try"."""
        return f"a smaller lr than {self.lr:g}"

    def state_dict(self) -> dict[str, Any]:
        """Everything that continues a run exactly."""
        self._needs_setup()
        return {
            "net": self.net.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "memory": {name: _state_of(getattr(self, name)) for name in ("updates", *self.memory)},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._needs_setup()
        self.net.load_state_dict(state["net"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"].cpu())  # a map_location moves it along with the rest
        for name, value in state["memory"].items():
            holder: Any = getattr(self, name, None)
            if hasattr(holder, "load_state_dict"):
                holder.load_state_dict(value)
            else:
                setattr(self, name, value.to(self.device, copy=True) if isinstance(value, Tensor) else value)

    @property
    def device(self) -> torch.device:
        return next(self.net.parameters()).device

    def _needs_setup(self) -> None:
        if not hasattr(self, "net"):
            raise InputError(f"{self!r} has no network yet: call setup(Network(featurizer, head)) first")


def _state_of(value: Any) -> Any:
    """The state of a network or an optimizer of an algorithm's own; anything else as it is."""
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


def hypers(cls: type[Algorithm]) -> dict[str, tuple[Field[Any], Hyper]]:
    return {field.name: (field, field.metadata["hyper"]) for field in fields(cls)}


def resolved(algorithm: Algorithm) -> dict[str, Value]:
    """All hyperparameters, as a trial keeps them: those added since its id was settled only where they differ."""
    own = {name: getattr(algorithm, name) for name in hypers(type(algorithm))}
    about = hypers(type(algorithm)).items()
    kept = {name for name, (field, hyper) in about if not hyper.added or own[name] != field.default}
    return {name: value for name, value in own.items() if name in kept}


def make(cls: type[Algorithm], settings: Mapping[str, Any]) -> Algorithm:
    known = hypers(cls)
    for name in settings:
        if name not in known:
            raise InputError(f'{cls.name} has no hyperparameter "{name}": {closest(name, known)}')
    return cls(**settings)


def draw(cls: type[Algorithm], seed: int) -> dict[str, Value]:
    """One draw of a random search. Each hyperparameter has its own generator: a new one shifts none of the rest."""
    return {
        name: about.draw(np.random.RandomState(seed_hash(seed, about.domainbed or name)))
        for name, (_, about) in hypers(cls).items()
        if about.draw is not None
    }


def written(name: str, settings: Mapping[str, Value]) -> str:
    """How an algorithm is written on the command line: ``arith(inner_steps=3)``, or just ``arith``."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in settings.items())})" if settings else name
