"""Try a trained model on new data, and hold what it answers: how right it is, or may be where labels are missing."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from domainwise.data.decoded.image import Box
from domainwise.data.domains import Domain, Domains, Labels, Values
from domainwise.data.sources.listing import File
from domainwise.data.sources.new_data import Found, check_labels, find_new
from domainwise.data.sources.values import given_inputs
from domainwise.errors import InputError, legible, some
from domainwise.experiment.metrics import METRICS, counted
from domainwise.experiment.records import Scores
from domainwise.saved_models.card import Expectation
from domainwise.saved_models.estimate import Estimate, estimate, estimator_for, watched
from domainwise.saved_models.predict import Prediction, predictions
from domainwise.terminal import lively, pace

if TYPE_CHECKING:
    from domainwise.saved_models.model import Model

Shares = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False, repr=False)
class Answers:
    """Hold a model's answers on the images of one domain: the probability of every class, a row for each image."""

    domain: str
    names: Sequence[str]  # of the images: files, or their positions
    probabilities: Shares  # (N, classes)
    labels: Labels | None = None  # (N,), positions in the classes of the model
    made_from: int = 0  # images that the model was made from
    images: Values | None = None  # where they are arrays
    boxes: Sequence[Box] = ()  # where they are parts of files

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def scores(self) -> Scores:
        """The accuracy, the loss, and the counts that other metrics follow from."""
        assert self.labels is not None
        return counted(self.labels, self.probabilities)

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Every metric of :data:`domainwise.experiment.metrics.METRICS`; nan where one is not defined."""
        assert self.labels is not None
        return {name: metric.of(self.labels, self.probabilities) for name, metric in METRICS.items()}

    def mistakes(self, most: int) -> list[int]:
        """Return the positions of the images that are taken for another class, the surest first."""
        assert self.labels is not None
        wrong = np.flatnonzero(self.probabilities.argmax(1) != self.labels)
        sure = self.probabilities[wrong].max(1)
        return [int(i) for i in wrong[np.argsort(-sure, kind="stable")[:most]]]


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Hold a model's answers on new data: ``table()`` prints, ``report(path)`` draws a page, ``answers`` has the rows.

    Accuracies are shares of 1.
    """

    model: str  # in a line
    data: str
    classes: tuple[str, ...]
    answers: tuple[Answers, ...]
    unreadable: tuple[Prediction, ...] = ()
    notes: tuple[str, ...] = ()
    expected: Expectation | None = field(default=None, repr=False)
    estimate: Estimate | None = field(default=None, repr=False)  # without labels
    known_domains: frozenset[str] = frozenset()  # to the model

    @property
    def labelled(self) -> bool:
        """Whether the labels of the images are known."""
        return all(one.labels is not None for one in self.answers)

    @property
    def accuracy(self) -> float:
        """The accuracy, mean over the domains."""
        self.require_labels()
        return fmean(one.scores["accuracy"] for one in self.answers)

    def require_labels(self) -> None:
        """Refuse to say how right answers are where no label is known."""
        if not self.labelled:
            raise InputError(f"the images of {self.data} have no labels, so that how right the model is is not known")

    def table(self, format: str = "table") -> str:
        """Return the tables as text: "table", "markdown", "csv" or "json"; the last two have every digit."""
        return str(_shown().table(self, format))

    def report(self, path: Path | str, *, pictures: bool | None = None) -> Path:
        """Write the page, one file of HTML, and return its path.

        The worst mistakes are shown as pictures; those of a named benchmark only where ``pictures`` is True.
        """
        return Path(_shown("page.evaluated").write(self, Path(path), pictures=pictures))

    def __repr__(self) -> str:
        sizes = some(f"{one.domain} {len(one):,}" for one in self.answers)
        guess = f", accuracy estimated as {self.estimate.expected:.1%}" if self.estimate else ""
        right = f"accuracy {self.accuracy:.1%}" if self.labelled else f"no labels{guess}"
        return f"<Evaluation of {self.model} on {self.data}: {sizes}; {right}>"

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        """Return the tables, as a notebook shows them."""
        return str(_shown().notebook(self))


def _shown(by: str = "evaluated") -> Any:
    """Return a module that shows an evaluation. It stands above this one, and is loaded where it is asked for."""
    return import_module(f"domainwise.report.{by}")


def evaluated(
    model: Model, data: Domains | Mapping[str, Any] | str | os.PathLike[str], *, progress: bool | None = None
) -> Evaluation:
    """Return what a model answers on data: domains, arrays by domain, a folder of images, a manifest, a benchmark."""
    source = find_new(os.fspath(data), model.classes) if isinstance(data, str | os.PathLike) else data
    with watched(model) as features:
        if isinstance(source, Found):
            answers, unreadable = _of_files(model, source, progress)
            name, notes = source.name, [*source.notes]
        else:
            answers, unreadable, notes = [*_of_arrays(model, source)], [], []
            name = source.name if isinstance(source, Domains) else "arrays"
    notes += _known_images(model, answers)
    found, missing = None, list[str]()
    with _noted(missing):
        shares = np.concatenate([one.probabilities for one in answers])
        found = estimate(estimator_for(model), model, shares, features)
    notes += missing if any(one.labels is None for one in answers) else []
    trial = model.config["trial"]
    about = legible(f"{trial['label'] or trial['algorithm']}, {trial['network']}, trained on {trial['data']}")
    return Evaluation(
        about, name, model.classes, tuple(answers), tuple(unreadable), tuple(notes), model.card.expected, found,
        frozenset(model.config.get("domains", ())),
    )  # fmt: skip


@contextmanager
def _noted(notes: list[str]) -> Iterator[None]:
    """Note what is missing, where that is all that goes wrong."""
    try:
        yield
    except InputError as error:
        notes.append(str(error))


def _of_files(model: Model, found: Found, progress: bool | None) -> tuple[list[Answers], list[Prediction]]:
    files, seen = found.files, []
    with pace("images", quiet=not lively(progress)) as tick:
        answered = predictions(model, [file.path for file in files], boxes=[file.box for file in files])
        for file, one in zip(files, answered, strict=True):
            seen.append((file, one))
            tick(len(seen), len(files))
    unreadable = [one for _, one in seen if one.probabilities is None]
    position = {name: i for i, name in enumerate(model.classes)}
    by_domain: dict[str, list[tuple[File, Prediction]]] = {}
    for file, one in seen:
        if one.probabilities is not None:
            by_domain.setdefault(file.domain, []).append((file, one))
    answers = []
    for domain, own in by_domain.items():
        rows = np.stack([one.probabilities for _, one in own if one.probabilities is not None])
        labels = np.array([position[file.class_name] for file, _ in own], np.int64) if found.labelled else None
        names, known = [file.path for file, _ in own], sum(one.made_from for _, one in own)
        answers.append(Answers(domain, names, rows, labels, known, boxes=[file.box for file, _ in own]))
    if not answers:
        raise InputError(
            f"none of the {len(files):,} files of {found.name} can be read as an image, the first being "
            f"{legible(unreadable[0].file)} ({unreadable[0].problem})"
        )
    return answers, unreadable


def _of_arrays(model: Model, data: Domains | Mapping[str, Any]) -> Iterator[Answers]:
    if isinstance(data, Domains):
        check_labels(_counts(data), model.classes, data.name)
        position = np.array([model.classes.index(name) if name in model.classes else -1 for name in data.classes])
    for domain in data if isinstance(data, Domains) else data.items():
        if isinstance(domain, Domain):
            images = domain.images if domain.evaluation is None else domain.evaluation
            name, labels = domain.name, position[domain.labels]
        else:
            name, (images, given) = str(domain[0]), _pair(*domain)
            labels = _positions(name, given, model.classes)
        rows = model.probabilities(images)
        if len(rows) != len(labels) or not len(rows):
            raise InputError(f'domain "{name}" has {len(rows)} images and {len(labels)} labels')
        array: Any = np.asarray(images) if model.form == "images" else np.zeros(0)
        told = len(model.card.made_from) and model.form in ("images", "rows", "signals")
        known = sum(map(model.card.knows, given_inputs(images, model.layout))) if told else 0
        yield Answers(name, [f"image {i} of {name}" for i in range(len(rows))], rows, labels, known, array)


def _counts(data: Domains) -> Counter[str]:
    counts = sum(np.bincount(domain.labels, minlength=len(data.classes)) for domain in data)
    return Counter(dict(zip(data.classes, np.asarray(counts).tolist(), strict=True)))


def _pair(name: object, given: object) -> Sequence[Any]:
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != 2:
        raise InputError(f'domain "{name}" is given as (images, labels), got an object of type {type(given).__name__}')
    return given


def _positions(name: str, given: object, classes: Sequence[str]) -> Labels:
    """Return labels that are names of classes, or whole numbers, as positions in the classes of a model."""
    labels = np.asarray(given)
    if labels.ndim != 1 or labels.dtype.kind not in "iuUO":
        raise InputError(
            f'the labels of domain "{name}" are a row of names or of whole numbers, got {labels.dtype} {labels.shape}'
        )
    if labels.dtype.kind in "iu":
        if len(labels) and not 0 <= labels.min() <= labels.max() < len(classes):
            raise InputError(
                f'domain "{name}" has labels from {labels.min()} to {labels.max()}, and the classes of this model are '
                f"numbered from 0 to {len(classes) - 1}"
            )
        return labels.astype(np.int64)
    check_labels(Counter(map(str, labels)), classes, f'domain "{name}"')
    return np.array([classes.index(str(label)) for label in labels], np.int64)


def _known_images(model: Model, answers: Sequence[Answers]) -> Iterator[str]:
    """Say whether the model was made from these images: by their hashes, or as far as names of domains tell."""
    total, about = sum(map(len, answers)), "being right on those says nothing of new ones"
    if len(model.card.made_from):
        if known := sum(one.made_from for one in answers):
            yield f"the model was made from {known:,} of these {total:,} images: {about}"
        return
    trained = {*model.config.get("domains", ())} - {*model.config["trial"]["targets"]}
    if same := [one.domain for one in answers if one.domain in trained]:
        yield f"the model was trained on domains of these names ({some(same)}); if they are the same images, {about}"
