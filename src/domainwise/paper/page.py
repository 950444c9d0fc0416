"""A table of the paper as text, Markdown, LaTeX, CSV and JSON, with notes on what differs from the paper's setting."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from domainwise.experiment.presets import PACE, PRESETS
from domainwise.experiment.results import Outcome
from domainwise.experiment.settings import of_algorithm, resolve
from domainwise.experiment.trial import Trial
from domainwise.files import write_output
from domainwise.paper.claims import check_claims, claims_table, order_sentences, section_orderings
from domainwise.paper.comparison import VIEWS, Entry, Section, checkpoint_table, comparison_table, difference
from domainwise.paper.layout import has_own_rate, names_of, stand_in
from domainwise.paper.numbers import DATA_SETS, WILDS
from domainwise.report.formats import Cell, Table, csv_table, json_text, writer

PAPER = "the paper's "  # a table or figure: the origin of a setting that is not that of its preset
CHECKED = ("network", "input_size", "augment", "validation", "batch", "steps", "evaluate_every", "holdout", "precision",
           "dropout", "freeze_batch_norm", "test", "selection", "optimizer", "schedule", "clip", "erm_updates",
           "domains_per_step")  # fmt: skip


@dataclass(frozen=True)
class Page:
    """One table of the paper with everything measured for it, ready to be printed or written."""

    name: str  # of its files: "table1"
    title: str
    sections: tuple[Section, ...]
    notes: tuple[str, ...] = ()

    def render(self, format: str = "table") -> str:
        """Return the page as text in one format."""
        _, write = writer(format, FORMATS)
        return write(self)

    def tables(self) -> list[Table]:
        """Return every table on the page."""
        return [table for section in self.sections for table in _tables(section)]

    def write(self, folder: Path) -> list[Path]:
        """Write the page in every format; returns the files."""
        files = {folder / f"{self.name}.{suffix}": write(self) for suffix, write in FORMATS.values()}
        for file, text in files.items():
            write_output(file, text)
        return list(files)


def make_page(
    name: str, title: str, sections: Sequence[Section], outcomes: Sequence[Outcome], preset: str, about: str = ""
) -> Page:
    """Return a page whose title and notes say which data and which settings differ from the paper's."""
    other = stand_in(names_of(outcomes))
    title = f"{title}: {other} stands in for the paper's data" if other else title
    return Page(name, title, tuple(sections), (*([about] if about else []), *notes_on(outcomes, preset)))


def notes_on(outcomes: Sequence[Outcome], preset: str) -> list[str]:
    """Name what differs from the paper: data that stands in, another preset, settings that were changed."""
    if other := stand_in(names_of(outcomes)):
        return [f"{other} stands in for the paper's data: the numbers are not comparable with the paper's."]
    own = [outcome.trial for outcome in outcomes if outcome.trial.data in (*DATA_SETS, *WILDS)]
    used = sorted({preset_of(trial) for trial in own} - {"", preset})
    notes = [f"Measured with preset {', '.join(used)}; this table is meant for preset {preset}."] if used else []
    if changed := sorted({text for trial in own for text in _changed(trial, preset)}):
        notes.append(f"Not as its preset has it: {', '.join(changed)}.")
    return notes


def preset_of(trial: Trial) -> str:
    """Return the preset that a trial was made with; "" where it does not say."""
    named = (origin.removeprefix("preset ") for origin in trial.origins.values() if origin.startswith("preset "))
    return next((name for name in named if name in PRESETS), "")


def _changed(trial: Trial, preset: str) -> list[str]:
    """Every setting that is not that of the preset the trial was made with."""
    usual = of_algorithm(resolve(preset_of(trial) or preset, benchmark=trial.data, device="cuda"), trial.algorithm)
    by_epochs = {*PACE} if usual.epochs else set()
    others = [name for name in CHECKED if name not in by_epochs and not trial.origins.get(name, "").startswith(PAPER)]
    pairs = [(name, getattr(trial, name), getattr(usual, name)) for name in others]
    if not has_own_rate(trial):
        pairs.append(("lr", trial.hyperparameters.get("lr"), usual.lr))
    changed = [f"{name} {_short(here)} instead of {_short(there)}" for name, here, there in pairs if here != there]
    asked = by_epochs and trial.origins.get("steps") == "given"
    return [*changed, f"steps {trial.steps} instead of {usual.epochs:g} epochs"] if asked else changed


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _tables(section: Section) -> list[Table]:
    """The comparison itself, then other steps than the selected one, then the claims."""
    others = [checkpoint_table(section)] if section.run else []
    claims = [claims_table(section)] if check_claims(section) else []
    return [comparison_table(section), *others, *claims]


def as_text(page: Page) -> str:
    """Return the page as plain text."""
    parts = [f"{page.title}\n{'=' * len(page.title)}\n", *(textwrap.fill(note, 100) + "\n" for note in page.notes)]
    for section in page.sections:
        parts += [f"{section.title}\n"] * (len(page.sections) > 1)
        parts += [table.render() for table in _tables(section)]
        parts += [textwrap.fill(line, 100, subsequent_indent="  ") + "\n" for line in order_sentences(section)]
    return "\n".join(parts)


def as_markdown(page: Page) -> str:
    """Return the page as GitHub Markdown."""
    parts = [f"# {page.title}\n", *(f"**{note}**\n" for note in page.notes)]
    for section in page.sections:
        parts += [f"## {section.title}\n"] * (len(page.sections) > 1)
        parts += [table.render("markdown") for table in _tables(section)]
        parts += [f"{line}\n" for line in order_sentences(section)]
    return "\n".join(parts)


def as_latex(page: Page) -> str:
    r"""Return tables for ``\input``; they need the package booktabs."""
    parts = [f"% {line}" for line in (page.title, *page.notes)]
    for section in page.sections:
        parts += [f"% {section.title}", *(table.render("latex") for table in _tables(section))]
        parts += [f"% {line}" for line in order_sentences(section)]
    return "\n".join(parts) + "\n"


def as_csv(page: Page) -> str:
    """Return a line for every row, column and view; accuracies are fractions, one field per seed."""
    cells = [(section, entry, at, view) for section in page.sections for entry in section.entries
             for at in range(len(section.columns)) for view in VIEWS]  # fmt: skip
    seeds = sorted({seed for _, entry, at, view in cells for seed in entry.cells[view][at].values or {}})
    about = ["section", "row", "algorithm", "average", "column", "view", "paper"]
    numbers = ["mean", "error", "n", "difference", "note"]
    return csv_table([*about, *numbers, *(f"seed {seed}" for seed in seeds)], [_line(*one, seeds) for one in cells])


def _line(section: Section, entry: Entry, at: int, view: str, seeds: Sequence[int]) -> list[object]:
    cell, column, row = entry.cells[view][at], section.columns[at], entry.row
    about = [section.title, row.name, row.spec, row.average, column.title, view, entry.paper(column)]
    numbers = [cell.mean, cell.error, cell.n, difference(entry, at, column, view), cell.note]
    return [*about, *numbers, *((cell.values or {}).get(seed) for seed in seeds)]


def as_json(page: Page) -> str:
    """Return the page as JSON, with the orderings and the tested claims."""
    content = {
        "name": page.name,
        "title": page.title,
        "notes": page.notes,
        "sections": [*map(_plain, page.sections)],
    }
    return json_text(content)


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
        for (column, view), one in section_orderings(section).items()
    ]
    tested = [
        {"better": one.better, "worse": one.worse, "column": one.column, "view": one.view, "paper": one.paper,
         "measured": one.measured, "difference": one.difference.mean, "n": one.difference.n, "p": one.difference.p}
        for one in check_claims(section)
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
