"""Turn a recommendation into what a model carries with it: what to expect at a new site, and a temperature."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from domainwise.errors import InputError, warn
from domainwise.experiment import outcomes
from domainwise.experiment.outcomes import Numbers, probabilities
from domainwise.experiment.results import Outcome
from domainwise.report.grid import arrange
from domainwise.report.recommend import Recommendation
from domainwise.report.results import Results
from domainwise.saved_models.card import Expectation

COLDEST, HOTTEST = 0.05, 20.0  # temperatures: beyond them, either no image was told wrongly or none rightly
STEPS = 40  # halvings
ENOUGH = 10_000  # images of a trial
Told = tuple[Numbers, Numbers]  # logits (N, classes) and labels (N,)


def expectation(results: Results, row: Recommendation) -> Expectation:
    """Return what the trials behind a recommendation let one expect of a model that is trained as they were."""
    trials = [one for group in arrange(results.outcomes)[row.label].values() for one in group.values()]
    return Expectation(row.label, dict(row.sites), row.known, row.worst_classes, _temperature(trials))


def _temperature(trials: Sequence[Outcome]) -> float:
    """Fit it on the domains that were held out; 1 where the trials kept no logits of them, with a warning."""
    try:
        return temperature([_of_targets(one) for one in trials])
    except InputError as error:
        warn(f"probabilities are not made to fit new sites: {error}")
        return 1.0


def _of_targets(one: Outcome) -> Told:
    """The logits and labels of the images that a trial held out, evenly thinned where there are very many."""
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
    """The derivative of the mean surprise: the logit that is expected of an image less the one that its label has."""
    shares = probabilities(logits, 1 / inverse)
    return float(((shares * logits).sum(1) - logits[np.arange(len(labels)), labels]).mean())
