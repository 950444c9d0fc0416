"""Show the worst mistakes of the recommended row: images of the targets that it surely takes for another class."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from domainwise.data.sources.benchmarks import BENCHMARKS, recognised
from domainwise.data.splits import is_official
from domainwise.errors import InputError, counted
from domainwise.experiment import outcomes as kept
from domainwise.experiment.results import Outcome
from domainwise.report.grid import arrange
from domainwise.report.page.classes import class_names, tallies
from domainwise.report.recommend import Recommendation

if TYPE_CHECKING:
    from PIL import Image

    from domainwise.data.domains import Domain, Domains

SHOWN = 8  # mistakes of one target
TARGETS = 8  # that have room on a page
SIDE = 96  # pixels of a picture
CANDIDATES = 50  # of every seed; what is worst in the mean over seeds is among the worst of one of them
FREE = "digits"  # comes with the package: its pictures may stand anywhere

MISSING = (
    "Single mistakes are not known: these trials kept no outcomes.npz, or it is damaged. Trials that are run with this "
    "version keep one."
)


@dataclass(frozen=True)
class Mistake:
    """An image that is taken for another class, by its position in the domain."""

    position: int
    label: int
    taken: int
    confidence: float  # mean over seeds
    seeds: int


@dataclass(frozen=True)
class Shown:
    """A mistake as a page shows it."""

    picture: str  # a data URI, or empty
    words: str
    told: str  # to hover over


@dataclass(frozen=True)
class Gallery:
    """The worst mistakes of one row on every target, and what is missing."""

    algorithm: str
    targets: Mapping[str, Sequence[Shown]]
    note: str


def gallery(
    row: Recommendation, outcomes: Sequence[Outcome], data: Domains | None, pictures: bool | None = None
) -> Gallery:
    """Return the worst mistakes of the recommended row, with pictures where ``data`` is what was compared.

    Pictures of a named benchmark are shown only where ``pictures`` is True: it may not be ours to pass them on.
    """
    grid = arrange([one for one in outcomes if one.trial.targets])
    trials = [one for group in grid[row.label].values() for one in group.values()]
    found: dict[str, list[Mistake]] = {}
    try:
        for target in list(dict.fromkeys(name for one in trials for name in one.trial.targets))[:TARGETS]:
            found[target] = worst([one for one in trials if target in one.trial.targets], target)
    except InputError:
        return Gallery(row.label, {}, MISSING)
    shown, note = _pictured(data, row.trial.fingerprint, pictures)
    some = {row.label: grid[row.label]}
    names = data.classes if data else class_names(some, tallies(some), next(iter(grid[row.label])))
    content = {
        target: [_shown(one, names, *_place(shown, target, one.position)) for one in mistakes]
        for target, mistakes in found.items()
        if mistakes
    }
    return Gallery(row.label, content, note)


def worst(trials: Sequence[Outcome], target: str) -> list[Mistake]:
    """Return the images of a target whose wrong class is most probable, mean over the seeds tested on them."""
    parts = [part for one in trials for part in kept.read(one)[target].values()]
    rows: dict[int, list[tuple[int, kept.Numbers]]] = {}
    candidates: set[int] = set()
    for part in parts:
        shares = part.probabilities().max(1)
        wrong = np.flatnonzero(part.predicted != part.label)
        candidates |= {*part.index[wrong[np.argsort(-shares[wrong], kind="stable")[:CANDIDATES]]].tolist()}
    for part in parts:
        chosen = np.flatnonzero(np.isin(part.index, list(candidates)))
        shares = part.probabilities()[chosen]
        for at, label, own in zip(part.index[chosen], part.label[chosen], shares, strict=True):
            rows.setdefault(int(at), []).append((int(label), own))
    found = [_mistake(at, seen) for at, seen in sorted(rows.items())]
    return sorted((one for one in found if one.taken != one.label), key=lambda one: -one.confidence)[:SHOWN]


def _mistake(position: int, seen: Sequence[tuple[int, kept.Numbers]]) -> Mistake:
    mean = np.mean([shares for _, shares in seen], 0)
    taken = int(np.argmax(mean))
    return Mistake(position, seen[0][0], taken, float(mean[taken]), len(seen))


def _pictured(data: Domains | None, fingerprint: str, pictures: bool | None) -> tuple[Domains | None, str]:
    """Return the data to take pictures from, or a sentence that says why there are none."""
    if data is None:
        return None, "Their pictures are shown where the data are named: domainwise report DIR --data DATA."
    if data.known_as(fingerprint).fingerprint != fingerprint:
        return None, "There are no pictures: the data that were named are not those of this comparison."
    if data.form != "images":
        return None, "There are no pictures of what are no images."
    if pictures is None:
        pictures = data.name == FREE or not (data.name in BENCHMARKS or recognised(data.names))
    if not pictures:
        return None, "Pictures of a benchmark are put into a page only where they are asked for: --pictures."
    return data, ""


def _place(data: Domains | None, target: str, position: int) -> tuple[Domain | None, int]:
    """Return the domain of a picture, and its position there: an official split counts those of all domains as one."""
    if data is None:
        return None, position
    if not is_official(data, [target]):
        return data[target], position
    ends = np.cumsum([len(domain) for domain in data])
    i = int(np.searchsorted(ends, position, side="right"))
    return data.items[i], position - int(ends[i]) + len(data.items[i])


def _shown(one: Mistake, names: Sequence[str], domain: Domain | None, position: int) -> Shown:
    label, taken = (names[i] if i < len(names) else str(i) for i in (one.label, one.taken))
    many = counted(one.seeds, "seed")
    told = (
        f"image {one.position}: {label}, taken for {taken} with a confidence of {100 * one.confidence:.0f} % ({many})"
    )
    return Shown(_picture(domain, position) if domain else "", f"{label} → {taken}", told)


def _picture(domain: Domain, position: int) -> str:
    """Return the image as it was evaluated, as a small file within the page."""
    from domainwise.data.inspect import picture_of

    images = domain.images if domain.evaluation is None else domain.evaluation
    return as_uri(picture_of(images[position]))


def as_uri(image: Image.Image) -> str:
    """Return a picture as a small file within a page."""
    from domainwise.data.inspect import thumb

    content = io.BytesIO()
    thumb(image, SIDE).save(content, "JPEG", quality=85)
    return f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode()}"
