"""Write the page of an evaluation: what a model answers on new data, in the look of a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from domainwise._version import __version__
from domainwise.data.decoded.image import ImageError, cut_out, image_bytes, read_rgb
from domainwise.data.sources.benchmarks import BENCHMARKS, recognised
from domainwise.errors import legible
from domainwise.experiment.metrics import interval
from domainwise.files import PAGE, check_output, write_output
from domainwise.report.evaluated import Rows, class_rows, confusion, domain_rows, guess_rows, mistakes, sentences
from domainwise.report.matplotlib_svg import Panel
from domainwise.report.page.classes import MOST, PAIRS, Matrix, matrix, tally_of
from domainwise.report.page.measures import ACCENT, diagrams
from domainwise.report.page.mistakes import FREE, Gallery, Shown, as_uri
from domainwise.report.page.page import filled
from domainwise.report.statistics import percent
from domainwise.report.svg_chart import Mark, curves
from domainwise.saved_models.estimate import Estimate
from domainwise.saved_models.evaluated import Answers, Evaluation

DOMAINS = 8  # that have room for a matrix, a diagram and pictures of their own


def write(one: Evaluation, path: Path, *, pictures: bool | None = None) -> Path:
    """Write the page to ``path``, which holds either the whole page or what was there before."""
    check_output(path, PAGE)
    return write_output(path, render(one, pictures=pictures), PAGE)


def render(one: Evaluation, *, pictures: bool | None = None) -> str:
    """Return the page as text; pictures of a named benchmark are in it only where ``pictures`` is True."""
    about = f"The model: {one.model}. Made with domainwise {__version__}."
    common = {"title": f"{one.data}, as the model sees it", "what": "evaluation", "running": "", "about": about}
    return filled("evaluated.html", **common, **(_right(one, pictures) if one.labelled else _guessed(one)))


def _right(one: Evaluation, pictures: bool | None) -> dict[str, Any]:
    """Return what a page shows where labels are known."""
    tallies = {answers.domain: {"": [tally_of(answers.scores)]} for answers in one.answers[:DOMAINS]}
    return {
        "headline": headline(one),
        "sentences": sentences(one),
        "domains": _numbers(*domain_rows(one)),
        "classes": _numbers(*class_rows(one)),
        "matrices": _matrices(one),
        "pairs": _pairs(one) if len(one.classes) > MOST else [],
        "mistakes": _gallery(one, pictures),
        "diagrams": diagrams(tallies),
    }


def _guessed(one: Evaluation) -> dict[str, Any]:
    """Return what a page shows where no label is known."""
    images = sum(map(len, one.answers))
    first, *others = sentences(one) or [""]
    tried = one.estimate.estimator.tried if one.estimate else {}
    return {
        "headline": first if one.estimate else f"{images:,} images without labels.",
        "sentences": others if one.estimate else [first, *others],
        "domains": None,
        "classes": _numbers(*guess_rows(one)),
        "tried": [_attempt(name, *pair) for name, pair in tried.items()],
        "diagrams": [_attempts(one.estimate)] if one.estimate and tried else [],
    }


def _attempt(name: str, estimate: float, found: float) -> tuple[str, list[tuple[str, str]]]:
    return name, [(percent(estimate), ""), (percent(found), ""), (f"{100 * (estimate - found):+.1f}", "")]


def _attempts(found: Estimate) -> Panel:
    """Draw accuracy against estimate: a dot for every site held out, and a line where the new estimate stands."""
    tried = [(100 * a, 100 * b) for a, b in found.estimator.tried.values()]
    low = min(0.95 * min(map(min, tried)), 95 * found.expected)
    even = Mark("line", [(low, low), (100, 100)], "currentColor", size=0.8, opacity=0.3)
    here = Mark("line", [(100 * found.expected, low), (100 * found.expected, 100)], "var(--bad)", size=1.2)
    dots = [Mark("dot", [at], ACCENT, size=6, opacity=0.75) for at in tried]
    return curves("accuracy at sites held out, %", "Accuracy against estimate", [even, here, *dots], "estimate, %")


def headline(one: Evaluation) -> str:
    """Say in a sentence how right the model is."""
    rights = {answers.domain: answers.scores["accuracy"] for answers in one.answers}
    if len(rights) == 1:
        low, high = map(percent, interval(one.accuracy, len(one.answers[0])))
        return f"{percent(one.accuracy)} % of these images are recognised (95 % interval {low} to {high})."
    worst, best = (choose(rights, key=lambda name: rights[name]) for choose in (min, max))
    return (
        f"{percent(one.accuracy)} % are recognised, mean over {len(rights)} domains: from {percent(rights[worst])} on "
        f"{legible(worst)} to {percent(rights[best])} on {legible(best)}."
    )


def _numbers(head: Sequence[str], rows: Rows) -> tuple[Sequence[str], Any]:
    return head[1:], [(name, [(text, "") for text in cells]) for name, *cells in rows]


def _matrices(one: Evaluation) -> list[Matrix]:
    """Return a matrix for every domain, and first that of all together; none where there are too many classes."""
    if len(one.classes) > MOST:
        return []
    found = {answers.domain: tally_of(answers.scores) for answers in one.answers}
    first, *others = found.values()
    together = {"all domains": sum(others, first)} if others else {}
    shown = {**together, **dict([*found.items()][:DOMAINS])}
    return [matrix(name, tally, one.classes) for name, tally in shown.items()]


def _pairs(one: Evaluation) -> Rows:
    table = confusion(one)
    wrong = np.where(np.eye(len(table), dtype=bool), 0, table)
    order = np.argsort(-wrong, axis=None, kind="stable")[:PAIRS]
    rows = [divmod(int(at), len(table)) for at in order if wrong.flat[at]]
    return [
        [one.classes[i], one.classes[j], str(int(table[i, j])), percent(table[i, j] / table[i].sum())] for i, j in rows
    ]


def _gallery(one: Evaluation, pictures: bool | None) -> Gallery:
    names = {answers.domain for answers in one.answers}
    if pictures is None:
        theirs = any(map(recognised, (names, names | one.known_domains)))  # one domain of a benchmark is of it too
        pictures = one.data == FREE or not (one.data in BENCHMARKS or theirs)
    note = "" if pictures else "Pictures of a benchmark are put into a page only where they are asked for: --pictures."
    found: dict[str, list[Shown]] = {}
    for answers, at, said in mistakes(one):
        if answers.domain in found or len(found) < DOMAINS:
            assert answers.labels is not None
            words = f"{one.classes[answers.labels[at]]} → {one.classes[answers.probabilities[at].argmax()]}"
            found.setdefault(answers.domain, []).append(Shown(_picture(answers, at) if pictures else "", words, said))
    return Gallery("", found, note)


def _picture(answers: Answers, at: int) -> str:
    """Return the image as a small file within the page; nothing where it is a row of numbers, or is gone."""
    from domainwise.data.inspect import picture_of

    if answers.images is not None:
        return as_uri(picture_of(answers.images[at])) if answers.images.ndim == 4 else ""
    try:
        image: Image.Image = cut_out(read_rgb(image_bytes(answers.names[at]))[0], answers.boxes[at])
    except ImageError:
        return ""
    return as_uri(image)
