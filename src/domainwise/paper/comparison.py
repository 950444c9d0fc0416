"""The paper's numbers and the measured ones, side by side in one table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from domainwise.experiment.results import Outcome
from domainwise.paper.columns import Column
from domainwise.paper.rows import PaperRequest, Row
from domainwise.paper.scores import ERRORS, VIEWS, Scores, cell, scores
from domainwise.report.formats import Cell, Row as Line, Table, marked
from domainwise.report.statistics import about_errors

Claims = Sequence[tuple[str, str]]  # names of two rows, the first of which the paper says is better


class Entry(NamedTuple):
    """A row with what was measured for it."""

    row: Row
    scores: Scores
    cells: Mapping[str, tuple[Cell, ...]]  # by view, one for every column

    def paper(self, column: Column) -> float | None:
        """The paper's number in a column, as a fraction."""
        number = self.row.paper.get(column.key)
        return None if number is None else number / 100


@dataclass(frozen=True)
class Section:
    """One table of the paper, or a part of it that has columns of its own."""

    title: str
    columns: tuple[Column, ...]
    entries: tuple[Entry, ...]
    claims: Claims
    error: str

    @property
    def run(self) -> bool:
        """Whether anything was trained for its columns."""
        return any(column.run for column in self.columns)

    @property
    def measured(self) -> bool:
        """Whether any trial belongs to its rows."""
        return any(entry.scores for entry in self.entries)


def make_section(
    title: str,
    columns: Sequence[Column],
    rows: Sequence[Row],
    outcomes: Sequence[Outcome],
    claims: Claims,
    request: PaperRequest,
) -> Section:
    """Compute every cell of a table from the trials that have ended."""
    entries = []
    for row in rows:
        own = scores(row, outcomes, request.given)
        cells = {view: tuple(cell(own, column, view, request.error) for column in columns) for view in VIEWS}
        entries.append(Entry(row, own, cells))
    return Section(title, tuple(columns), tuple(entries), tuple(claims), request.error)


def measured_only(section: Section) -> Section:
    """Return the section without the rows and columns that nothing was trained for."""
    kept = [at for at, column in enumerate(section.columns) if column.run]
    entries = [
        entry._replace(cells={view: tuple(cells[at] for at in kept) for view, cells in entry.cells.items()})
        for entry in section.entries
        if entry.scores
    ]
    names = {entry.row.name for entry in entries}
    claims = tuple(claim for claim in section.claims if names.issuperset(claim))
    return replace(section, columns=tuple(section.columns[at] for at in kept), entries=tuple(entries), claims=claims)


def comparison_table(section: Section, view: str = "selected") -> Table:
    """Put each measured number beside the paper's; where the data is the same, with the difference in brackets."""
    columns: dict[str, tuple[Cell, ...]] = {}
    for at, column in enumerate(section.columns):
        columns |= _printed_column(section, column)
        if column.run:
            cells = marked([entry.cells[view][at] for entry in section.entries])
            gaps = [difference(entry, at, column, view) for entry in section.entries]
            columns[column.title] = tuple(
                one if gap is None else replace(one, note=signed(gap)) for one, gap in zip(cells, gaps, strict=True)
            )
    return _table(section, columns, caption(section, view))


def checkpoint_table(section: Section) -> Table:
    """Show the accuracies at other steps too: the selected one is a single draw from a noisy curve."""
    columns: dict[str, tuple[Cell, ...]] = {}
    for at, column in enumerate(section.columns):
        if column.main and column.run:
            columns |= _printed_column(section, column)
            for view in VIEWS:
                columns[f"{column.title} {view}"] = marked([entry.cells[view][at] for entry in section.entries])
    text = f"{'; '.join(f'{view}: {about}' for view, about in VIEWS.items())}.{_errors(section, VIEWS)}"
    averaged = any(entry.row.average for entry in section.entries)
    return _table(section, columns, text + " An average of weights is one model, so it has no late mean." * averaged)


def _printed_column(section: Section, column: Column) -> dict[str, tuple[Cell, ...]]:
    """The paper's numbers in a column; nothing where it has none."""
    if not column.key or not any(entry.row.paper for entry in section.entries):
        return {}
    return {f"{column.key}, paper": marked([_printed(entry.row, column.key) for entry in section.entries])}


def _printed(row: Row, key: str) -> Cell:
    number, error = row.paper.get(key), row.errors.get(key)
    return Cell(None if number is None else number / 100, None if error is None else error / 100)


def _table(section: Section, columns: Mapping[str, Sequence[Cell]], text: str) -> Table:
    lines = [
        Line(entry.row.name, tuple(cells[at] for cells in columns.values())) for at, entry in enumerate(section.entries)
    ]
    return Table(tuple(columns), tuple(lines), text)


def difference(entry: Entry, at: int, column: Column, view: str) -> float | None:
    """Return the difference to the paper, which selected its steps too; only where the same data and all of it ran."""
    one, theirs = entry.cells[view][at], entry.paper(column)
    if view != "selected" or one.mean is None or one.note or theirs is None or not column.comparable:
        return None
    return one.mean - theirs


def signed(fraction: float) -> str:
    """Return a difference in percent with its sign; zero is +0.0, never -0.0."""
    return f"{round(100 * fraction, 1) + 0.0:+.1f}".replace("-", "\N{MINUS SIGN}")


def caption(section: Section, view: str) -> str:
    """Return the sentences below a table: what the numbers are, and which columns were not run."""
    parts = [f"Accuracy in percent on domains not trained on, {VIEWS[view]}.{_errors(section, [view])}"]
    if view == "selected" and any(column.key and column.run and column.comparable for column in section.columns):
        parts.append("In brackets the difference to the paper.")
    if idle := [column.key for column in section.columns if not column.run]:
        parts.append(f"Not run: {', '.join(idle)}; the paper's numbers alone.")
    return " ".join(parts)


def _errors(section: Section, views: Iterable[str]) -> str:
    seeds = max((one.n for entry in section.entries for view in views for one in entry.cells[view]), default=0)
    if seeds > 1 and section.error == "domainbed":
        return f" ± is {ERRORS[section.error]} over {seeds} seeds."
    return f" {about_errors(seeds, ERRORS[section.error])}" if seeds else ""
