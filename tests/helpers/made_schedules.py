"""Algorithms that a recording would get wrong if nobody looked, and the kind of word that says why."""

from __future__ import annotations

import random
from itertools import count
from types import SimpleNamespace

import numpy as np
import torch
from torch.nn import functional as F

from domainwise import MetaOptimizer
from domainwise.algorithms import Algorithm, algorithm, hyper

RATES = SimpleNamespace(now=0.0)
SEEN = 0


class Helper:
    __slots__ = ("rate",)

    def __init__(self) -> None:
        self.rate = 0.0


@algorithm
class Slacken(Algorithm):
    """As the docs once printed it."""

    memory = ("spread",)

    decay: float = hyper(0.9, least=0, below=1)

    def setup(self, net, *, seed=None):
        self.spread = 1.0
        self.weights = None
        return super().setup(net, seed=seed)

    def prepare(self, batches):
        self.spread *= self.decay
        self.weights = 1 + self.spread * torch.rand(len(batches), generator=self.generator)

    def loss(self, batches):
        weights = [1.0] * len(batches) if self.weights is None else self.weights.tolist()
        return sum(w * super(Slacken, self).loss([batch]) for w, batch in zip(weights, batches, strict=False)) / len(
            batches
        )


@algorithm
class Branch(Algorithm):
    def loss(self, batches):
        return super().loss(batches) * (0.1 if self.updates < 9 else 3.0)


@algorithm
class NewTensor(Algorithm):
    def prepare(self, batches):
        self.weight = torch.rand((), generator=self.generator, device="cpu").to(self.device)

    def loss(self, batches):
        return super().loss(batches) * getattr(self, "weight", 1.0)


@algorithm
class Counts(Algorithm):
    """A counter of its own, in the step."""

    def setup(self, net, *, seed=None):
        self.count = 0
        return super().setup(net, seed=seed)

    def loss(self, batches):
        self.count += 1
        return super().loss(batches) / self.count


@algorithm
class CountsInside(Algorithm):
    """The same in a list."""

    def setup(self, net, *, seed=None):
        self.losses = [1.0]
        return super().setup(net, seed=seed)

    def loss(self, batches):
        self.losses.append(self.losses[-1] + 1)
        return super().loss(batches) / len(self.losses)


@algorithm
class Keeps(Algorithm):
    """The loss before, as another tensor every time."""

    def setup(self, net, *, seed=None):
        self.before = torch.ones((), device=next(net.parameters()).device)
        return super().setup(net, seed=seed)

    def loss(self, batches):
        loss = super().loss(batches)
        loss = loss * self.before
        self.before = loss.detach()
        return loss


@algorithm
class PythonDraws(Algorithm):
    def loss(self, batches):
        return super().loss(batches) * (1 + random.random())


@algorithm
class NumpyDraws(Algorithm):
    def loss(self, batches):
        return super().loss(batches) * (1 + np.random.rand())


@algorithm
class OwnNumpyDraws(Algorithm):
    def setup(self, net, *, seed=None):
        self.numbers = np.random.default_rng(0)
        return super().setup(net, seed=seed)

    def loss(self, batches):
        return super().loss(batches) * (1 + float(self.numbers.random()))


@algorithm
class OwnGenerator(Algorithm):
    def loss(self, batches):
        return super().loss(batches) * torch.rand((), generator=self.generator).to(self.device)


@algorithm
class Shuffles(Algorithm):
    """A walk whose order is drawn in the step."""

    def legs(self, batches):
        return [[batch] for batch in batches]

    def stepper(self):
        return MetaOptimizer(self.adam(), inner_lr=0.1, generator=self.order)

    def step(self, batches):
        return {"loss": self.optimizer.step(self.loss, self.legs(batches)).mean()}


@algorithm
class Iterates(Algorithm):
    def setup(self, net, *, seed=None):
        self.numbers = count(1)
        return super().setup(net, seed=seed)

    def loss(self, batches):
        return super().loss(batches) / next(self.numbers)


@algorithm
class Global(Algorithm):
    def prepare(self, batches):
        global SEEN
        SEEN += 1

    def loss(self, batches):
        return super().loss(batches) * SEEN


@algorithm
class Namespace(Algorithm):
    def prepare(self, batches):
        RATES.now += 1.0

    def loss(self, batches):
        return super().loss(batches) * RATES.now


@algorithm
class Closure(Algorithm):
    def setup(self, net, *, seed=None):
        weight = 0.0

        def more():
            nonlocal weight
            weight += 0.5

        self.more, self.weigh = more, lambda loss: loss * weight
        return super().setup(net, seed=seed)

    def prepare(self, batches):
        self.more()

    def loss(self, batches):
        return self.weigh(super().loss(batches))


@algorithm
class OnTheClass(Algorithm):
    factor = 1.0

    def prepare(self, batches):
        OnTheClass.factor += 1.0

    def loss(self, batches):
        return super().loss(batches) * OnTheClass.factor


@algorithm
class Slots(Algorithm):
    def setup(self, net, *, seed=None):
        self.helper = Helper()
        return super().setup(net, seed=seed)

    def prepare(self, batches):
        self.helper.rate += 1.0

    @property
    def rate(self):
        return self.helper.rate

    def loss(self, batches):
        return super().loss(batches) * self.rate


@algorithm
class Nested(Algorithm):
    def setup(self, net, *, seed=None):
        self.plan = {"weights": [1.0, 1.0]}
        return super().setup(net, seed=seed)

    def prepare(self, batches):
        self.plan["weights"][1] *= 1.1

    def loss(self, batches):
        return super().loss(batches) * self.plan["weights"][1]


@algorithm
class Rate(Algorithm):
    """A learning rate as a number in the optimizer's groups."""

    def prepare(self, batches):
        self.optimizer.outer.param_groups[0]["lr"] = 1e-2 / (1 + self.updates)


@algorithm
class InnerRate(Shuffles):
    def stepper(self):
        return MetaOptimizer(self.adam(), inner_lr=0.1, shuffle=False, generator=self.order)

    def prepare(self, batches):
        self.optimizer.inner_lr = 0.1 / (1 + self.updates)


@algorithm
class Data(Algorithm):
    """Parameters given other memory."""

    def prepare(self, batches):
        for p in self.net.parameters():
            p.data = 0.99 * p.data


@algorithm
class Freezes(Algorithm):
    def prepare(self, batches):
        self.net.featurizer.requires_grad_(self.updates % 2 == 0)


@algorithm
class Dropout(Algorithm):
    def prepare(self, batches):
        self.net.dropout.p = 0.5 if self.updates > 6 else 0.0


@algorithm
class Reads(Algorithm):
    def loss(self, batches):
        loss = super().loss(batches)
        return loss * 2 if loss > 0.5 else loss


@algorithm
class Picks(Algorithm):
    """Only the samples whose loss is large."""

    def loss(self, batches):
        losses = torch.cat([F.cross_entropy(self.net(x), y, reduction="none") for x, y in batches])
        return losses[losses > losses.detach().mean()].mean()


@algorithm
class NonZero(Algorithm):
    def loss(self, batches):
        losses = torch.cat([F.cross_entropy(self.net(x), y, reduction="none") for x, y in batches])
        return losses.index_select(0, (losses > losses.detach().mean()).nonzero().flatten()).mean()


@algorithm
class Plain(Algorithm):
    pass


@algorithm
class Turns(Algorithm):
    """Two kinds of updates in turn, and a third from the 10th on."""

    @property
    def phase(self):
        return "late" if self.updates > 9 else self.updates % 2

    def loss(self, batches):
        loss = super().loss(batches)
        return -0.1 * loss if self.phase == 1 else loss * (self.phase == "late" or 0.5)


@algorithm
class Steps(Algorithm):
    """A weight that rises now and then, a plain number."""

    def prepare(self, batches):
        self.weight = 1.0 + self.updates // 20

    def loss(self, batches):
        return self.weight * super().loss(batches)


@algorithm
class InPlace(Algorithm):
    """Random weights, less and less so, as it should be written."""

    memory = ("spread",)

    def setup(self, net, *, seed=None):
        super().setup(net, seed=seed)
        self.spread = 1.0
        self.weights = torch.ones(3, device=self.device)
        return self

    def prepare(self, batches):
        self.spread *= 0.9
        self.weights.copy_(1 + self.spread * torch.rand(3, generator=self.generator))

    def loss(self, batches):
        return torch.stack([super(InPlace, self).loss([one]) for one in batches]) @ self.weights[: len(batches)]


@algorithm
class LooksAtGradients(Algorithm):
    """Weighs by the gradients of the update before."""

    @property
    def phase(self):
        return self.updates % 2

    def setup(self, net, *, seed=None):
        super().setup(net, seed=seed)
        self.weight = torch.ones((), device=self.device)
        return self

    def prepare(self, batches):
        last = [p.grad for p in self.net.parameters() if p.grad is not None]
        self.weight.copy_(sum((g.abs().sum() for g in last), self.weight.new_zeros(())))

    def loss(self, batches):
        return super().loss(batches) * (self.weight + 1 + self.phase)


HOST = "step reads a tensor on the host"
WRONG = {  # on a CPU; a GPU says some of it in CUDA's words
    Slacken: HOST + r" \(.tolist\(\)\) in made_schedules.py, line \d+",
    Branch: r"self.updates was \d+ and is now \d+",
    NewTensor: "self.weight was another tensor",
    Counts: r"step sets self.count \(it was 3 and is 4\)|step sets self.count \(it was 2 and is 3\)",
    CountsInside: r"step itself changes what it reads, .*: self.losses was",
    Keeps: "step sets self.before",
    PythonDraws: "step draws from Python's random",
    NumpyDraws: "step draws from numpy's random",
    OwnNumpyDraws: "step draws from self.numbers",
    OwnGenerator: "step draws from its own generator in made_schedules.py",
    Shuffles: "step draws from|step reads a tensor on the host",
    Iterates: "step takes from self.numbers, an iterator",
    Global: "made_schedules.SEEN was",
    Namespace: "RATES.now was",
    Closure: "weight in Closure.setup",
    OnTheClass: "OnTheClass.factor was",
    Slots: "self.helper.rate was",
    Nested: "self.plan was",
    Rate: r"param_groups\[0\]\['lr'\] was",
    InnerRate: "self.optimizer.inner_lr was",
    Data: r"\['params'\]\[0\] has been given other memory",
    Freezes: "has been frozen or set free",
    Reads: HOST + r" \(bool\(\)\)",
    Picks: "whose shape depends on numbers",
    NonZero: "whose shape depends on numbers",
}
