"""Estimate how much room on the disk trials take."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import NamedTuple

import torch

from domainwise.averaging import averagers
from domainwise.data.domains import Domains
from domainwise.experiment.outcomes import bytes_kept
from domainwise.experiment.trial import Trial
from domainwise.networks.network import Network
from domainwise.saved_models.build import algorithm_of, network_of
from domainwise.saved_models.keep import Keep, checked, spread

ADAM = 2  # copies of the weights that an optimizer keeps
HEADER = 2**12  # bytes of a file beside its tensors
GENERATORS = 2**16  # bytes of their states, and of all that is not tensors


class Disk(NamedTuple):
    """Hold estimates in bytes, rather too large than too small."""

    running: int  # by the two checkpoints of a trial that runs and its evaluations, beside the rest
    afterwards: int  # by the models that are kept, and the counts of the selected one


def disk_needed(trial: Trial, data: Domains, *, keep: Keep = "best", snapshots: int = 0) -> Disk:
    """Estimate the room that one trial takes, from its network, which is made and thrown away."""
    state = _network(trial, data).state_dict()
    weights = HEADER + sum(tensor.numel() * tensor.element_size() for tensor in state.values())
    variants = 1 + len(trial.averages)
    best = 0 if checked(keep) == "none" else variants
    evaluations = math.ceil(trial.steps / trial.evaluate_every) + 1
    models = best + (variants * evaluations if keep == "all" else 0) + len(spread(snapshots, trial.steps))
    inner = ADAM if trial.hyperparameters.get("inner") in ("adam", "momentum") else 0
    copies = 1 + ADAM + inner + best + _averaged(trial)
    told, seen = variants * _counts(trial, data), variants * _outcomes(trial, data)
    running = 2 * (weights * copies + seen + GENERATORS) + evaluations * told
    return Disk(running, weights * models + told + seen)


CELL = 40  # bytes of a number of images in counts.json, with what says of which classes


def _counts(trial: Trial, data: Domains) -> int:
    """The bytes that one evaluation says of all classes, for every domain and part of one."""
    cells = len(data.classes) ** 2
    return sum(HEADER + CELL * min(2 * cells, len(domain)) for domain in data)


def _outcomes(trial: Trial, data: Domains) -> int:
    """The bytes of what one model made of every image of the hold-outs and the targets."""
    parts = [len(domain) * (1 if domain.name in trial.targets else trial.holdout) for domain in data]
    return HEADER * (1 + 2 * len(parts)) + math.ceil(sum(parts)) * bytes_kept(len(data.classes))


def _network(trial: Trial, data: Domains) -> Network:
    """Make the network of shapes without content, which takes no time, where it is one of ours and can be.

    Whoever wrote another may keep some of its tensors.
    """

    def made() -> Network:
        return network_of(trial, algorithm_of(trial), data.shape[-1], len(data.classes), filled=False)

    with torch.random.fork_rng(devices=[]):
        if not trial.network_file:
            with suppress(Exception), torch.device("meta"):
                return made()
        return made()


def _averaged(trial: Trial) -> int:
    """Copies of the weights that the averagers keep."""
    each = averagers(trial.average).values()
    return sum(2 + max(getattr(one, "tolerance", 0), getattr(one, "converge", 0)) for one in each)
