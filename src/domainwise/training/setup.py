"""Build what a training run works with: the algorithm with its network, the minibatches, and the evaluations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from domainwise.acceleration.cuda_graph import Update, prepare, updater
from domainwise.acceleration.shared_device import Submit, arithmetic_units
from domainwise.algorithms import Algorithm
from domainwise.averaging import Averages
from domainwise.data.batches.feed import EVALUATION_BATCH, Feed
from domainwise.data.batches.inputs import Inputs, Part, column_scales
from domainwise.data.batches.own_transform import OwnTransform
from domainwise.data.batches.rows import has_room
from domainwise.data.decoded.read_ahead import source_of
from domainwise.data.domains import Domains
from domainwise.data.splits import is_official, sources_of, split_domain
from domainwise.errors import InputError
from domainwise.experiment.trial import Trial, named_weights
from domainwise.networks.network import Network
from domainwise.saved_models.build import Featurizer, algorithm_of, network_of, normalisation
from domainwise.saved_models.evaluation import Evaluator
from domainwise.seeds import seed_hash
from domainwise.training.checkpoints import Stateful
from domainwise.training.erm_first import ErmFirst, erm_for
from domainwise.training.frozen import Frozen, frozen
from domainwise.training.loss_log import Losses
from domainwise.training.official import judge, official_parts
from domainwise.training.run_options import RunOptions


@dataclass(frozen=True)
class Setup:
    """Hold the parts of a run that train and evaluate, with every random generator at its beginning."""

    algorithm: Algorithm
    update: Update  # the algorithm's, perhaps recorded in a CUDA graph
    feed: Feed
    evaluator: Evaluator
    losses: Losses
    averages: Averages
    featurizer: Featurizer | None = None  # what made the features, where the network is a head alone

    def train(self) -> dict[str, Tensor]:
        """Draw minibatches and train on them; return the losses."""
        batches = self.feed.draw(self.algorithm.fresh)
        return self.update(batches, domains=self.feed.domains) if self.feed.some else self.update(batches)

    @property
    def parts(self) -> dict[str, Stateful]:
        """Everything that changes while the run goes on, by the names that checkpoints have for it."""
        parts: dict[str, Stateful] = {"algorithm": self.algorithm, "feed": self.feed, "examiner": self.evaluator}
        parts |= {"losses": self.losses, "generators": GlobalGenerators(self.algorithm.device)}
        parts |= {"erm_first": self.update} if isinstance(self.update, ErmFirst) else {}
        return {**parts, "average": self.averages} if self.averages.each else parts


def set_up(trial: Trial, data: Domains, options: RunOptions, say: Callable[[str], None], submit: Submit) -> Setup:
    """Build the network and all that trains and evaluates it on ``options.device``."""
    device, fast, algorithm = options.device, options.fast, algorithm_of(trial)
    made = submit(lambda: frozen(trial, data, algorithm, options, say)) if trial.features == "frozen" else None
    shown = made.data if made else data
    on_host = not has_room(shown, device)
    if on_host and (disk := source_of(shown.items[0].images)):
        say(f"the images of {data.name} {disk.why}")
    elif on_host and device != "cpu":
        say(f"the images of {data.name} stay in the host's memory: the GPU has too little free for them")
    if fast.compile and not fast.compiles(device) and device != "cpu":
        say("the network is not compiled, which takes longer: Triton is not installed")
    sources, evaluated = _parts(trial, shown, partial(Part, device=device, on_host=on_host))
    net, update = submit(lambda: _network(trial, data, algorithm, options, say, made))
    scale = normalisation(net, data.layout) if data.form == "images" else column_scales(sources)
    inputs = Inputs(trial.augment, trial.input_size, *scale, compiler=fast.compiler(device), own=_transform(trial))
    if made:
        inputs = Inputs("none", 0)
    how = {"balanced": trial.balanced, "some": trial.domains_per_step, "by": trial.domains_by}
    feed = Feed(sources, inputs, trial.batch, trial.seed, pooled=algorithm.pooled, **how)  # type: ignore[arg-type]
    for one in (algorithm, *([update.erm] if isinstance(update, ErmFirst) else [])):
        one.class_weights = class_weights(trial, feed, data.classes)  # type: ignore[misc]  # its own
    metrics = judge(shown) if is_official(shown, trial.targets) else None
    evaluator = Evaluator(trial, algorithm, evaluated, feed, options.evaluate_all, submit, metrics)
    losses = Losses(algorithm, [part.domain.name for part in sources])
    return Setup(algorithm, update, feed, evaluator, losses, Averages(trial.average), made.featurizer if made else None)


Parts = dict[str, dict[str, list[Part]]]  # by name and part, what is evaluated as one


def _parts(trial: Trial, data: Domains, part: Callable[..., Part]) -> tuple[list[Part], Parts]:
    """Return what is trained on, by domain, and what is evaluated."""
    if is_official(data, trial.targets):
        return official_parts(data, part)
    found: Parts = {}
    for i, domain in enumerate(data):
        main, holdout = split_domain(domain, i, trial.holdout, trial.seed)
        found[domain.name] = {"main": [part(domain, main)], "holdout": [part(domain, holdout)]}
    own = [found[name] for name in sources_of(data, trial.targets)]
    if not any(len(parts["holdout"][0]) for parts in own):
        raise InputError(
            f"none of the domains that are trained on has images to hold out {trial.holdout:.0%} of: one must have "
            f"{math.ceil(1 / trial.holdout)} of them, in two groups or more"
        )
    return [main for parts in own for main in parts["main"]], found


def _transform(trial: Trial) -> OwnTransform | None:
    if not trial.augment_source:
        return None
    written = f"{trial.augment_file}:{trial.augment.rpartition(':')[2]}" if trial.augment_file else trial.augment
    return OwnTransform.load(written, trial.input_size, trial.augment_source)


def _network(
    trial: Trial,
    data: Domains,
    algorithm: Algorithm,
    options: RunOptions,
    say: Callable[[str], None],
    made: Frozen | None,
) -> tuple[Network, Update]:
    """Build the network and hand it to the algorithm; afterwards torch's own generator stands where dropout draws."""
    torch.manual_seed(seed_hash(trial.seed, "init"))
    layout, classes = data.layout, len(data.classes)
    net = made.head(trial, algorithm, layout) if made else network_of(trial, algorithm, layout, classes)
    net.to(options.device)
    prepare(net, precision=trial.precision, fast=options.fast, full=EVALUATION_BATCH)
    algorithm.setup(net, seed=trial.seed)
    update = sparing(algorithm, lambda: updater(algorithm, capture=options.fast.capture, say=say), say)
    if erm := erm_for(trial, algorithm):
        first = sparing(erm, lambda: updater(erm, capture=False), say)  # two graphs of one network were never tried
        update = ErmFirst(erm, trial.erm_updates, first, update, several=algorithm.fresh > 1)
    torch.manual_seed(seed_hash(trial.seed, "dropout"))
    return net, update


def sparing(algorithm: Algorithm, make: Callable[[], Update], say: Callable[[str], None]) -> Update:
    """Return an update that, where the device has too little memory, computes each leg in twice as many parts.

    ``make`` makes the plain one. What a failed update has drawn is drawn again, so that only roundings differ.
    """
    update = make()

    def spared(batches: Sequence[Any], **domains: Sequence[int]) -> dict[str, Tensor]:
        nonlocal update
        generators, stepped = (algorithm.generator, algorithm.order), bool(algorithm.optimizer.outer.state)
        drawn = [generator.get_state() for generator in generators]
        while True:
            try:
                return update(batches, **domains)
            except torch.OutOfMemoryError:
                parts = 2 * algorithm.leg_parts
                most = max(len(y) for _, y in _pairs(batches))
                if why := too_little(algorithm, parts, most):
                    raise InputError(why) from None
            for generator, state in zip(generators, drawn, strict=True):
                generator.set_state(state)
            if not stepped:  # half of an optimizer's memory may have been made
                algorithm.optimizer.outer.state.clear()
            algorithm.take_parts(parts)
            say(f"the GPU has too little memory: every leg is computed in {parts} parts, which gives the same gradient")
            if algorithm.device.type == "cuda":
                torch.cuda.empty_cache()
            update = make()

    return spared


def _pairs(batches: Sequence[Any]) -> Iterator[tuple[Tensor, Tensor]]:
    """The minibatches of all domains, where a domain may have several."""
    for one in batches:
        yield from [one] if isinstance(one[1], Tensor) else one


def too_little(algorithm: Algorithm, parts: int, most: int) -> str:
    """Say what to set where memory does not suffice and legs cannot be computed in so many parts; "" where they can."""
    norms = any(isinstance(module, _BatchNorm) and module.training for module in algorithm.net.modules())
    remedy = f"set a smaller batch than {most}, a smaller input_size or network, or --per-gpu 1"
    if not algorithm.samplewise:
        why = f"{algorithm.name} looks at the samples of a minibatch together, so that it cannot be computed in parts"
    elif norms:
        why = "batch-norm looks at the samples of a minibatch together (freeze_batch_norm=False)"
    elif parts // 2 >= most:
        why = f"not even one image of each domain at a time fits ({algorithm.name})"
    else:
        return ""
    return f"the GPU has too little memory, and {why}: {remedy}"


def class_weights(trial: Trial, feed: Feed, classes: Sequence[str]) -> Tensor | None:
    """Return how much each class counts in the cross-entropy; None where all count alike.

    Balanced weights have every class count the same in an update, as its minibatches are drawn, and are 1 on average.
    """
    if trial.class_weights == "none":
        return None
    device = feed.parts[0].device
    if trial.class_weights != "balanced":
        given = named_weights(trial.class_weights, classes)
        return torch.tensor([given.get(name, 1.0) for name in classes], device=device)
    chances = _class_chances(feed, len(classes))
    weights = np.divide(1, chances * (chances > 0).sum(), where=chances > 0, out=np.ones(len(classes)))
    return torch.from_numpy(weights).float().to(device)


def _class_chances(feed: Feed, classes: int) -> npt.NDArray[np.float64]:
    """Return how often an image of each class is drawn, which by size without replacement is only about so."""
    each = [part.domain.labels[part.rows] for part in feed.parts]
    counts = [np.bincount(own, minlength=classes) for own in ([np.concatenate(each)] if feed.pooled else each)]
    drawn = [(count > 0) if feed.balanced else count for count in counts]
    shares = [own / own.sum() for own in drawn]
    by_size = feed.some > 0 and feed.by == "size" and not feed.pooled
    return np.asarray(np.average(shares, 0, feed.sizes.numpy() if by_size else None))


@contextmanager
def process_settings(trial: Trial, options: RunOptions, submit: Submit) -> Iterator[None]:
    """Set the arithmetic that the trial wants; afterwards this and torch's own generators are as they were."""
    forked = torch.random.fork_rng(devices=[options.device] if options.device != "cpu" else [])
    submit(forked.__enter__)
    try:
        with arithmetic_units(trial.precision, options.fast.deterministic):
            yield
    finally:
        submit(lambda: forked.__exit__(None, None, None))


class GlobalGenerators:
    """Save and restore torch's own random generators, which dropout draws from."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def state_dict(self) -> dict[str, Any]:
        on_gpu = self.device.type == "cuda"
        return {"cpu": torch.get_rng_state(), "gpu": torch.cuda.get_rng_state(self.device) if on_gpu else None}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        torch.set_rng_state(state["cpu"])
        if self.device.type == "cuda" and state["gpu"] is not None:
            torch.cuda.set_rng_state(state["gpu"], self.device)
