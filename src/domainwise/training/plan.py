"""Lay out the trials of a comparison: its algorithms, targets and seeds, and the draws of a random search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from inspect import signature
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from domainwise.algorithms import Spec, choice, hypers, log10, resolved
from domainwise.algorithms._checks import asks_for
from domainwise.data.batches.own_transform import described
from domainwise.data.domains import Domains
from domainwise.data.sources.benchmarks import BENCHMARKS
from domainwise.data.splits import holds_none_out, is_official, refuse_gaps, sources_of
from domainwise.errors import InputError, some, warn
from domainwise.experiment.metrics import METRICS, metric
from domainwise.experiment.presets import PRESETS, SMALL
from domainwise.experiment.selection import BY_METRIC
from domainwise.experiment.settings import Settings, of_algorithm, own_settings
from domainwise.experiment.trial import SEARCHED, Trial
from domainwise.saved_models.build import named
from domainwise.seeds import seed_hash
from domainwise.training.suited_settings import suited
from domainwise.training.targets import no_repetition
from domainwise.user_files import OWN, source_of


def plan(
    data: Domains,
    specs: Sequence[Spec],
    targets: Sequence[tuple[str, ...]],
    seeds: Sequence[int],
    settings: Settings,
    average: str = "none",
    draws: int = 1,
) -> list[Trial]:
    """Return one trial per draw, seed, target and algorithm, each once and in this order.

    So the first of them are already a comparison. Draw 0 is the defaults, the others are DomainBed's random search.
    """
    _countable(len(specs) * len(targets) * len(seeds) * draws)
    no_repetition("algorithm", [spec.label for spec in specs])
    _known_somewhere(specs, settings.given)
    _of_effect(specs, settings)
    settings = suited(settings, data)
    _fit_to_targets(data, targets, settings)
    _tell_of_the_untrained(settings)
    layers = []
    for spec in specs:
        own = suited(of_algorithm(settings, spec.name, alone=len(specs) == 1), data)
        _refuse_inputs(spec, own, data)
        _refuse_some(spec, own, min(len(sources_of(data, target)) for target in targets))
        _refuse_unweighed(spec, own)
        same = {**shared_by_all(data, own), "average": average, **_named(spec)}
        layers.append((spec, own, origins(spec, own), same))
    trials: dict[str, Trial] = {}
    for number, seed in product(range(draws), seeds):
        searched = [
            {**same, **_searched(spec, known, own, number, seed, data.name), "seed": seed}
            for spec, own, known, same in layers
        ]
        for target, about in product(targets, searched):
            trial = Trial(targets=target, **about)
            trials.setdefault(trial.id, trial)
    return list(trials.values())


def with_probe(specs: list[Spec], data: Domains, settings: Settings) -> list[Spec]:
    """Add a head on frozen features, a baseline that is worth its time where the features come from pretraining.

    Named benchmarks and published presets stay what they are.
    """
    pretrained = settings.weights != "none" and settings.features == "trained" and data.form == "images"
    own = "preset quick" in settings.origins.values() and data.name not in ("digits", *BENCHMARKS)
    return [*specs, Spec("probe")] if pretrained and own and "probe" not in {one.name for one in specs} else specs


def _refuse_inputs(spec: Spec, settings: Settings, data: Domains) -> None:
    """Refuse what the data or frozen features make impossible, or leave without effect."""
    cls, frozen = spec.cls(), settings.features == "frozen"
    if cls.extra_channels and (frozen or data.form != "images"):
        without = "features=frozen" if frozen else f"give it images, which {data.name} has not"
        raise InputError(f"{spec.label} shows the network more than images: leave it out, or {without}")
    if cls.matches_features and frozen:
        raise InputError(f"{spec.label} is about features, and those do not change: leave it out, or features=frozen")


def _refuse_some(spec: Spec, settings: Settings, sources: int) -> None:
    """Refuse to have more domains take part in an update than there are, or some where that cannot be."""
    some = settings.domains_per_step
    if settings.origins.get("domains_by") == "given" and not some:
        raise InputError(
            "domains_by has no effect without domains_per_step: leave it out, or say how many domains an update has"
        )
    if some > sources:
        raise InputError(f"domains_per_step={some} is more than the {sources} domains that are trained on: set fewer")
    if some and "domains" not in signature(spec.cls().update).parameters:
        raise InputError(
            f"{spec.label} has an update of its own, which does not hear which domains its minibatches are from: leave "
            "domains_per_step out, or let update take domains="
        )


def _fit_to_targets(data: Domains, targets: Sequence[tuple[str, ...]], settings: Settings) -> None:
    """Refuse what an official split lacks, or what only one has; elsewhere tell of domains that are tiny."""
    if any(is_official(data, target) for target in targets):
        refuse_gaps(data, settings.selection)
        return
    if settings.selection in ("id_val", "val"):
        raise InputError(f"selection={settings.selection} looks at an official split: ask for the targets official")
    _tell_of_the_tiny(data, settings.holdout)


def _tell_of_the_tiny(data: Domains, holdout: float) -> None:
    tiny = [domain.name for domain in data if holds_none_out(domain, holdout)]
    if tiny:
        warn(
            f"{len(tiny)} of the {len(data)} domains of {data.name} ({some(tiny)}) are too small to hold {holdout:.0%} "
            "of them out, or of one group: they are trained on, and nothing of them counts in validation"
        )


def _refuse_unweighed(spec: Spec, settings: Settings) -> None:
    if settings.class_weights != "none" and not asks_for(spec.cls(), "class_weights"):
        how = "its loss does not ask for self.class_weights, which losses.risk takes as its last argument"
        raise InputError(f"{spec.label} weighs no classes, for {how}: add that, or leave class_weights out")


def _tell_of_the_untrained(settings: Settings) -> None:
    """Warn of features that stay what random weights make of images; a network of one's own may bring its weights."""
    name = settings.network
    if settings.features == "frozen" and settings.weights == "none" and name != "linear" and not OWN.fullmatch(name):
        warn(f"frozen features of {name} without weights, which has learned nothing: give it some, with weights=FILE")


def _named(spec: Spec) -> dict[str, str]:
    return {"algorithm": spec.name, "source": spec.source, "label": spec.label, "file": spec.file}


def _searched(
    spec: Spec, layers: Mapping[str, str], settings: Settings, number: int, seed: int, benchmark: str
) -> dict[str, Any]:
    """Return what a draw says of a trial.

    Precedence of a hyperparameter: field default < preset < network < benchmark < drawn < given for all < written
    beside the algorithm.
    """
    found = drawn(spec, settings, number, seed, benchmark)
    given = {name for name, origin in settings.origins.items() if origin == "given"}
    values = {name: value for name, value in found.items() if name not in {*given, *settings.given}}
    algorithm = spec.create({**settings.given_to_all(), **values})
    return {
        "hyperparameters": resolved(algorithm),
        "origins": {**layers, **dict.fromkeys(values.keys() - spec.settings.keys(), f"draw {number}")},
        "draw": number,
        **{name: values[name] for name in SEARCHED if name in values},
    }


def drawn(spec: Spec, settings: Settings, number: int, seed: int, benchmark: str = "") -> dict[str, Any]:
    """Return the settings and hyperparameters of draw ``number`` for trial seed ``seed``; draw 0 is the defaults.

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
    """Return the drawn settings that every algorithm has."""
    small = settings.input_size <= SMALL
    batches = (3, 9) if small else (3, 5) if benchmark == "domainnet" else (3, 5.5)
    found = {
        "lr": log10(-4.5, -2.5)(_random(root, "lr")) if small else log10(-5, -3.5)(_random(root, "lr")),
        "weight_decay": 0.0 if small else log10(-6, -2)(_random(root, "weight_decay")),
        "batch": int(2 ** _random(root, "batch_size").uniform(*batches)),
        "dropout": choice(0.0, 0.1, 0.5)(_random(root, "resnet_dropout")),
    }
    own = own_settings(algorithm, settings.input_size)  # which are not drawn
    return {**found, **{name: value for name, value in own.items() if name in found}}


_GENERATOR = np.random.RandomState(0)  # seeding one anew is a hundred times faster than making one


def _random(root: int, name: str) -> np.random.RandomState:
    """Return a generator to draw from at once: it is the same object every time."""
    _GENERATOR.seed(seed_hash(root, name))
    return _GENERATOR


def shared_by_all(data: Domains, settings: Settings) -> dict[str, Any]:
    """Return the part of a trial that does not depend on hyperparameters, target or seed."""
    same = ("freeze_batch_norm", "dropout", "validation", "batch", "balanced", "class_weights", "steps",
            "patience", "optimizer", "schedule", "clip", "erm_updates",
            "evaluate_every", "features", "holdout", "domains_per_step", "domains_by", "precision", "selection",
            "select_every", "test", "train_size")  # fmt: skip
    images = data.form == "images"
    return {
        "data": data.name,
        "fingerprint": data.fingerprint,
        "size": data.shape[0] if images else 0,
        "input_size": settings.input_size if images else 0,
        **named(settings.network, settings.weights),
        **_metric(settings),
        **described(settings.augment, settings.input_size, data.items[0].images),
        **{name: getattr(settings, name) for name in same},
    }


def _metric(settings: Settings) -> dict[str, str]:
    name = settings.metric
    own = metric(name)
    if name != "accuracy" and settings.selection not in BY_METRIC:
        raise InputError(
            f'selection="{settings.selection}" goes by accuracy, so that metric={name} has no effect: leave one out'
        )
    if name in METRICS:
        return {"metric": name}
    path = Path(name.rpartition(":")[0]).absolute()
    return {"metric": own.title, "metric_source": source_of(path), "metric_file": str(path)}


def origins(spec: Spec, settings: Settings) -> dict[str, str]:
    """Return where every setting and hyperparameter came from."""
    layers = settings.origins
    written = dict.fromkeys(spec.settings, f"written in {spec.label}")
    return {**layers, **{name: layers.get(name, "default") for name in hypers(spec.cls())}, **written}


MOST = 100_000  # trials: more would take long to lay out, and could not be told from a slip of the finger


def _countable(trials: int) -> None:
    if trials > MOST:
        raise InputError(f"that would be {trials:,} trials, and the most are {MOST:,}: ask for fewer seeds or draws")


OTHER_NAMES = {"size": "input_size", "image_size": "input_size", "learning_rate": "lr", "batch_size": "batch"}
OTHER_NAMES |= {"iterations": "steps", "max_steps": "steps", "backbone": "network", "model": "network"}


def _known_somewhere(specs: Sequence[Spec], given: Mapping[str, Any]) -> None:
    for name in given:
        if not any(name in hypers(spec.cls()) for spec in specs):
            known = [*PRESETS["quick"], *(known for spec in specs for known in hypers(spec.cls()))]
            near = [OTHER_NAMES[name]] if name in OTHER_NAMES else get_close_matches(name, known, n=1)
            raise InputError(
                f'none of {", ".join(spec.label for spec in specs)} has a hyperparameter "{name}", and no setting is '
                f"called that{f': did you mean {near[0]}?' if near else ''}"
            )


def _of_effect(specs: Sequence[Spec], settings: Settings) -> None:
    """Refuse what somebody gave to an algorithm whose other settings leave it without effect."""
    given = {name for name, origin in settings.origins.items() if origin == "given"}
    every = [(spec, spec.create(settings.given_to_all())) for spec in specs]
    for spec, algorithm in every:
        for name, (_, about) in hypers(spec.cls()).items():
            heard = about.idle is None or not (why := about.idle(algorithm))
            alone = name in given and not any(name in hypers(other.cls()) for other in specs if other is not spec)
            if not heard and (name in spec.settings or alone):
                raise InputError(f"{spec.label}: {name} has no effect with {why}: leave {name} out")
    if "erm_updates" in given and settings.erm_updates and all(spec.name == "erm" for spec in specs):
        raise InputError("erm_updates come before another algorithm, and there is only erm: leave erm_updates out")
    outer = sorted(given & {"optimizer", "schedule", "clip"})
    if outer and all(getattr(algorithm, "outer", "") == "interpolate" for _, algorithm in every):
        raise InputError(f'{outer[0]} is of an outer optimizer, and outer="interpolate" has none: leave {outer[0]} out')
