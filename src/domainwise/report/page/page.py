"""Write the report: one HTML file that needs nothing else, no network and no script to be read."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from domainwise.errors import InputError, some
from domainwise.experiment.results import Outcome
from domainwise.files import PAGE, check_output, write_output
from domainwise.machine import human_duration
from domainwise.report.formats import Table
from domainwise.report.grid import Grid, arrange, label, most_seeds, natural, ordered, sample, target, worst_targets
from domainwise.report.page import balance, classes, figures, groups, measures, walks
from domainwise.report.page.classes import class_names, tallies
from domainwise.report.page.mistakes import Gallery
from domainwise.report.page.surfaces import surfaces
from domainwise.report.power import Power, power_of
from domainwise.report.recommend import Recommendation, answer
from domainwise.report.statistics import shown
from domainwise.report.tables import WIDE, narrowed, table_of

AGAIN = 20  # seconds after which a page about running trials loads itself again

Beside = Sequence[tuple[str, Sequence[Table]]]  # tables from elsewhere, under a title each


def write(
    outcomes: Sequence[Outcome],
    path: Path,
    *,
    title: str | None = None,
    running: str = "",
    beside: Beside = (),
    power: Power | None = None,
    row: Recommendation | None = None,
    mistakes: Gallery | None = None,
) -> Path:
    """Write the report to ``path``, which holds either the whole page or what was there before."""
    if path.is_dir():
        raise InputError(f'The report needs the name of a file and "{path}" is a folder: try "{path / "report.html"}"')
    check_output(path, PAGE)
    page = render(outcomes, title=title, running=running, beside=beside, power=power, row=row, mistakes=mistakes)
    return write_output(path, page, PAGE)


def render(
    outcomes: Sequence[Outcome],
    *,
    title: str | None = None,
    running: str = "",
    beside: Beside = (),
    power: Power | None = None,
    row: Recommendation | None = None,
    mistakes: Gallery | None = None,
) -> str:
    """Return the page as text; the same outcomes give the same page.

    ``power`` and ``row``, the recommended one, are found from them unless they are given.
    """
    content = _content(outcomes, power or power_of(outcomes), row)
    named = {"title": title or _title(outcomes), "running": running, "again": AGAIN, "beside": beside}
    return filled("report.html", what="report", **named, mistakes=mistakes, **content)


def filled(template: str, **content: Any) -> str:
    """Return a page as text from its template, with the scripts and the style that all pages share."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    pages = Environment(
        loader=PackageLoader("domainwise.report.page", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters["percent"] = shown
    scripts = [pages.get_template("sorting.js").render()]
    digests = [_digest(script) for script in scripts]
    return pages.get_template(template).render(scripts=scripts, digests=digests, **content) + "\n"


def _title(outcomes: Sequence[Outcome]) -> str:
    data = listed(outcome.trial.data for outcome in outcomes)
    return f"Domain generalization on {data}" if outcomes else "Domain generalization"


def _digest(script: str) -> str:
    """Return what lets a browser run this script and no other."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


MANY = 40  # names that are not all told at the top of a page
READ = 1000  # trials whose records and counts are read for one page, which shows means of them
SECTIONS = (walks.section,)  # tables of what is read that need no template of their own, in this order


def _content(outcomes: Sequence[Outcome], power: Power, row: Recommendation | None) -> dict[str, Any]:
    grid = arrange(outcomes)
    table = narrowed(table_of(grid, outcomes))
    looked_into = sample(worst_targets(grid, WIDE), READ)
    drawn = figures.legible(looked_into, table)
    return {
        "answer": answer(outcomes, power, row),
        "power": power,
        "asked": asked(outcomes),
        "table": table,
        "calibrated": [*next(iter(grid.values()), {}), "Avg"],
        "accuracies": figures.accuracies(table),
        "sampled": _sampled(looked_into, grid),
        "legend": figures.styles(drawn),
        "curves": figures.learning_curves(drawn),
        "banded": len(drawn) <= figures.BANDS,
        "undrawn": len(grid) - len(drawn),
        "measures": measures.rows(grid),
        "measure_names": [*measures.COLUMNS.values(), "which target"],
        **_classes(looked_into),
        "surfaces": surfaces(grid),
        "balance": balance.section(grid),
        "sections": [one for one in (groups.section(grid), *(make(looked_into) for make in SECTIONS)) if one],
        "lines": lines(outcomes),
        "settings": settings(outcomes),
        "versions": versions(outcomes),
        "hyperparameters": hyperparameters(outcomes),
        "main_part": listed(f"{1 - outcome.trial.holdout:.0%}" for outcome in outcomes),
    }


def _sampled(few: Grid, grid: Grid) -> str:
    """Say that not all seeds are looked into, where that is so."""
    shown, there = most_seeds(few), most_seeds(grid)
    targets, all_targets = (len(next(iter(one.values()), {})) for one in (few, grid))
    said = [f"Of {there} seeds, the first {shown} are looked into for this."] if shown < there else []
    told = f"Of {all_targets} targets, the {targets} with the lowest accuracy are looked into for this."
    return " ".join([*said, told] if targets < all_targets else said)


def _classes(grid: Grid) -> dict[str, Any]:
    """Return what the selected models made of every class; empty where trials have no counts."""
    found = tallies(grid)
    names = {target: class_names(grid, found, target) for target in next(iter(grid.values()), {})}
    return {
        "classes": classes.recognised(found, names),
        "matrices": classes.matrices(found, names),
        "pairs": classes.confused(found, names),
        "calibration": [(name, [(shown(n), "") for n in row]) for name, row in measures.calibration(found).items()],
        "diagrams": measures.diagrams(found),
    }


@dataclass(frozen=True)
class Fact:
    name: str
    value: str
    detail: str = ""


def asked(outcomes: Sequence[Outcome]) -> list[Fact]:
    """Return the size of the comparison, for the top of a page."""
    ran = [
        outcome for outcome in outcomes if not outcome.averaged
    ]  # an averaged model comes with a run, not of its own
    trials = [outcome.trial for outcome in ran]
    counted = Counter(outcome.result["status"] for outcome in ran)
    seconds = sum(outcome.result.get("seconds") or 0.0 for outcome in ran)
    beside = "; each with its weights averaged beside it" if len(ran) < len(outcomes) else ""
    return [
        Fact("Data", listed(trial.data for trial in trials)),
        _counted("Algorithms", ordered(label(trial) for trial in trials), beside),
        _counted("Targets", natural(target(trial) for trial in trials)),
        _counted("Seeds", natural(str(trial.seed) for trial in trials)),
        Fact("Steps", listed(str(trial.steps) for trial in trials)),
        Fact("Trials", str(len(trials)), ", ".join(f"{count} {name}" for name, count in counted.most_common())),
        Fact("Time", human_duration(seconds), "of all trials, added up: those side by side count in full"),
    ]


def _counted(name: str, found: Sequence[str], beside: str = "") -> Fact:
    return Fact(name, str(len(found)), (some(found) if len(found) > MANY else ", ".join(found)) + beside)


def listed(values: Iterable[str], most: int = 4) -> str:
    """Write the distinct values, or the first and the last of many."""
    found = natural(values)
    if len(found) > most:
        return f"{found[0]} … {found[-1]} ({len(found)} values)"
    return ", ".join(found) or "\N{EN DASH}"


def settings(outcomes: Sequence[Outcome]) -> list[Fact]:
    trials = [outcome.trial for outcome in outcomes]
    results = [outcome.result for outcome in outcomes]
    return [
        Fact("Data", listed(f"{trial.data} ({trial.fingerprint[:12]})" for trial in trials)),
        Fact("Network", listed(trial.network + ", frozen" * (trial.features == "frozen") for trial in trials)),
        Fact("Minibatch", listed(f"{trial.batch} images of each domain" for trial in trials)),
        Fact("Steps", listed(str(trial.steps) for trial in trials)),
        Fact("Evaluated", listed(f"every {trial.evaluate_every} steps" for trial in trials)),
        Fact("Hold-out", listed(f"{trial.holdout:.0%} of every domain" for trial in trials)),
        Fact("Device", listed(_device(result) for result in results)),
    ]


def _device(result: Mapping[str, Any]) -> str:
    threads = result.get("threads")
    unit = "thread" if threads == 1 else "threads"
    return f"{result.get('device', 'unknown')}" + (f", {threads} {unit}" if threads else "")


def versions(outcomes: Sequence[Outcome]) -> list[Fact]:
    found = [outcome.result.get("versions") or {} for outcome in outcomes]
    names = natural(name for versions in found for name in versions)
    return [Fact(name, listed(str(versions[name]) for versions in found if name in versions)) for name in names]


def hyperparameters(outcomes: Sequence[Outcome]) -> dict[str, list[Fact]]:
    """Return for every algorithm each hyperparameter with the values it had."""
    found: dict[str, dict[str, list[str]]] = {}
    for outcome in outcomes:
        values = found.setdefault(label(outcome.trial), {})
        for name, value in outcome.trial.used.items():
            values.setdefault(name, []).append(f"{value:g}" if isinstance(value, float) else str(value))
        if outcome.trial.source:
            values.setdefault("source", []).append(f"sha256 {outcome.trial.source[:12]}")
    return {name: [Fact(key, listed(values)) for key, values in found[name].items()] for name in found}


@dataclass(frozen=True)
class Line:
    """One trial in the list of all of them."""

    algorithm: str
    target: str
    seed: int
    status: str
    message: str
    step: int | None  # the selected one
    validation: float | None
    accuracy: float | None
    last: float | None
    seconds: float | None
    id: str


def lines(outcomes: Sequence[Outcome]) -> list[Line]:
    made = [_line(outcome) for outcome in outcomes]
    targets = natural(line.target for line in made)
    return sorted(
        made, key=lambda line: (line.algorithm != "erm", line.algorithm, targets.index(line.target), line.seed)
    )


def _line(outcome: Outcome) -> Line:
    trial, result = outcome.trial, outcome.result
    selected, last = outcome.selected, outcome.last
    return Line(
        algorithm=label(trial),
        target=target(trial),
        seed=trial.seed,
        status=result["status"],
        message=result.get("message", ""),
        step=selected.get("step"),
        validation=selected.get("validation"),
        accuracy=selected.get("target"),
        last=last.get("target"),
        seconds=result.get("seconds"),
        id=outcome.folder.name,
    )
