"""Compute the features of a network that stays as it is, once for all trials that train a head on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from domainwise.acceleration.cuda_graph import Fast, prepare
from domainwise.algorithms import Algorithm
from domainwise.data.batches.augment import augmentation
from domainwise.data.decoded.cache import cache_folder
from domainwise.data.decoded.features import Features, kept_features
from domainwise.data.decoded.read_ahead import in_order
from domainwise.data.domains import Domains, Images
from domainwise.errors import InputError
from domainwise.experiment.trial import Trial
from domainwise.machine import OWN_NETWORKS, cores, human_duration, versions
from domainwise.networks.forms import Layout, as_bytes
from domainwise.networks.network import Network
from domainwise.networks.samples import one_of, unpacked
from domainwise.saved_models.build import Featurizer, algorithm_of, network_of, normalisation
from domainwise.saved_models.saved import fingerprint
from domainwise.seeds import seed_hash
from domainwise.training.run_options import RunOptions

AT_ONCE = {"cpu": 32, "cuda": 256}  # images: with more, what is computed on a processor leaves its caches
REMEMBERED = 2  # networks, and arrays of features, that a process keeps for its next trial
PATIENCE = 10  # seconds that are waited for without a word

T = TypeVar("T")


@dataclass(frozen=True)
class Frozen:
    """The features of a data set in place of its images, and what made them."""

    data: Domains
    featurizer: Featurizer

    def head(self, trial: Trial, algorithm: Algorithm, layout: Layout) -> Network:
        """Return a new head to train on the features, drawn from torch's generator."""
        classes = len(self.data.classes)
        if trial.network_source:  # a network of somebody's own may have a head of its own
            own = network_of(trial, algorithm, layout, classes)
            return Network(nn.Identity(), own.head, dropout=own.dropout.p)
        return Network(nn.Identity(), nn.Linear(self.data.shape[0], classes), dropout=trial.dropout)


def frozen(
    trial: Trial, data: Domains, algorithm: Algorithm, options: RunOptions, say: Callable[[str], None]
) -> Frozen:
    """Return the features that a trial trains on, which are computed only where nobody has computed them before."""
    net, featurizer = _remembered(_networks, _named(trial, data), lambda: _network(trial, data, algorithm))
    made_of = {
        "fingerprint": data.fingerprint,
        "arrays": [data.shape, data.evaluation_shape],
        "network": trial.network,
        "source": trial.network_source,
        "weights": featurizer.digest,
        "input_size": trial.input_size,
        "normalisation": [featurizer.mean, featurizer.std],
        "precision": trial.precision,
        "torch": versions()["torch"],
    }

    def compute() -> Iterator[Features]:
        return _computed(net, featurizer, trial, data, options.device, say)

    def found() -> Features:
        if trial.weights == "none" and trial.network in OWN_NETWORKS:  # small, and other ones for every seed
            return np.concatenate([*compute()])
        return kept_features(data, made_of, compute, cache_folder(options.cache), say)

    return Frozen(_in_place(data, _remembered(_features, repr(made_of), found)), featurizer)


def compute_ahead(trials: Sequence[Trial], data: Domains, options: RunOptions, say: Callable[[str], None]) -> None:
    """Compute what trials will train on before their processes share the cores, and their time is counted."""
    for trial in trials:
        if trial.features == "frozen" and trial.network not in OWN_NETWORKS:
            with suppress(InputError):  # which is the trial's to tell
                frozen(trial, data, algorithm_of(trial), options, say)


_networks: dict[tuple[object, ...], tuple[Network, Featurizer]] = {}
_features: dict[str, Features] = {}


def _remembered(known: MutableMapping[Any, T], key: object, make: Callable[[], T]) -> T:
    if key not in known:
        made = make()
        while len(known) >= REMEMBERED:
            known.pop(next(iter(known)))
        known[key] = made
    return known[key]


def _named(trial: Trial, data: Domains) -> tuple[object, ...]:
    """Return what tells the featurizers of trials apart; without given weights, the seed makes them."""
    seed = trial.seed if trial.weights == "none" else None
    where = (trial.network, trial.network_file, trial.network_source, trial.weights, trial.weights_file, seed)
    return *where, trial.input_size, str(data.layout), len(data.classes)


def _network(trial: Trial, data: Domains, algorithm: Algorithm) -> tuple[Network, Featurizer]:
    """Build the network that a trial starts from, with the draws of one that trains all of it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_hash(trial.seed, "init"))
        net = network_of(trial, algorithm, data.layout, len(data.classes))
    weights = {f"featurizer.{name}": tensor for name, tensor in net.featurizer.state_dict().items()}
    return net, Featurizer(weights, fingerprint(weights), *normalisation(net, data.layout))


def _computed(
    net: Network, featurizer: Featurizer, trial: Trial, data: Domains, device: str, say: Callable[[str], None]
) -> Iterator[Features]:
    """Yield the features of all images, some at a time, in evaluation mode and without augmentation."""
    recipe = augmentation("none", trial.input_size, featurizer.mean, featurizer.std)
    at_once, total, done = AT_ONCE[torch.device(device).type], sum(map(len, data)), 0
    net.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]  # the faster one on a CPU too
    prepare(net, precision=trial.precision, fast=Fast(compile=False, capture=False))
    net.eval()
    started, threads = time.perf_counter(), torch.get_num_threads()
    torch.set_num_threads(max(threads, cores()))  # whatever suits the training of a head
    try:
        for array in _images(data):
            for images in in_order(array, at_once):
                with torch.inference_mode():
                    rows = torch.from_numpy(as_bytes(images)).to(device)
                    x = recipe.plain(unpacked(rows, array.dtype))
                    x = x.contiguous(memory_format=torch.channels_last) if one_of(x).ndim == 4 else x
                    yield net.features(x).float().cpu().numpy()
                done += len(images)
                left = (time.perf_counter() - started) / done * (total - done)
                if done in (len(images), 2 * len(images)) and left > PATIENCE:
                    say(f"the features of {total:,} images are computed once: about {human_duration(left)} to go")
    finally:
        torch.set_num_threads(threads)
        net.to("cpu")


def _images(data: Domains) -> list[Images]:
    return [domain.images if domain.evaluation is None else domain.evaluation for domain in data]  # type: ignore[misc]


def _in_place(data: Domains, features: Features) -> Domains:
    """The same data with features for images; labels, groups and parts stay."""
    ends = np.cumsum([len(domain) for domain in data])
    items = tuple(
        replace(domain, images=own, evaluation=None, shapes=None, originals=None)
        for domain, own in zip(data, np.split(features, ends[:-1]), strict=True)
    )
    return replace(data, items=items, home=None)
