"""Keep beside a model what its users should know: what to expect at a new site, what it was made from, a card to read.

``card.json`` says it to programs and ``README.md`` to people; ``made_from.npy`` has a hash of every image, and
``estimate.npz`` what estimates without labels start from.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from domainwise._version import __version__
from domainwise.data.domains import Domains
from domainwise.errors import InputError, legible, warn
from domainwise.experiment import integrity
from domainwise.experiment.integrity import is_number, is_share
from domainwise.experiment.records import publish
from domainwise.experiment.trial import Trial
from domainwise.files import write_output
from domainwise.networks.forms import extent_of, form_of
from domainwise.saved_models.build import layout_of
from domainwise.saved_models.estimate import Estimator, from_bytes, to_bytes

CARD, MADE_FROM, ESTIMATE, README = "card.json", "made_from.npy", "estimate.npz", "README.md"
FORMAT = 1
PLACE = "THIS_FOLDER"  # stands in a card for where the model is
SETTINGS = (
    "freeze_batch_norm", "dropout", "augment", "batch", "balanced", "class_weights", "steps", "evaluate_every",
    "holdout", "selection", "precision", "seed",
)  # fmt: skip
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Expectation:
    """Say how right a model will be at a new site, from a comparison that held each site out. Shares of 1."""

    label: str  # what was compared, as tables call it
    sites: Mapping[str, float]  # accuracy at each site when it was held out
    known: float | None = None  # accuracy on new images of sites that were trained on
    worst_classes: tuple[tuple[str, float], ...] = ()
    temperature: float = 1.0  # of the logits, so that probabilities are those of a new site

    @property
    def expected(self) -> tuple[float, float]:
        """The range of the accuracies at the sites."""
        return min(self.sites.values()), max(self.sites.values())

    @property
    def chance(self) -> float:
        """The probability that the range of these sites covers one more, drawn as they were."""
        return (len(self.sites) - 1) / (len(self.sites) + 1)

    def __str__(self) -> str:
        said = ", ".join(f"{legible(name)} {value:.1%}" for name, value in self.sites.items())
        if len(self.sites) < 2:
            return f"What to expect at a new site cannot be told from the one that was held out: {said}."
        low, high = self.expected
        known = "" if self.known is None else f" On new images of sites that it knows it is right on {self.known:.1%}."
        worst = ", ".join(f"{legible(name)} ({value:.1%})" for name, value in self.worst_classes)
        return (
            f"At a new site expect {low:.1%} to {high:.1%} right. Held out one at a time, the sites gave {said}: if a "
            f"new one is drawn like these {len(self.sites)}, it lies in that range with probability {self.chance:.0%}."
            + known
            + f" It recognises least of: {worst}." * bool(worst)
        )


@dataclass(frozen=True)
class Card:
    """Hold what users should know of a model; all of it may be missing."""

    expected: Expectation | None = None
    made_from: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64), repr=False, compare=False)
    estimator: Estimator | None = field(default=None, repr=False, compare=False)

    @property
    def temperature(self) -> float:
        """The temperature to divide logits by."""
        return self.expected.temperature if self.expected else 1.0

    @property
    def sentences(self) -> list[str]:
        """Sentences on what predictions are worth: what to expect at a new site, and the temperature."""
        if self.expected is None:
            return []
        if self.temperature == 1:
            return [str(self.expected)]
        return [
            str(self.expected),
            f"Probabilities have the temperature {self.temperature:.3g}, which fits the sites that were held out.",
        ]

    def knows(self, image: npt.NDArray[Any]) -> bool:
        """Whether the model was made from this very image, of the size that the network sees."""
        at = np.searchsorted(self.made_from, one := image_hash(image))
        return bool(at < len(self.made_from) and self.made_from[at] == one)


def image_hash(image: npt.NDArray[Any]) -> np.uint64:
    """Return 64 bits that tell the pixels of an image from those of others."""
    pixels = np.ascontiguousarray(image)
    digest = hashlib.blake2b(pixels.tobytes(), digest_size=8, salt=str(pixels.shape).encode()[:16])
    return np.uint64(int.from_bytes(digest.digest(), "big"))


def image_hashes(data: Domains, side: int) -> Hashes:
    """Return the hashes of all images of the size that a network sees, in order; none where they have another size.

    What are no images have no size: then ``side`` is 0. Images of floats are in no file, so they have none either.
    """
    if side and (data.evaluation_shape[:2] != (side, side) or data.items[0].images.dtype != np.uint8):
        return np.zeros(0, np.uint64)
    arrays = [domain.images if domain.evaluation is None else domain.evaluation for domain in data]
    return np.unique(np.array([image_hash(image) for array in arrays for image in array], np.uint64))


def write(
    home: Path,
    data: Domains,
    trial: Trial,
    config: Mapping[str, Any],
    expected: Expectation | None,
    estimator: Callable[[], Estimator | None] = lambda: None,
) -> None:
    """Write the card of a saved model, unless it is there and says the same; hashing all images takes a while.

    Where nothing is expected now, what an earlier call expected stays.
    """
    try:
        card = read(home)
        if (home / CARD).is_file() and (home / README).is_file() and expected in (None, card.expected):
            return
        expected = expected or card.expected
    except InputError as error:
        if (home / CARD).is_file() and not expected:
            warn(f"{error}: what a comparison let one expect of the model is lost; fit --from says it again")
        for name in (CARD, MADE_FROM):  # or the model could not be loaded to say what estimates start from
            integrity.make_way(home / name)
            (home / name).unlink(missing_ok=True)
    for name in (CARD, MADE_FROM, ESTIMATE, README):
        integrity.make_way(home / name)
    found = estimator()
    file = io.BytesIO()
    np.save(file, image_hashes(data, config["input_size"]), allow_pickle=False)
    write_output(home / MADE_FROM, file.getvalue())
    if found:
        write_output(home / ESTIMATE, to_bytes(found))
    content = {
        "format": FORMAT,
        "domainwise": __version__,
        "data": data.name,
        "fingerprint": data.fingerprint,
        "expected": asdict(expected) if expected else None,
        "files": {name: integrity.digest(home / name) for name in (MADE_FROM, *([ESTIMATE] if found else []))},
    }
    publish(home / CARD, integrity.sealed(content))
    write_output(home / README, text(data, trial, config, expected))


def read(home: Path) -> Card:
    """Return what is known of a saved model, nothing where it has no card; an InputError where that is damaged."""
    if not any(os.path.lexists(home / name) for name in (CARD, MADE_FROM)):
        return Card()
    content = integrity.read(home / CARD)
    if "format" not in content:
        raise integrity.Damaged(home / CARD, "is damaged: it is no card of a model")
    if content.get("format") != FORMAT:
        raise InputError(
            f"{home / CARD} is of a later version of domainwise than this, {content.get('domainwise', 'unknown')}: use "
            f"that version, or delete it and {MADE_FROM} to predict without them"
        )
    expected = content.get("expected")
    try:
        known = content["files"][MADE_FROM]
        integrity.verify(home / MADE_FROM, known)
        made_from = np.load(home / MADE_FROM, allow_pickle=False)
        return Card(_expectation(expected) if expected else None, made_from, _estimator(home, content["files"]))
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OSError, EOFError) as error:
        raise integrity.Damaged(home / CARD, f"is damaged: it is no card of a model ({error})") from error


def _estimator(home: Path, files: Mapping[str, Any]) -> Estimator | None:
    if ESTIMATE not in files:  # of an earlier version, or without outcomes
        return None
    integrity.verify(home / ESTIMATE, files[ESTIMATE])
    return from_bytes((home / ESTIMATE).read_bytes())


def _expectation(content: Mapping[str, Any]) -> Expectation:
    worst = tuple((str(name), share) for name, share in content["worst_classes"])
    made = Expectation(**{**content, "worst_classes": worst})
    shares = [made.known, *made.sites.values(), *(share for _, share in worst)]
    fits = all(map(is_share, shares)) and None not in made.sites.values() and is_number(made.temperature)
    if not made.sites or not fits or not made.temperature > 0:
        raise ValueError("what is expected makes no sense")
    return made


def text(data: Domains, trial: Trial, config: Mapping[str, Any], expected: Expectation | None) -> str:
    """Return the model card, in Markdown."""
    parts = [*_head(trial, config), *_expected(expected), *_data(data), *_made(trial, config)]
    return "\n\n".join(parts) + "\n"


def shared_text(home: Path, config: Mapping[str, Any], name: str) -> str:
    """Return the card of a model that others load by ``name``; a model that was kept without one gets a short one."""
    trial = Trial.from_json(config["trial"])
    with suppress(OSError, ValueError):
        return (home / README).read_text(encoding="utf-8").replace(PLACE, name)
    return "\n\n".join([*_head(trial, config, name), *_made(trial, config)]) + "\n"


def _head(trial: Trial, config: Mapping[str, Any], place: str = PLACE) -> Iterable[str]:
    classes = config["classes"]
    yield f"# Model card: {_plain(trial.label or trial.algorithm)}, trained on {_plain(trial.data)}"
    yield f"It says which of {len(classes)} classes an input belongs to: {_listed(classes)}."
    if form_of(layout_of(config)) == "images":
        yield f"```bash\ndomainwise predict {place} IMAGES... -o predictions.csv\n```"
    else:
        yield f"```python\ndomainwise.load({place!r}).predict(ARRAY)\n```"


def _expected(expected: Expectation | None) -> Iterable[str]:
    yield "## What to expect at a new site"
    if expected is None:
        yield "It is not known: no domain was held out. `domainwise compare` holds out each in turn."
        return
    yield _plain(str(expected))
    yield _table(("held out", "right"), {_plain(name): f"{value:.1%}" for name, value in expected.sites.items()})
    yield (
        f"Probabilities are those of logits divided by {expected.temperature:.3g}, the temperature that fits the sites "
        "that were held out. Being right on images that the model was made from says nothing of new ones."
    )


def _data(data: Domains) -> Iterable[str]:
    yield f"## Data\n\n{_plain(data.name)}, fingerprint `{data.fingerprint}`. A part of each domain chose the step."
    counts = [np.bincount(domain.labels, minlength=len(data.classes)) for domain in data]
    rows = {_plain(domain.name): str(len(domain)) for domain in data}
    yield _table(("domain", data.form), rows)
    missing = [
        f"{_plain(domain.name)} has no {_listed([data.classes[i] for i in np.flatnonzero(count == 0)])}."
        for domain, count in zip(data, counts, strict=True)
        if (count == 0).any()
    ]
    if missing:
        yield " ".join(missing)


def _made(trial: Trial, config: Mapping[str, Any]) -> Iterable[str]:
    yield "## How it was made"
    side, channels = config["input_size"], config["channels"]
    rows = {
        "algorithm": trial.algorithm,
        **{name: str(value) for name, value in trial.used.items()},
        "network": trial.network,
        "weights": trial.weights,
        "input": f"{side} x {side}, {channels} channel{'s' * (channels != 1)}"
        if side
        else extent_of(layout_of(config)),
        "mean": ", ".join(f"{value:g}" for value in config["mean"]),
        "deviation": ", ".join(f"{value:g}" for value in config["std"]),
        **{name: str(getattr(trial, name)) for name in SETTINGS},
        "average": config.get("average", "none"),
        "selected step": str(config["step"]),
        "validation accuracy": "unknown" if config.get("validation") is None else f"{config['validation']:.1%}",
        "made with": f"domainwise {__version__}",
    }
    yield _table(("setting", "value"), {name: _plain(value) for name, value in rows.items()})


def _table(head: tuple[str, str], rows: Mapping[str, str]) -> str:
    lines = [f"| {' | '.join(head)} |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())]
    return "\n".join(lines)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(_plain, names))


def _plain(name: str) -> str:
    """A name without what Markdown, or a terminal, would take for more than letters."""
    said = legible(name)
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>#|" else letter for letter in said)
