"""Train what a comparison recommends, and say with its model what to expect at a new site, and at which temperature."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np

from domainwise.data.domains import Domains
from domainwise.data.sources.digits import digits
from domainwise.errors import InputError, legible, warn
from domainwise.experiment import outcomes
from domainwise.experiment.outcomes import Numbers, probabilities
from domainwise.experiment.results import Outcome
from domainwise.experiment.trial import Trial
from domainwise.networks.weight_files import weights_sha256
from domainwise.report.grid import arrange
from domainwise.report.recommend import Recommendation, recommend
from domainwise.report.results import Results
from domainwise.saved_models.build import allowed
from domainwise.saved_models.card import Expectation
from domainwise.saved_models.estimate import tried_on_targets
from domainwise.sweeps.status import planned
from domainwise.training.fit import Fitting, check_fit, laid_out
from domainwise.training.reading import cached

COLDEST, HOTTEST = 0.05, 20.0  # temperatures: beyond them, either no image was told wrongly or none rightly
STEPS = 40  # halvings
ENOUGH = 10_000  # images of a trial
Told = tuple[Numbers, Numbers]  # logits (N, classes) and labels (N,)


def expectation(results: Results, row: Recommendation) -> Expectation:
    """Return what the trials behind a recommendation let one expect of a model that is trained as they were."""
    temperature = _temperature(_behind(results, row))
    return Expectation(row.label, dict(row.sites), row.known, row.worst_classes, temperature)


def _behind(results: Results, row: Recommendation) -> list[Outcome]:
    return [one for group in arrange(results.outcomes)[row.label].values() for one in group.values()]


def _tried(trials: Sequence[Outcome]) -> dict[str, tuple[float, float]]:
    """Return estimates without labels on the sites that were held out; none where the trials kept no logits."""
    with suppress(InputError):
        return tried_on_targets(trials)
    return {}


def refitting(
    results: Results,
    *,
    seed: int = 0,
    weights: Path | str | None = None,
    output: Path | str | None = None,
    cache: Path | str | None = None,
    trust_code: bool = False,
) -> Fitting:
    """Lay out the training of what a comparison recommends, as it was trained there, on all of its domains.

    Data that the results do not come with is looked for in the ``cache`` of decoded images. ``weights`` is the file
    that the networks started from, where it lies elsewhere now. A Python file that a trial names is run only with
    ``trust_code``.
    """
    row = recommend(results.outcomes)
    _warn_of_waiting(results)
    check_fit(row.trial.selection, seed)
    data = _data_of(results, row.trial, cache)
    trial = allowed(row.trial, results.folder, trust_code=trust_code, training=True)
    trial = replace(trial, targets=(), seed=seed, average=row.average or "none", weights_file=_weights(trial, weights))
    return laid_out(data, trial, output, expectation(results, row), tried=_tried(_behind(results, row)))


def _warn_of_waiting(results: Results) -> None:
    """Say so where trials were asked for that have no result: the range is then one over fewer sites, or seeds."""
    asked, have = planned(results.folder), {one.trial.id for one in results.outcomes}
    if waiting := len([id for id in asked if id not in have]):
        warn(
            f"{waiting} of {len(asked)} trials that were asked for in {results.folder} have no result yet: what is "
            "recommended and expected rests on the others"
        )


def refuse_settings(names: Sequence[str]) -> None:
    """Refuse settings beside results, which have said them."""
    if names:
        raise InputError(
            f"what a comparison recommends is trained as it was compared, so that what it promises is true: leave out "
            f"{', '.join(names)}, or give data and not results"
        )


def _data_of(results: Results, trial: Trial, cache: Path | str | None) -> Domains:
    """Return the data of a comparison, split as there."""
    data = results.data or (digits() if trial.data == "digits" else cached(trial, cache))
    if data is None:
        raise InputError(
            f"the data of {results.folder} ({legible(trial.data)}) are not in the cache of decoded images: name them "
            "with --data, in Python Results.open(folder, data=...)"
        )
    data = data.known_as(trial.fingerprint)
    if data.fingerprint != trial.fingerprint:
        raise InputError(
            f"the results in {results.folder} are of other data than {legible(data.name)} is now, by its fingerprint "
            f"({trial.fingerprint[:12]}, now {data.fingerprint[:12]}): give the same images and labels"
        )
    if trial.size and data.shape[0] != trial.size:
        raise InputError(
            f"these images of {legible(data.name)} were read with sides of {data.shape[0]}, and those of the "
            f"comparison with {trial.size}: open them with size={trial.size}"
        )
    return data


def _weights(trial: Trial, file: Path | str | None) -> str:
    """Return where the file is that a trial started from, if it is still that one."""
    if trial.weights in ("none", "pretrained"):
        if file is not None:
            raise InputError(f"these networks started from no file (weights={trial.weights}): leave the weights out")
        return ""
    place = Path(file or trial.located().weights_file).expanduser()
    if not place.is_file():
        raise InputError(
            f"the weights that these networks started from are not in {place} any more: name it with --weights "
            f"(in Python weights=...); its sha256 is {trial.weights}"
        )
    if (found := weights_sha256(place)) != trial.weights:
        raise InputError(
            f"the weights in {place} are not those that these networks started from: their sha256 is {found}, and was "
            f"{trial.weights}"
        )
    return str(place.absolute())


def _temperature(trials: Sequence[Outcome]) -> float:
    """Fit a temperature on the domains that were held out; 1, with a warning, where the trials kept no logits."""
    try:
        return temperature([_of_targets(one) for one in trials])
    except InputError as error:
        warn(f"probabilities are not made to fit new sites: {error}")
        return 1.0


def _of_targets(one: Outcome) -> Told:
    """Return the logits and labels of the images that a trial held out, evenly thinned where there are very many."""
    seen = outcomes.read(one)
    parts = [part for target in one.trial.targets for part in seen[target].values()]
    logits, labels = (np.concatenate(both) for both in zip(*((one.logits, one.label) for one in parts), strict=True))
    step = -(-len(labels) // ENOUGH)
    return logits[::step], labels[::step]


def temperature(trials: Sequence[Told]) -> float:
    """Return the temperature at which the logits of trials surprise least, each trial counting the same.

    The mean surprise is convex in the inverse of the temperature, so that halving finds the one place where it is flat.
    """
    low, high = 1 / HOTTEST, 1 / COLDEST
    for _ in range(STEPS):
        middle = (low * high) ** 0.5
        if fmean(_slope(logits, labels, middle) for logits, labels in trials) < 0:
            low = middle
        else:
            high = middle
    return float(1 / middle)


def _slope(logits: Numbers, labels: Numbers, inverse: float) -> float:
    """Return the derivative of the mean surprise: the logit that is expected of an image less that of its label."""
    shares = probabilities(logits, 1 / inverse)
    return float(((shares * logits).sum(1) - logits[np.arange(len(labels)), labels]).mean())
