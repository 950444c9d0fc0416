"""The paper's numbers and ours in one table, and what the comparison comes to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from domainwise.experiment.results import Outcome
from domainwise.paper.claims import Ordering, ordering
from domainwise.paper.columns import Column
from domainwise.paper.rows import Row, Wish
from domainwise.paper.scores import ERRORS, VIEWS, Scores, cell, paired, scores
from domainwise.paper.significance import Difference, sign_flips
from domainwise.report.spread import about_errors
from domainwise.report.tables import Cell, Row as Line, Table, marked

Claims = Sequence[tuple[str, str]]  # names of rows, the first of which the paper says is better


class Entry(NamedTuple):
    row: Row
    found: Scores
    cells: Mapping[str, tuple[Cell, ...]]  # by view, one for every column

    def paper(self, column: Column) -> float | None:
        number = self.row.paper.get(column.key)
        return None if number is None else number / 100


@dataclass(frozen=True)
class Claim:
    """That one row is better than another, in the paper and here, in one column at one view."""

    better: str
    worse: str
    column: str
    view: str
    paper: tuple[float | None, float | None]
    measured: tuple[float, float]
    difference: Difference


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
        return any(column.run for column in self.columns)

    @property
    def measured(self) -> bool:
        return any(entry.found for entry in self.entries)

    def orderings(self, average: str | None = None) -> dict[tuple[str, str], Ordering]:
        """By column and view, of the rows of one averager ("" is none) or of all; a mean over some of the targets or
        trials has no part in it."""
        entries = [entry for entry in self.entries if average in (None, entry.row.average)]
        return {
            (column.title, view): ordering(
                [entry.paper(column) for entry in entries],
                [None if entry.cells[view][at].note else entry.cells[view][at].mean for entry in entries],
            )
            for at, column in enumerate(self.columns)
            for view in VIEWS
            if column.main and column.run
        }

    def tested(self) -> list[Claim]:
        found = []
        entries = {entry.row.name: entry for entry in self.entries}
        for at, column in enumerate(self.columns):
            for names in self.claims if column.main and column.run else ():
                better, worse = (entries[name] for name in names)
                found += [claim for view in VIEWS if (claim := _claim(better, worse, column, at, view))]
        return found


def _claim(better: Entry, worse: Entry, column: Column, at: int, view: str) -> Claim | None:
    a, b = better.cells[view][at].mean, worse.cells[view][at].mean
    differences = paired(better.found, worse.found, column, view)
    if a is None or b is None or not differences:
        return None
    printed = (better.paper(column), worse.paper(column))
    return Claim(better.row.name, worse.row.name, column.title, view, printed, (a, b), sign_flips(differences))


def section(
    title: str, columns: Sequence[Column], rows: Sequence[Row], outcomes: Sequence[Outcome], claims: Claims, wish: Wish
) -> Section:
    entries = []
    for row in rows:
        found = scores(row, outcomes, wish.given)
        cells = {view: tuple(cell(found, column, view, wish.error) for column in columns) for view in VIEWS}
        entries.append(Entry(row, found, cells))
    return Section(title, tuple(columns), tuple(entries), tuple(claims), wish.error)


def measured_only(found: Section) -> Section:
    """Without the rows and columns that nothing was run for."""
    kept = [at for at, column in enumerate(found.columns) if column.run]
    entries = [
        entry._replace(cells={view: tuple(cells[at] for at in kept) for view, cells in entry.cells.items()})
        for entry in found.entries
        if entry.found
    ]
    names = {entry.row.name for entry in entries}
    claims = tuple(claim for claim in found.claims if names.issuperset(claim))
    return replace(found, columns=tuple(found.columns[at] for at in kept), entries=tuple(entries), claims=claims)


def table(found: Section, view: str = "selected") -> Table:
    """Beside every number of the paper the one measured, with the difference in brackets where the data is the same."""
    columns: dict[str, tuple[Cell, ...]] = {}
    for at, column in enumerate(found.columns):
        if column.key and any(entry.row.paper for entry in found.entries):
            columns[f"{column.key}, paper"] = marked([_printed(entry.row, column.key) for entry in found.entries])
        if column.run:
            cells = marked([entry.cells[view][at] for entry in found.entries])
            gaps = [difference(entry, at, column, view) for entry in found.entries]
            columns[column.title] = tuple(
                one if gap is None else replace(one, note=signed(gap)) for one, gap in zip(cells, gaps, strict=True)
            )
    return _table(found, columns, caption(found, view))


def checkpoints(found: Section) -> Table:
    """The same accuracies at other steps than the selected one, which is a single draw from a noisy curve."""
    columns: dict[str, tuple[Cell, ...]] = {}
    for at, column in enumerate(found.columns):
        if column.main and column.run:
            if column.key and any(entry.row.paper for entry in found.entries):
                columns[f"{column.key}, paper"] = marked([_printed(entry.row, column.key) for entry in found.entries])
            for view in VIEWS:
                columns[f"{column.title} {view}"] = marked([entry.cells[view][at] for entry in found.entries])
    said = f"{'; '.join(f'{view}: {about}' for view, about in VIEWS.items())}.{_errors(found, VIEWS)}"
    averaged = any(entry.row.average for entry in found.entries)
    return _table(found, columns, said + " An average of weights is one model, so it has no late mean." * averaged)


def _table(found: Section, columns: Mapping[str, Sequence[Cell]], text: str) -> Table:
    lines = [
        Line(entry.row.name, tuple(cells[at] for cells in columns.values())) for at, entry in enumerate(found.entries)
    ]
    return Table(tuple(columns), tuple(lines), text)


def _printed(row: Row, key: str) -> Cell:
    number, error = row.paper.get(key), row.errors.get(key)
    return Cell(None if number is None else number / 100, None if error is None else error / 100)


def difference(entry: Entry, at: int, column: Column, view: str) -> float | None:
    """To the paper, which selected its steps too; only where the same data and all of it was run."""
    one, theirs = entry.cells[view][at], entry.paper(column)
    if view != "selected" or one.mean is None or one.note or theirs is None or not column.comparable:
        return None
    return one.mean - theirs


def signed(fraction: float) -> str:
    return f"{round(100 * fraction, 1) + 0.0:+.1f}".replace("-", "\N{MINUS SIGN}")  # nothing lost is +0.0, never -0.0


def caption(found: Section, view: str) -> str:
    said = [f"Accuracy in percent on domains not trained on, {VIEWS[view]}.{_errors(found, [view])}"]
    if view == "selected" and any(column.key and column.run and column.comparable for column in found.columns):
        said.append("In brackets the difference to the paper.")
    if idle := [column.key for column in found.columns if not column.run]:
        said.append(f"Not run: {', '.join(idle)}; the paper's numbers alone.")
    return " ".join(said)


def _errors(found: Section, views: Iterable[str]) -> str:
    seeds = max((one.n for entry in found.entries for view in views for one in entry.cells[view]), default=0)
    if seeds > 1 and found.error == "domainbed":
        return f" ± is {ERRORS[found.error]} over {seeds} seeds."
    return f" {about_errors(seeds, ERRORS[found.error])}" if seeds else ""
