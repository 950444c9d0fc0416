"""Write the report: one HTML file that needs nothing else, no network and no script to be read."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from domainwise.errors import InputError
from domainwise.experiment.results import Outcome
from domainwise.files import PAGE, check_output, write_output
from domainwise.report.formats import Table
from domainwise.report.grid import Grid, arrange, most_seeds, sample
from domainwise.report.page import balance, classes, facts, figures, measures
from domainwise.report.page.classes import class_names, tallies
from domainwise.report.page.mistakes import Gallery
from domainwise.report.page.surfaces import surfaces
from domainwise.report.power import Power, power_of
from domainwise.report.recommend import answer
from domainwise.report.statistics import shown
from domainwise.report.tables import table_of

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
    mistakes: Gallery | None = None,
) -> Path:
    """Write the report to ``path``, which holds either the whole page or what was there before."""
    if path.is_dir():
        raise InputError(f'The report needs the name of a file and "{path}" is a folder: try "{path / "report.html"}"')
    check_output(path, PAGE)
    page = render(outcomes, title=title, running=running, beside=beside, power=power, mistakes=mistakes)
    return write_output(path, page, PAGE)


def render(
    outcomes: Sequence[Outcome],
    *,
    title: str | None = None,
    running: str = "",
    beside: Beside = (),
    power: Power | None = None,
    mistakes: Gallery | None = None,
) -> str:
    """Return the page as text; the same outcomes give the same page. ``power`` is made of them unless it is given."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    pages = Environment(
        loader=PackageLoader("domainwise.report.page", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters["percent"] = shown
    content = _content(outcomes, power or power_of(outcomes))
    scripts = [pages.get_template("sorting.js").render()]
    digests = [_digest(script) for script in scripts]
    named = {"title": title or _title(outcomes), "running": running, "again": AGAIN, "beside": beside}
    named["mistakes"] = mistakes
    page = pages.get_template("report.html").render(**named, scripts=scripts, digests=digests, **content)
    return page + "\n"


def _title(outcomes: Sequence[Outcome]) -> str:
    data = facts.listed(outcome.trial.data for outcome in outcomes)
    return f"Domain generalization on {data}" if outcomes else "Domain generalization"


def _digest(script: str) -> str:
    """What lets a browser run this script and no other."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


READ = 1000  # trials whose records and counts are read for one page, which shows means of them


def _content(outcomes: Sequence[Outcome], power: Power) -> dict[str, Any]:
    grid = arrange(outcomes)
    table = table_of(grid, outcomes)
    some = sample(grid, READ)
    drawn = figures.legible(some, table)
    return {
        "answer": answer(outcomes, power),
        "power": power,
        "asked": facts.asked(outcomes),
        "table": table,
        "accuracies": figures.accuracies(table),
        "sampled": _sampled(some, grid),
        "legend": figures.styles(drawn),
        "curves": figures.learning_curves(drawn),
        "banded": len(drawn) <= figures.BANDS,
        "undrawn": len(grid) - len(drawn),
        "measures": measures.rows(grid),
        "measure_names": [*measures.COLUMNS.values(), "which"],
        **_counted(some),
        "surfaces": surfaces(grid),
        "balance": balance.section(grid),
        "lines": facts.lines(outcomes),
        "settings": facts.settings(outcomes),
        "versions": facts.versions(outcomes),
        "hyperparameters": facts.hyperparameters(outcomes),
        "main_part": facts.listed(f"{1 - outcome.trial.holdout:.0%}" for outcome in outcomes),
    }


def _sampled(some: Grid, grid: Grid) -> str:
    """What to say where not all seeds are looked into."""
    shown, there = most_seeds(some), most_seeds(grid)
    return f"Of {there} seeds, the first {shown} are looked into for this." if shown < there else ""


def _counted(grid: Grid) -> dict[str, Any]:
    """From what the selected models made of every class; empty where trials have no counts."""
    found = tallies(grid)
    names = {target: class_names(grid, found, target) for target in next(iter(grid.values()), {})}
    return {
        "classes": classes.recognised(found, names),
        "matrices": classes.matrices(found, names),
        "pairs": classes.confused(found, names),
        "calibration": [(name, [(shown(n), "") for n in row]) for name, row in measures.calibration(found).items()],
        "diagrams": measures.diagrams(found),
    }
