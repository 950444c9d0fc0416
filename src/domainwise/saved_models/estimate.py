"""Estimate without labels how right a model is on new images, and say how wrong such estimates have been.

The accuracy is estimated by average thresholded confidence (Garg et al., 2022): the share of images that the model is
surer of than a threshold, above which as many images held out of its own domains lie as it is right on.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from domainwise.data.domains import Domains
from domainwise.data.splits import split_domain
from domainwise.errors import InputError, legible
from domainwise.experiment import outcomes
from domainwise.experiment.integrity import is_number, is_share
from domainwise.experiment.outcomes import Seen
from domainwise.experiment.results import Outcome, outcome
from domainwise.experiment.trial import Trial

if TYPE_CHECKING:
    from domainwise.saved_models.model import Model

Numbers = npt.NDArray[Any]
LOOKED_AT = 128  # images of a domain whose features are kept in the mean
UNSURE = 0.05  # the share of held-out images that count as ones the model is unsure of
NAMED = 8  # sites in a sentence
CANNOT = (
    "An estimate counts on the model being less sure where it is wrong. Where it is surely wrong (a class that it does "
    "not know, images of another kind, other habits of labelling), nothing of that shows here: the labels of a hundred "
    "images tell more."
)


@dataclass(frozen=True, eq=False)
class Features:
    """Where the features of every source domain lie: their means, and how far single images scatter around them."""

    domains: tuple[str, ...]
    counts: tuple[int, ...]  # images that a mean is over
    means: Numbers  # (domains, features)
    scatter: Numbers  # (features,), the standard deviation within domains

    def distances(self, mean: Numbers, count: int) -> dict[str, float]:
        """Return how far new images are from every domain: 1 is as far as single images are from their own mean.

        What so few images would be apart by chance alone is taken off.
        """
        return {
            name: self._apart(mean - own, 1 / count + 1 / many)
            for name, many, own in zip(self.domains, self.counts, self.means, strict=True)
        }

    def between(self) -> list[float]:
        """Return how far the domains are from each other."""
        pairs = combinations(range(len(self.domains)), 2)
        return [self._apart(self.means[i] - self.means[j], 1 / self.counts[i] + 1 / self.counts[j]) for i, j in pairs]

    def _apart(self, gap: Numbers, chance: float) -> float:
        spread = float((self.scatter**2).sum())
        squared = float((gap**2).sum()) / spread - chance if spread else 0.0
        return float(max(0.0, squared) ** 0.5)


@dataclass(frozen=True, eq=False)
class Estimator:
    """Hold how right and how sure a model was on images held out of its own domains: estimates start from this."""

    threshold: float  # the confidence above which as many lie as are right
    accuracy: float
    confidence: float  # mean over the domains
    unsure: float  # the confidence that one in twenty is below
    tried: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # site held out -> estimate and accuracy
    features: Features | None = None

    @classmethod
    def fitted(cls, parts: Sequence[Seen]) -> Estimator:
        """Return it from what a model made of the images held out of each of its domains."""
        sure = [part.probabilities().max(1) for part in parts]
        right = np.concatenate([part.predicted == part.label for part in parts])
        together = np.concatenate(sure)
        accuracy = float(right.mean())
        threshold, unsure = np.quantile(together, [1 - accuracy, UNSURE]).tolist()
        return cls(threshold, accuracy, fmean(float(one.mean()) for one in sure), unsure)

    def expected(self, confidence: Numbers) -> float:
        """Return the accuracy to expect on images of which the model is so sure."""
        return float((confidence >= self.threshold).mean())


@dataclass(frozen=True, eq=False)
class Estimate:
    """How right a model may be on images without labels. Shares of 1; ``sentences`` say what they are worth."""

    expected: float
    confidence: float  # mean
    unsure: float  # share of the images that the model is less sure of than nearly all of those held out
    distances: Mapping[str, float]  # of their features to those of every source domain
    estimator: Estimator = field(repr=False)

    @property
    def range(self) -> tuple[float, float] | None:
        """The accuracy if this estimate is as wrong as those on the sites held out were; None where none was."""
        if errors := [estimate - found for estimate, found in self.estimator.tried.values()]:
            return max(0.0, self.expected - max(errors)), min(1.0, self.expected - min(errors))
        return None

    @property
    def sentences(self) -> list[str]:
        """Say what was estimated, how wrong such estimates were, and what they cannot tell."""
        return [*self._tried(), self._shift(), *self._looks_like(), CANNOT]

    def _tried(self) -> Iterator[str]:
        tried = self.estimator.tried
        if self.range is None:
            yield (
                "How wrong such an estimate may be is not known, as this model comes from no comparison: domainwise "
                "fit --from RESULTS trains one that knows."
            )
            return
        errors = {name: 100 * (estimate - found) for name, (estimate, found) in tried.items()}
        said = f"from {min(errors.values()):+.1f} to {max(errors.values()):+.1f}"
        if len(errors) <= NAMED:
            said = ", ".join(f"{legible(name)} {error:+.1f}" for name, error in errors.items())
        (low, high), count = self.range, len(tried)
        here = (
            f" As wrong as there, this one means {low:.1%} to {high:.1%}: if a new site is drawn like these {count}, "
            f"its accuracy lies there with probability {(count - 1) / (count + 1):.0%}."
        )
        yield (
            f"On sites that a comparison held out, such estimates were off by {fmean(map(abs, errors.values())):.1f} "
            f"points on average ({said}; above 0 is too much).{here if count > 1 else ''}"
        )

    def _shift(self) -> str:
        return (
            f"The model is sure of itself by {self.confidence:.1%} on average here, and by "
            f"{self.estimator.confidence:.1%} on images held out of its own domains, of which it was right on "
            f"{self.estimator.accuracy:.1%}; {self.unsure:.1%} of the images here are among the surprising ones, of "
            f"which there were {UNSURE:.0%} (confidence below {self.estimator.unsure:.2f})."
        )

    def _looks_like(self) -> Iterator[str]:
        features = self.estimator.features
        if features is None or not self.distances:
            yield NO_FEATURES
            return
        nearest = min(self.distances, key=lambda name: self.distances[name])
        between = features.between()
        apart = f"; the domains lie {min(between):.2f} to {max(between):.2f} apart" if between else ""
        beyond = bool(between) and self.distances[nearest] > max(between)
        far = " That is farther than any two of them, so that little speaks for the estimate." * beyond
        yield (
            f"By their features these images are nearest to {legible(nearest)} ({self.distances[nearest]:.2f} away, "
            f"where 1 is the scatter of single images){apart}.{far}"
        )


def plain_confidence(probabilities: Numbers, temperature: float) -> Numbers:
    """Return how sure a model is of each image, without the temperature that its probabilities have."""
    shares = np.asarray(probabilities, np.float64) ** temperature
    return np.asarray(shares.max(1) / shares.sum(1))


def of_trial(one: Outcome) -> Estimator:
    """Return the estimator of a trial's selected model, tried on the trial's own targets."""
    seen = outcomes.read(one)
    parts = {name: own["holdout"] for name, own in seen.items() if name not in one.trial.targets and "holdout" in own}
    # of an official split val is of other domains than those that are trained on
    held_out = [part for name, part in parts.items() if not ("id_val" in parts and name == "val")]
    if not held_out:
        raise InputError(f"{one.folder} holds no images out of domains that were trained on")
    estimator = Estimator.fitted(held_out)
    return replace(estimator, tried={name: _tried(estimator, seen[name], one.trial) for name in one.trial.targets})


def _tried(estimator: Estimator, parts: Mapping[str, Seen], trial: Trial) -> tuple[float, float]:
    """Return the estimate for a target, and its accuracy, on the part that tables are about."""
    tested = parts.values() if trial.test == "all" else [parts["main"]]
    confidence = np.concatenate([part.probabilities().max(1) for part in tested])
    right = np.concatenate([part.predicted == part.label for part in tested])
    return estimator.expected(confidence), float(right.mean())


def tried_on_targets(trials: Sequence[Outcome]) -> dict[str, tuple[float, float]]:
    """Return estimate and accuracy on every target of some trials, means over their seeds."""
    found: dict[str, list[tuple[float, float]]] = {}
    for one in trials:
        for name, pair in of_trial(one).tried.items():
            found.setdefault(name, []).append(pair)
    return {name: (fmean(a for a, _ in pairs), fmean(b for _, b in pairs)) for name, pairs in found.items()}


class Watched:
    """The mean of the features that a model computes, of all images it has seen."""

    def __init__(self) -> None:
        self.total, self.count = np.zeros(()), 0

    def add(self, head: object, given: tuple[Tensor, ...]) -> None:
        """Take a batch on its way into the head."""
        rows = given[0].detach().double().flatten(1)
        self.total, self.count = self.total + rows.sum(0).cpu().numpy(), self.count + len(rows)


@contextmanager
def watched(model: Model) -> Iterator[Watched]:
    """Watch the features of a model while it answers, which costs no second look at the images."""
    seen = Watched()
    handle = model.algorithm.net.head.register_forward_pre_hook(seen.add)
    try:
        yield seen
    finally:
        handle.remove()


def features_of(model: Model, data: Domains, trial: Trial) -> Features | None:
    """Return where the features of the source domains lie, by images held out; None of a model that has none alone."""
    if model.algorithm.extra_channels:
        return None
    rows = dict[str, Numbers]()
    for position, domain in enumerate(data):
        if domain.name not in trial.targets:
            _, held_out = split_domain(domain, position, trial.holdout, trial.seed)
            if not len(held_out):  # a tiny domain
                continue
            images = domain.images if domain.evaluation is None else domain.evaluation
            found = model.features(images[np.sort(held_out[:LOOKED_AT])])
            rows[domain.name] = found.reshape(len(found), -1).astype(np.float64)
    within = np.concatenate([own - own.mean(0) for own in rows.values()])
    means = np.stack([own.mean(0) for own in rows.values()])
    return Features(tuple(rows), tuple(map(len, rows.values())), means, within.std(0))


def estimate(estimator: Estimator, model: Model, probabilities: Numbers, seen: Watched) -> Estimate:
    """Return how right a model may be on images, from its probabilities and what was seen of their features."""
    sure = plain_confidence(probabilities, model.card.temperature)
    distances = estimator.features.distances(seen.total / seen.count, seen.count) if estimator.features else {}
    unsure = float((sure < estimator.unsure).mean())
    return Estimate(estimator.expected(sure), float(sure.mean()), unsure, distances, estimator)


def estimator_for(model: Model) -> Estimator:
    """Return what a model keeps for estimates, or else what lies beside it in the folder of its trial."""
    if model.card.estimator is not None:
        return model.card.estimator
    home = model.folder
    if home is not None and home.name.startswith("best") and (home.parent / "result.json").is_file():
        with suppress(InputError):
            average = str(model.config.get("average", "")) if model.config.get("which") == "average" else ""
            return of_trial(replace(outcome(home.parent), average=average))
    raise InputError(MISSING)


def to_bytes(one: Estimator) -> bytes:
    """Return an estimator as the content of a file."""
    about: dict[str, Any] = {"format": FORMAT, "tried": dict(one.tried)}
    about |= {name: getattr(one, name) for name in NUMBERS}
    arrays = {}
    if one.features:
        about |= {"domains": one.features.domains, "counts": one.features.counts}
        arrays = {name: getattr(one.features, name).astype(np.float32) for name in ARRAYS}
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **arrays)
    return file.getvalue()


def from_bytes(content: bytes) -> Estimator:
    """Return the estimator that a file holds; a ValueError where it makes no sense."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        about = json.loads(file["about"].tobytes())
        if about.get("format", FORMAT) != FORMAT:
            raise InputError(LATER)
        arrays = {name: file[name].astype(np.float64) for name in ARRAYS if name in file}
    tried = {str(name): (float(a), float(b)) for name, (a, b) in about["tried"].items()}
    numbers = {name: about[name] for name in NUMBERS}
    if not all(map(is_number, numbers.values())) or not all(is_share(x) for pair in tried.values() for x in pair):
        raise ValueError("what estimates start from makes no sense")
    features = Features(tuple(about["domains"]), tuple(about["counts"]), **arrays) if arrays else None
    return Estimator(**numbers, tried=tried, features=features)


FORMAT = 1
NO_FEATURES = "Which domain these images look most like is not known: this model keeps no features of its domains."
MISSING = (
    "how right the model may be here cannot be estimated: it was saved without what it made of images held out of its "
    "own domains, by an earlier version or in a folder taken apart. Train it again with domainwise fit --from RESULTS"
)
LATER = "what estimates start from was written by a later version of domainwise than this: load the model with that one"
ARRAYS, NUMBERS = ("means", "scatter"), ("threshold", "accuracy", "confidence", "unsure")
