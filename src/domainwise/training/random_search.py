"""Random search as DomainBed defines it: which values a draw gives, to the last digit."""

from __future__ import annotations

from typing import Any

import numpy as np

from domainwise.algorithms import Spec, choice, hypers, log10
from domainwise.experiment.settings import ALGORITHMS, SMALL, Settings
from domainwise.seeds import seed_hash


def drawn(spec: Spec, settings: Settings, number: int, seed: int, benchmark: str = "") -> dict[str, Any]:
    """Settings and hyperparameters of draw ``number`` for trial seed ``seed``; draw 0 is the defaults.

    As upstream, the values depend on the trial seed too: the same number means other values in another trial.
    """
    if number == 0:
        return {}
    root = seed_hash(number, seed)
    own = {
        name: about.draw(_random(root, about.domainbed or name))
        for name, (_, about) in hypers(spec.cls()).items()
        if about.draw is not None
    }
    return {**shared(spec.name, settings, root, benchmark), **own}


def shared(algorithm: str, settings: Settings, root: int, benchmark: str = "") -> dict[str, Any]:
    """What every algorithm has; its own hyperparameters are beside it."""
    small = settings.input_size <= SMALL
    batches = (3, 9) if small else (3, 5) if benchmark == "domainnet" else (3, 5.5)
    return {
        "lr": log10(-4.5, -2.5)(_random(root, "lr")) if small else log10(-5, -3.5)(_random(root, "lr")),
        "weight_decay": 0.0 if small else log10(-6, -2)(_random(root, "weight_decay")),
        "batch": int(2 ** _random(root, "batch_size").uniform(*batches)),
        "dropout": choice(0.0, 0.1, 0.5)(_random(root, "resnet_dropout")),
        **({} if small else ALGORITHMS.get(algorithm, {})),  # which are not drawn
    }


_GENERATOR = np.random.RandomState(0)  # seeding one anew is a hundred times faster than making one


def _random(root: int, name: str) -> np.random.RandomState:
    """To be drawn from at once: it is the same object every time."""
    _GENERATOR.seed(seed_hash(root, name))
    return _GENERATOR
