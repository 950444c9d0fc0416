"""The one training loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from domainwise.acceleration.cuda_graph import Update, prepare, updater
from domainwise.acceleration.device_lock import with_device_lock
from domainwise.acceleration.precision import arithmetic_units
from domainwise.acceleration.recording import Captured
from domainwise.algorithms import Algorithm
from domainwise.averaging import Averages, refresh_batch_norm, swapped_in
from domainwise.data.batches.feed import EVALUATION_BATCH, Feed, Inputs, Part, has_room
from domainwise.data.domains import Domains
from domainwise.data.splits import split_domain
from domainwise.experiment.records import DomainScores, Record
from domainwise.experiment.trial import Trial
from domainwise.networks.network import Network
from domainwise.saved_models.evaluation import Evaluation, begin
from domainwise.saved_models.keep import Keeper
from domainwise.saved_models.saved import algorithm_of, network_of, normalisation
from domainwise.seeds import seed_hash
from domainwise.training.checkpoints import Checkpoints, Stateful
from domainwise.training.loss_log import Losses
from domainwise.training.run_options import RunOptions

REFRESH = 100  # minibatches of every domain for the batch-norm statistics of an average
LOG_EVERY = 10  # updates between two glances at the losses

Parts = dict[str, tuple[Part, Part]]  # of every domain: main to train on (or test on, for a target), holdout


def run(
    trial: Trial,
    data: Domains,
    options: RunOptions = RunOptions(),  # noqa: B008  frozen
    *,
    tick: Callable[[int], None] = lambda step: None,
    keeper: Keeper | None = None,
    checkpoints: Checkpoints | None = None,
    say: Callable[[str], None] = lambda sentence: None,
) -> Generator[Record, None, None]:
    """Train on every domain but the targets, and yield a record at every evaluation.

    ``tick`` hears the number of updates made so far, now and then; ``keeper`` sees the model at every evaluation;
    ``checkpoints`` says where to go on from and saves what is needed for that, after a record has been taken.
    Raises :class:`~domainwise.training.loss_log.Diverged` where a loss is not finite.
    """
    # Dropout draws from the global generator; the caller's own stays as it was.
    with generators_kept(options.device), arithmetic_units(trial.precision, options.fast.deterministic):
        algorithm, update, feed, examiner = set_up(trial, data, options, say)
        keeper, checkpoints = keeper or Keeper(trial), checkpoints or Checkpoints()
        losses = Losses(trial, [part.domain.name for part in feed.parts])
        keeper.starts(algorithm, data, feed.inputs)
        averages, params = Averages(trial.average), list(algorithm.net.parameters())
        stateful: dict[str, Stateful] = {"algorithm": algorithm, "feed": feed, "examiner": examiner, "losses": losses}
        stateful |= {"keeper": keeper, "generators": GlobalGenerators(options.device)}
        first = checkpoints.restore({**stateful, "average": averages} if averages.each else stateful)
        if isinstance(update, Captured):
            update.forget()

        started = time.perf_counter() - checkpoints.seconds
        for step in range(first, trial.steps):
            losses.keep(step, with_device_lock(lambda: update(feed.draw(algorithm.fresh))))
            averages.update(params, step)
            keeper.after(step)
            last = step == trial.steps - 1
            evaluating = step % trial.evaluate_every == 0 or last
            if evaluating or (step + 1) % LOG_EVERY == 0:
                losses.look() if evaluating else losses.glance()
                tick(step + 1)
            if evaluating:
                seconds, loss = time.perf_counter() - started, losses.mean()
                record: Record = {"step": step, "seconds": seconds, "loss": loss, "domains": examiner.examine()}
                keeper.look("model", record, last)
                averages.evaluated(step, examiner.validation_loss(record))
                for name, averaged in averages.ready(last):
                    with averaged_in(trial, algorithm, averaged, feed):
                        found = record.setdefault("averages", {})[name] = examiner.examine(name)
                        keeper.look(name, {**record, "domains": found}, last)
                yield record
            if not last and checkpoints.due(evaluating):
                losses.look()
                checkpoints.save(time.perf_counter() - started)


def set_up(
    trial: Trial, data: Domains, options: RunOptions, say: Callable[[str], None]
) -> tuple[Algorithm, Update, Feed, Examiner]:
    """All that a run works with, every generator at its beginning."""
    device, fast = options.device, options.fast
    on_host = not has_room(data, device)
    if on_host and device != "cpu":
        say(f"the images of {data.name} stay in the host's memory: the GPU has too little free for them")
    if fast.compile and not fast.compiles(device) and device != "cpu":
        say("the network is not compiled, which takes longer: Triton is not installed")
    parts: Parts = {}
    for i, domain in enumerate(data):
        main, holdout = split_domain(domain, i, trial.holdout, trial.seed)
        parts[domain.name] = Part(domain, main, device, on_host), Part(domain, holdout, device, on_host)
    algorithm = algorithm_of(trial)

    def made() -> tuple[Network, Update]:
        torch.manual_seed(seed_hash(trial.seed, "init"))
        net = network_of(trial, algorithm, data.shape[-1], len(data.classes)).to(device)
        shape = (data.shape[-1] + algorithm.extra_channels, trial.input_size, trial.input_size)
        prepare(net, shape, precision=trial.precision, fast=fast, full=EVALUATION_BATCH)
        update = updater(algorithm.setup(net, seed=trial.seed), capture=fast.capture, say=say)
        torch.manual_seed(seed_hash(trial.seed, "dropout"))
        return net, update

    sources = [main for name, (main, _) in parts.items() if name not in trial.targets]
    net, update = with_device_lock(made)
    scale = normalisation(net, data.shape[-1])
    inputs = Inputs(trial.augment, trial.input_size, *scale, compiler=fast.compiler(device))
    feed = Feed(sources, inputs, trial.batch, trial.seed, balanced=trial.balanced, pooled=algorithm.pooled)
    return algorithm, update, feed, Examiner(trial, algorithm, parts, inputs, options.evaluate_all)


@contextmanager
def averaged_in(trial: Trial, algorithm: Algorithm, averaged: Sequence[Tensor], feed: Feed) -> Iterator[None]:
    """The network with averaged weights; batch-norm that is not frozen gets the statistics that belong to them."""
    net = algorithm.net
    # From a generator of its own, the same every time: training's draws are not touched, and nothing is to be saved.
    seed, drawn = seed_hash(trial.seed, "refresh"), {"balanced": feed.balanced, "pooled": feed.pooled}
    aside = Feed(feed.parts, feed.inputs, trial.batch, seed, **drawn)
    with swapped_in(net.parameters(), averaged, net.buffers()):
        with_device_lock(lambda: refresh_batch_norm(net, (aside.draw() for _ in range(REFRESH))))  # type: ignore[misc]
        yield


@contextmanager
def generators_kept(device: str) -> Iterator[None]:
    """The caller's global generators are afterwards as they were."""
    forked = torch.random.fork_rng(devices=[device] if device != "cpu" else [])
    with_device_lock(forked.__enter__)
    try:
        yield
    finally:
        with_device_lock(lambda: forked.__exit__(None, None, None))


class GlobalGenerators:
    """Torch's own, which dropout draws from."""

    def __init__(self, device: str) -> None:
        self.device = device

    def state_dict(self) -> dict[str, Any]:
        on_gpu = self.device != "cpu"
        return {"cpu": torch.get_rng_state(), "gpu": torch.cuda.get_rng_state(self.device) if on_gpu else None}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        torch.set_rng_state(state["cpu"])
        if self.device != "cpu" and state["gpu"] is not None:
            torch.cuda.set_rng_state(state["gpu"], self.device)


class Examiner:
    """Evaluates what is needed: a source's holdout to select by, and both parts of a target; or both parts of all."""

    def __init__(self, trial: Trial, algorithm: Algorithm, parts: Parts, inputs: Inputs, everything: bool) -> None:
        self.trial, self.algorithm, self.parts, self.inputs = trial, algorithm, parts, inputs
        self.everything = everything
        # Apart from training's and from each other: evaluating more, or an average too, changes no other number.
        # Every average draws what it would as the only one.
        models = {"model": "model", **dict.fromkeys(trial.averages, "average")}
        self.generators = {
            f"{model}{part}": torch.Generator().manual_seed(seed_hash(trial.seed, "validation", f"{kind}{part}"))
            for model, kind in models.items()
            for part in ("", ", all")
        }

    def examine(self, model: str = "model") -> DomainScores:
        begun = {name: self._domain(name, main, holdout, model) for name, (main, holdout) in self.parts.items()}
        return {name: {part: one.result() for part, one in own.items()} for name, own in begun.items()}

    def _domain(self, name: str, main: Part, holdout: Part, model: str) -> dict[str, Evaluation]:
        if name in self.trial.targets:
            return {"main": self._part(main), "holdout": self._part(holdout)}
        augmented = self.trial.validation == "augmented"
        held_out = {"holdout": self._part(holdout, self.generators[model] if augmented else None)}
        if not self.everything:
            return held_out
        return {"main": self._part(main, self.generators[f"{model}, all"] if augmented else None), **held_out}

    def _part(self, part: Part, generator: torch.Generator | None = None) -> Evaluation:
        return begin(self.algorithm, part, self.inputs, generator, counts=True)

    def state_dict(self) -> dict[str, Any]:
        return {name: generator.get_state() for name, generator in self.generators.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, generator in self.generators.items():
            # the only average there could be was called "average" once
            generator.set_state(state[name] if name in state else state["average" + ", all" * name.endswith(", all")])

    def validation_loss(self, record: Record) -> float:
        return fmean(
            parts["holdout"]["loss"] for name, parts in record["domains"].items() if name not in self.trial.targets
        )
