"""The one training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from domainwise.algorithms import Algorithm, Spec
from domainwise.data.domains import Domain, Domains
from domainwise.data.sampling import Part, Sampler
from domainwise.data.splits import seed_hash, split
from domainwise.errors import InputError
from domainwise.evaluate import evaluate
from domainwise.network import build
from domainwise.records import Record
from domainwise.trial import Trial

LOG_EVERY = 10  # updates between two looks at the losses, which is where a device has to be waited for


class Diverged(ArithmeticError):  # noqa: N818  an outcome rather than a mistake
    """The loss stopped being finite."""

    def __init__(self, step: int, sentence: str) -> None:
        super().__init__(sentence)
        self.step = step


def run(
    trial: Trial, data: Domains, *, device: str = "cpu", tick: Callable[[int], None] | None = None
) -> Iterator[Record]:
    """Train on every domain but the targets, and yield a record at every evaluation.

    ``tick`` hears the number of updates made so far, now and then. Raises :class:`Diverged` where a loss is not finite.
    """
    sources = [domain.name for domain in data if domain.name not in trial.targets]
    parts = {domain.name: split_domain(trial, domain, i, device) for i, domain in enumerate(data)}
    # Dropout draws from the global generator; the caller's own stays as it was.
    with torch.random.fork_rng(devices=[device] if device != "cpu" else []):
        torch.manual_seed(seed_hash(trial.seed, "init"))
        net = build(trial.network, data.shape, len(data.classes)).to(device)
        algorithm = algorithm_of(trial).setup(net, seed=trial.seed)
        sampler = Sampler([parts[name].main for name in sources], trial.batch, trial.seed, pooled=algorithm.pooled)
        torch.manual_seed(seed_hash(trial.seed, "dropout"))

        started, losses = time.perf_counter(), Losses(trial, sources)
        for step in range(trial.steps):
            losses.keep(step, algorithm.update(sampler.draw(algorithm.draws)))
            evaluating = step % trial.evaluate_every == 0 or step == trial.steps - 1
            if evaluating or (step + 1) % LOG_EVERY == 0:
                losses.look()
                if tick is not None:
                    tick(step + 1)
            if evaluating:
                yield {
                    "step": step,
                    "seconds": time.perf_counter() - started,
                    "loss": losses.mean(),
                    "domains": {name: examine(algorithm, part, name in trial.targets) for name, part in parts.items()},
                }


@dataclass(frozen=True)
class Parts:
    """A domain in two: main to train on (or test on, for a target), holdout to select by."""

    main: Part
    holdout: Part


def split_domain(trial: Trial, domain: Domain, position: int, device: str) -> Parts:
    main, holdout = split(len(domain), trial.holdout, trial.seed, position)
    if len(holdout) == 0 or len(main) == 0:
        raise InputError(
            f'domain "{domain.name}" has {len(domain)} images, too few to hold out {trial.holdout:.0%} of them: '
            f"it takes at least {math.ceil(1 / trial.holdout)}"
        )
    images, labels = torch.from_numpy(domain.images[:]), torch.from_numpy(domain.labels)
    return Parts(*((images[keys].to(device), labels[keys].to(device)) for keys in (main, holdout)))


def examine(algorithm: Algorithm, parts: Parts, target: bool) -> dict[str, dict[str, float]]:
    """Selection needs a source's holdout; the result needs both parts of a target."""
    holdout = {"holdout": evaluate(algorithm, parts.holdout)}
    return {"main": evaluate(algorithm, parts.main), **holdout} if target else holdout


def algorithm_of(trial: Trial) -> Algorithm:
    return Spec(trial.algorithm, trial.hyperparameters, trial.file).create()


class Losses:
    """The losses since the last look, which stay on the device until then."""

    def __init__(self, trial: Trial, sources: list[str]) -> None:
        self.trial, self.sources = trial, sources
        self.waiting: list[tuple[int, dict[str, Tensor]]] = []
        self.seen: list[float] = []

    def keep(self, step: int, metrics: dict[str, Tensor]) -> None:
        self.waiting.append((step, metrics))

    def look(self) -> None:
        names = list(self.waiting[0][1])
        table = torch.stack([torch.stack([metrics[name] for name in names]) for _, metrics in self.waiting]).tolist()
        for (step, _), row in zip(self.waiting, table, strict=True):
            bad = [name for name, value in zip(names, row, strict=True) if not math.isfinite(value)]
            if bad:
                raise Diverged(step, self._sentence(step, bad))
            self.seen.append(row[names.index("loss")])
        self.waiting.clear()

    def mean(self) -> float:
        """Of the losses since the mean was last asked for."""
        mean = sum(self.seen) / len(self.seen)
        self.seen.clear()
        return mean

    def _sentence(self, step: int, bad: list[str]) -> str:
        algorithm = algorithm_of(self.trial)
        legs = [int(name.removeprefix("leg")) for name in bad if name.startswith("leg")]
        domain = f' (domain "{self.sources[legs[0]]}")' if legs and not algorithm.pooled else ""
        where = f" on leg {legs[0]}{domain}" if legs else ""
        return f"the loss stopped being finite at step {step}{where}: try {algorithm.advice()}"
