"""Write what a model answers on new data as tables of text, as CSV and JSON, and for a notebook."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from domainwise.errors import InputError, legible
from domainwise.experiment.metrics import METRICS, calibration_error, interval, per_class, whole
from domainwise.files import PAGE, check_output, write_output
from domainwise.report.formats import csv_table, json_text, markdown_table, text_table, writer
from domainwise.report.statistics import shown
from domainwise.saved_models.evaluated import Answers, Evaluation

DASH = "\N{EN DASH}"
MISTAKES = 8  # of one domain
CSV_HEAD = ("domain", "class", "metric", "value")
BEGINNING = rb'domain,class,metric,value\n|\{\n "evaluated": '  # of files that are written here
Rows = list[list[str]]

Draw = Callable[[Sequence[str], Rows], str]


def table(one: Evaluation, format: str = "table") -> str:
    """Return the tables as text in a format; CSV and JSON have every digit."""
    return writer(format, FORMATS)(one)


def check_place(path: Path) -> None:
    """Refuse a file that would be no page, CSV or JSON, and one that was not made here, before the work."""
    if path.is_dir():
        raise InputError(f"{path} is a folder: give a file, as in -o {path / 'evaluation.html'}")
    if path.suffix.lower() not in (".html", ".csv", ".json"):
        raise InputError(f'an evaluation is written as a page, CSV or JSON: let "{path}" end in .html, .csv or .json')
    check_output(path, PAGE if path.suffix.lower() == ".html" else BEGINNING)


def save(one: Evaluation, path: Path, *, pictures: bool | None = None) -> Path:
    """Write the file that its ending says."""
    check_place(path)
    if path.suffix.lower() == ".html":
        return one.report(path, pictures=pictures)
    return write_output(path, table(one, path.suffix.lower()[1:]), BEGINNING)


def domain_rows(one: Evaluation) -> tuple[list[str], Rows]:
    """Return the head and a row for every domain, in percent; the mean over several comes last."""
    head = ["domain", "images", "accuracy", "95 % interval", *(METRICS[name].title for name in BESIDE), "calib. error"]
    rows = [_domain_row(answers) for answers in one.answers]
    if len(rows) > 1:
        means = [fmean(values) for values in zip(*map(_numbers, one.answers), strict=True)]
        first, *others = map(_percent, means)
        rows.append(["mean", str(sum(map(len, one.answers))), first, "", *others])
    return head, rows


BESIDE = [name for name in METRICS if name != "accuracy"]


def _numbers(answers: Answers) -> list[float]:
    error = calibration_error(answers.scores["calibration"])
    return [answers.metrics["accuracy"], *(answers.metrics[name] for name in BESIDE), error]


def _domain_row(answers: Answers) -> list[str]:
    accuracy, *others = _numbers(answers)
    low, high = map(_percent, interval(accuracy, len(answers)))
    return [answers.domain, str(len(answers)), _percent(accuracy), f"{low} to {high}", *map(_percent, others)]


def _percent(value: float | None) -> str:
    return shown(None if value is None or math.isnan(value) else value)


def class_rows(one: Evaluation) -> tuple[list[str], Rows]:
    """Return the head and a row for every class that occurs, over all domains together."""
    table = confusion(one)
    rows = []
    for i, (recall, precision, f1) in enumerate(per_class(table.tolist())):
        wrong = table[i].copy()
        wrong[i] = 0
        most = f"{one.classes[wrong.argmax()]} ({int(wrong.max())})" if wrong.any() else ""
        if table[i].any() or table[:, i].any():
            numbers = [_percent(recall), _percent(precision), _percent(f1)]
            rows.append([one.classes[i], str(int(table[i].sum())), *numbers, most])
    return ["class", "images", "recognised", "precision", "F1", "most often taken for"], rows


def confusion(one: Evaluation) -> Any:
    """Return how many images of every class were taken for which, over all domains together."""
    return np.sum([whole(answers.scores["confusion"]) for answers in one.answers], 0)


def sentences(one: Evaluation) -> list[str]:
    """Say what the numbers are worth: what a comparison let one expect, what was left out, what the model knows."""
    said = []
    if one.estimate and one.labelled:
        said.append(f"Without labels the estimate would have been {one.estimate.expected:.1%}.")
    elif one.estimate:
        said += [f"Expected accuracy: {one.estimate.expected:.1%}, estimated without labels.", *one.estimate.sentences]
    if one.labelled and one.expected and len(one.expected.sites) > 1:
        low, high = one.expected.expected
        said.append(
            f"A comparison let one expect {low:.1%} to {high:.1%} at a new site; here it is {one.accuracy:.1%}."
        )
    if one.unreadable:
        first, many = one.unreadable[0], len(one.unreadable)
        total = many + sum(map(len, one.answers))
        said.append(
            f"{many:,} of {total:,} files cannot be read as images and are left out, the first of them "
            f"{first.file} ({first.problem})."
        )
    return [*said, *(f"{note[:1].upper()}{note[1:]}." for note in one.notes)]


def mistakes(one: Evaluation) -> list[tuple[Answers, int, str]]:
    """Return the images of every domain that are taken for another class most surely, each with a sentence."""
    found = []
    for answers in one.answers if one.labelled else ():
        for i in answers.mistakes(MISTAKES):
            assert answers.labels is not None
            row = answers.probabilities[i]
            is_it, taken = one.classes[answers.labels[i]], one.classes[row.argmax()]
            said = f"{answers.names[i]}: {is_it}, taken for {taken} with a confidence of {100 * row.max():.0f} %"
            found.append((answers, i, said))
    return found


def _as_text(one: Evaluation) -> str:
    return _parts(one, text_table, legible) + "\n"


def _as_markdown(one: Evaluation) -> str:
    return _parts(one, markdown_table, str) + "\n"


def _parts(one: Evaluation, draw: Draw, plain: Callable[[str], str]) -> str:
    tables = [draw(head, [[*map(plain, row)] for row in rows]) for head, rows in tables_of(one)]
    surest = sorted(mistakes(one), key=lambda found: -found[0].probabilities[found[1]].max())[:MISTAKES]
    worst = [f"  {plain(said)}" for _, _, said in surest]
    told = ["\n".join(["The surest mistakes:", *worst])] if worst else []
    return "\n\n".join([*tables, *told, *map(plain, sentences(one))])


def tables_of(one: Evaluation) -> list[tuple[list[str], Rows]]:
    """Return the heads and rows of all tables."""
    return [domain_rows(one), class_rows(one)] if one.labelled else [guess_rows(one)]


def guess_rows(one: Evaluation) -> tuple[list[str], Rows]:
    """Return the head and a row for every class that images without labels are taken for."""
    shares = np.concatenate([answers.probabilities for answers in one.answers])
    taken = shares.argmax(1)
    rows = [
        [one.classes[i], str((taken == i).sum()), _percent((taken == i).mean()), _percent(shares[taken == i, i].mean())]
        for i in np.flatnonzero(np.bincount(taken, minlength=len(one.classes)))
    ]
    return ["taken for", "images", "%", "confidence"], rows


def facts(one: Evaluation) -> dict[str, Any]:
    """Return all numbers as plain content."""
    return _right(one) if one.labelled else _guessed(one)


def _guessed(one: Evaluation) -> dict[str, Any]:
    domains = {}
    for answers in one.answers:
        taken = np.bincount(answers.probabilities.argmax(1), minlength=len(one.classes)).tolist()
        classes = {name: {"taken for it": count} for name, count in zip(one.classes, taken, strict=True)}
        domains[answers.domain] = {"images": len(answers), "classes": classes}
    found = one.estimate
    if found is None:
        return {"domains": domains, "estimate": None}
    tried = {name: {"estimate": a, "accuracy": b} for name, (a, b) in found.estimator.tried.items()}
    numbers = {"expected": found.expected, "range": found.range, "confidence": found.confidence}
    return {"domains": domains, "estimate": {**numbers, "distances": dict(found.distances), "tried": tried}}


def _right(one: Evaluation) -> dict[str, Any]:
    domains = {
        answers.domain: {
            "images": len(answers),
            **{name: _finite(value) for name, value in answers.metrics.items()},
            "interval": [*interval(answers.metrics["accuracy"], len(answers))],
            "loss": answers.scores["loss"],
            "calibration_error": calibration_error(answers.scores["calibration"]),
            "confusion": answers.scores["confusion"],
            "classes": _classes(one, answers),
        }
        for answers in one.answers
    }
    wrong = [{"domain": own.domain, "image": own.names[i], "said": said} for own, i, said in mistakes(one)]
    return {"domains": domains, "accuracy": one.accuracy, "mistakes": wrong}


def _classes(one: Evaluation, answers: Answers) -> dict[str, Any]:
    counts = whole(answers.scores["confusion"]).sum(1).tolist()
    numbers = per_class(answers.scores["confusion"])
    return {
        name: {"images": count, "recall": recall, "precision": precision, "f1": f1}
        for name, count, (recall, precision, f1) in zip(one.classes, counts, numbers, strict=True)
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _as_json(one: Evaluation) -> str:
    about = {"evaluated": one.model, "data": one.data, "classes": [*one.classes]}
    unreadable = [{"file": bad.file, "problem": bad.problem} for bad in one.unreadable]
    return json_text({**about, **facts(one), "unreadable": unreadable, "sentences": sentences(one)})


def _as_csv(one: Evaluation) -> str:
    rows: list[list[object]] = []
    found = facts(one)
    for domain, numbers in found["domains"].items():
        by_class = numbers.pop("classes")
        numbers.pop("confusion", None)
        ends = dict(zip(("low", "high"), numbers.pop("interval", ()), strict=False))
        rows += [[domain, "", name, value] for name, value in {**numbers, **ends}.items()]
        rows += [[domain, name, key, value] for name, own in by_class.items() for key, value in own.items()]
    if guess := found.get("estimate"):
        rows += [["", "", f"estimated {name}", guess[name]] for name in ("expected", "confidence")]
        rows += [[name, "", f"{key} when held out", own[key]] for name, own in guess["tried"].items() for key in own]
    return csv_table(CSV_HEAD, rows)


FORMATS = {"table": _as_text, "markdown": _as_markdown, "csv": _as_csv, "json": _as_json}


def notebook(one: Evaluation) -> str:
    """Return the tables and sentences as HTML."""
    tables = [_html_table(head, rows) for head, rows in tables_of(one)]
    return "".join([*tables, *(f"<p>{html.escape(said)}</p>" for said in sentences(one))])


def _html_table(head: Sequence[str], rows: Rows) -> str:
    lines = [("th", head), *(("td", row) for row in rows)]
    cells = ["".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in line) for tag, line in lines]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in cells)}</table>"
