"""The accuracies of every row, at the selected step and at others, side by side with the paper's numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import fmean, pstdev, stdev
from typing import Any, NamedTuple

from domainwise.errors import InputError
from domainwise.experiment.records import Record
from domainwise.experiment.results import Outcome
from domainwise.experiment.selection import selected as chosen_record, target_accuracy
from domainwise.paper.layout import Column, PaperRequest, Row, Target, belongs
from domainwise.report.formats import Cell, Row as Line, Table, marked
from domainwise.report.grid import accuracy
from domainwise.report.statistics import about_errors, standard_error

VIEWS = {
    "selected": "at the step chosen on the source domains",
    "pooled": "at the step chosen on all held-out source images together, as the paper says it did",
    "last": "at the last evaluation",
    "late": "mean over the evaluations of the last two thirds of training",
}
ERRORS = {
    "standard-error": "the standard error",
    "deviation": "the standard deviation",
    "domainbed": "the population standard deviation over the root of their number, as DomainBed prints it,",
}
Score = Mapping[str, float | None]  # by view; None for a trial that diverged or failed
Scores = Mapping[Target, Mapping[int, Score]]  # by seed


def scores(row: Row, outcomes: Sequence[Outcome], given: Mapping[str, Any], groups: Collection[str] = ()) -> Scores:
    """Return the accuracies of all trials that belong to a row and have one target.

    ``groups`` are scores of an official split that stand beside that of the target, such as "slide:23".
    """
    by_target: dict[Target, dict[int, Score]] = {}
    for outcome in outcomes:
        trial = outcome.trial
        if len(trial.targets) == 1 and belongs(row, outcome, given):
            by_seed = by_target.setdefault((trial.data, trial.targets[0]), {})
            # One run may have several averages of one name: the row's own counts, else the first one listed.
            if trial.seed not in by_seed or outcome.average == row.average:
                by_seed[trial.seed] = _score(outcome)
            for group in groups:
                score = _group_score(outcome, group)
                if accuracy(outcome) is None or score["selected"] is not None:  # or else the data have no such group
                    by_target.setdefault((trial.data, group), {})[trial.seed] = score
    return by_target


def _group_score(outcome: Outcome, group: str) -> Score:
    """Return a score beside the accuracy on the target; None where the target has no such group."""
    trial, found = outcome.trial, outcome.records()
    if accuracy(outcome) is None or not found:
        return dict.fromkeys(VIEWS)
    late = [record for record in found if 3 * record["step"] >= trial.steps]
    chosen = next(record for record in found if record["step"] == outcome.selected["step"])
    at = {"selected": [chosen], "pooled": [], "last": found[-1:], "late": late}
    values = {view: [_of_group(record, trial.targets[0], group) for record in some] for view, some in at.items()}
    return {view: _mean(each) for view, each in values.items()}


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return fmean(there) if there and len(there) == len(values) else None


def _of_group(record: Record, target: str, group: str) -> float | None:
    return record["domains"][target]["main"].get("metrics", {}).get(group)


def _score(outcome: Outcome) -> Score:
    selected = accuracy(outcome)
    last = outcome.last.get("target")
    if selected is None:
        return dict.fromkeys(VIEWS)
    late = None if outcome.averaged else _late(outcome)
    return {"selected": selected, "pooled": _pooled(outcome), "last": last, "late": late}


def _pooled(outcome: Outcome) -> float | None:
    """Every held-out image of the sources counts the same; None where the records do not say how many there are."""
    trial = outcome.trial
    try:
        chosen = chosen_record(outcome.records(), replace(trial, selection="pooled"))
    except InputError:
        return None
    return target_accuracy(chosen, trial.targets, trial.test)


def _late(outcome: Outcome) -> float | None:
    """One step is noise of several points; the mean over many says more about a method, and selects nothing."""
    trial = outcome.trial
    late = [record for record in outcome.records() if 3 * record["step"] >= trial.steps]
    return fmean(target_accuracy(record, trial.targets, trial.test) for record in late) if late else None


def cell(measured: Scores, column: Column, view: str, error: str) -> Cell:
    """Return the mean over a column's targets, data set by data set; its error is over the seeds they all have."""
    groups = [{t: _values(measured[t], view) for t in group if t in measured} for group in column.groups]
    trials = sum(len(measured[target]) for group in groups for target in group)
    if not trials:
        return Cell(note="not run")
    kept = [[values for values in group.values() if values] for group in groups]
    lost = sum(score["selected"] is None for group in groups for t in group for score in measured[t].values())
    if not all(kept):
        return Cell(note=_lost(lost, trials), lost=lost)
    seeds = sorted(set.intersection(*(set(values) for group in kept for values in group)))
    values = {seed: fmean(fmean(each[seed] for each in group) for group in kept) for seed in seeds}
    mean = fmean(fmean(fmean(each.values()) for each in group) for group in kept)
    note = _lost(lost, trials) or _missing(sum(map(len, kept)), sum(map(len, column.groups)))
    return Cell(mean, _error(list(values.values()), error), len(values), values, note, lost=lost)


def _values(by_seed: Mapping[int, Score], view: str) -> dict[int, float]:
    return {seed: value for seed, score in by_seed.items() if (value := score[view]) is not None}


def _error(values: Sequence[float], which: str) -> float | None:
    if len(values) < 2 or which == "standard-error":
        return standard_error(values)
    return pstdev(values) / sqrt(len(values)) if which == "domainbed" else stdev(values)


def _lost(lost: int, trials: int) -> str:
    return f"{lost} of {trials} failed or diverged" if lost else ""


def _missing(here: int, all_of_them: int) -> str:
    return f"{here} of {all_of_them} targets" if here < all_of_them else ""


def paired(one: Scores, other: Scores, column: Column, view: str) -> list[float]:
    """Return the differences between trials with the same target and the same seed."""
    both = [(one[t], other[t]) for group in column.groups for t in group if t in one and t in other]
    pairs = [(_values(a, view), _values(b, view)) for a, b in both]
    return [a[seed] - b[seed] for a, b in pairs for seed in sorted(a.keys() & b.keys())]


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
    groups = {name for column in columns for each in column.groups for _, name in each if column.group}
    for row in rows:
        own = scores(row, outcomes, request.given, groups)
        cells = {view: tuple(cell(own, column, view, request.error) for column in columns) for view in VIEWS}
        entries.append(Entry(row, own, cells))
    return Section(title, tuple(columns), tuple(entries), tuple(claims), request.error)


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
    text = f"{'; '.join(f'{view}: {about}' for view, about in _views(section).items())}.{_errors(section, VIEWS)}"
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
    if view not in ("selected", "pooled") or one.mean is None or one.note or theirs is None or not column.comparable:
        return None
    return one.mean - theirs


def signed(fraction: float) -> str:
    """Return a difference in percent with its sign; zero is +0.0, never -0.0."""
    return f"{round(100 * fraction, 1) + 0.0:+.1f}".replace("-", "\N{MINUS SIGN}")


def _official(section: Section) -> bool:
    return any(column.group for column in section.columns)


def _views(section: Section) -> Mapping[str, str]:
    """Return the views of a section; an official split chooses by its own validation set."""
    if not _official(section):
        return VIEWS
    chosen = "at the step chosen on the validation set of the official split"
    return {**VIEWS, "selected": chosen, "pooled": f"{chosen}, by accuracy"}


def caption(section: Section, view: str) -> str:
    """Return the sentences below a table: what the numbers are, and which columns were not run."""
    where = "the test set of the official split" if _official(section) else "domains not trained on"
    parts = [f"Accuracy in percent on {where}, {_views(section)[view]}.{_errors(section, [view])}"]
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
