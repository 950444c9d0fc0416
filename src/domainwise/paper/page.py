"""One table of the paper as text, Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from domainwise.errors import InputError, closest, csv_row
from domainwise.experiment.results import Outcome
from domainwise.files import write_output
from domainwise.paper.columns import names_of, stand_in
from domainwise.paper.comparison import Section, checkpoints, difference, table
from domainwise.paper.remarks import remarks
from domainwise.paper.scores import VIEWS
from domainwise.paper.sentences import claims, orderings
from domainwise.report.tables import Cell, Table


@dataclass(frozen=True)
class Page:
    name: str  # of its files: "table1"
    title: str
    sections: tuple[Section, ...]
    notes: tuple[str, ...] = ()

    def render(self, format: str = "table") -> str:
        known = {name: write for name, (_, write) in FORMATS.items()}
        if format not in known:
            raise InputError(f'There is no table format "{format}": {closest(format, known)}')
        return known[format](self)

    def tables(self) -> list[Table]:
        return [found for section in self.sections for found in _tables(section)]

    def write(self, folder: Path) -> list[Path]:
        """In every format, beside each other."""
        files = {folder / f"{self.name}.{suffix}": write(self) for suffix, write in FORMATS.values()}
        for file, text in files.items():
            write_output(file, text)
        return list(files)


def page(name: str, title: str, sections: Sequence[Section], outcomes: Sequence[Outcome], preset: str) -> Page:
    """With what has to be kept in mind about it."""
    other = stand_in(names_of(outcomes))
    title = f"{title}: {other} stands in for the paper's data" if other else title
    return Page(name, title, tuple(sections), tuple(remarks(outcomes, preset)))


def _tables(section: Section) -> list[Table]:
    """The comparison itself, then other steps than the selected one, then the claims."""
    return [table(section), *([checkpoints(section)] * section.run), *([claims(section)] * bool(section.tested()))]


def as_text(page: Page) -> str:
    parts = [f"{page.title}\n{'=' * len(page.title)}\n", *(textwrap.fill(note, 100) + "\n" for note in page.notes)]
    for section in page.sections:
        parts += [f"{section.title}\n"] * (len(page.sections) > 1)
        parts += [found.render() for found in _tables(section)]
        parts += [textwrap.fill(line, 100, subsequent_indent="  ") + "\n" for line in orderings(section)]
    return "\n".join(parts)


def as_markdown(page: Page) -> str:
    parts = [f"# {page.title}\n", *(f"**{note}**\n" for note in page.notes)]
    for section in page.sections:
        parts += [f"## {section.title}\n"] * (len(page.sections) > 1)
        parts += [found.render("markdown") for found in _tables(section)]
        parts += [f"{line}\n" for line in orderings(section)]
    return "\n".join(parts)


def as_latex(page: Page) -> str:
    r"""Tables for ``\input``; they need the package booktabs."""
    parts = [f"% {line}" for line in (page.title, *page.notes)]
    for section in page.sections:
        parts += [f"% {section.title}", *(found.render("latex") for found in _tables(section))]
        parts += [f"% {line}" for line in orderings(section)]
    return "\n".join(parts) + "\n"


def as_csv(page: Page) -> str:
    """A line for every row, column and view; accuracies are fractions, one field per seed."""
    cells = [(section, entry, at, view) for section in page.sections for entry in section.entries
             for at in range(len(section.columns)) for view in VIEWS]  # fmt: skip
    seeds = sorted({seed for _, entry, at, view in cells for seed in entry.cells[view][at].values or {}})
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    fields = [
        "section",
        "row",
        "algorithm",
        "average",
        "column",
        "view",
        "paper",
        "mean",
        "error",
        "n",
        "difference",
        "note",
    ]
    writer.writerow([*fields, *(f"seed {seed}" for seed in seeds)])
    for section, entry, at, view in cells:
        cell, column, row = entry.cells[view][at], section.columns[at], entry.row
        about = [section.title, row.name, row.spec, row.average, column.title, view, entry.paper(column)]
        seen = [(cell.values or {}).get(seed) for seed in seeds]
        gap = difference(entry, at, column, view)
        writer.writerow(csv_row(*about, cell.mean, cell.error, cell.n, gap, cell.note, *seen))
    return file.getvalue()


def as_json(page: Page) -> str:
    content = {
        "name": page.name,
        "title": page.title,
        "notes": page.notes,
        "sections": [*map(_plain, page.sections)],
    }
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(section: Section) -> dict[str, Any]:
    rows = [
        {"name": entry.row.name, "algorithm": entry.row.spec, "average": entry.row.average, "cells": [
            {"column": column.title, "paper": entry.paper(column),
             **{view: _numbers(entry.cells[view][at], difference(entry, at, column, view))
                for view in VIEWS}}
            for at, column in enumerate(section.columns)]}
        for entry in section.entries
    ]  # fmt: skip
    orders = [
        {"column": column, "view": view, "pairs": one.pairs, "kept": one.kept, "tied": one.tied}
        for (column, view), one in section.orderings().items()
    ]
    tested = [
        {"better": one.better, "worse": one.worse, "column": one.column, "view": one.view, "paper": one.paper,
         "measured": one.measured, "difference": one.difference.mean, "n": one.difference.n, "p": one.difference.p}
        for one in section.tested()
    ]  # fmt: skip
    return {"title": section.title, "error": section.error, "rows": rows, "orderings": orders, "claims": tested}


def _numbers(cell: Cell, gap: float | None) -> dict[str, object]:
    values = {str(seed): value for seed, value in (cell.values or {}).items()}
    return {
        "mean": cell.mean, "error": cell.error, "n": cell.n, "difference": gap, "note": cell.note, "values": values
    }  # fmt: skip


FORMATS: dict[str, tuple[str, Callable[[Page], str]]] = {  # with the suffix of a file
    "table": ("txt", as_text),
    "markdown": ("md", as_markdown),
    "latex": ("tex", as_latex),
    "csv": ("csv", as_csv),
    "json": ("json", as_json),
}
