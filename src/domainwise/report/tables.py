"""Make the table of accuracies, for a terminal, a paper, a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np

from domainwise.data.splits import OFFICIAL
from domainwise.errors import InputError, counted
from domainwise.experiment.group_metrics import WILDS
from domainwise.experiment.results import Outcome
from domainwise.experiment.selection import Choice, Group as Rivals, Run, eligible, rule, selection, summary
from domainwise.experiment.trial import Trial, separated
from domainwise.report.formats import Cell, Row, Table, marked
from domainwise.report.grid import Grid, Group, accuracy, arrange, label, losses, most_seeds, tabled
from domainwise.report.statistics import about_errors, standard_error


def accuracy_table(outcomes: Sequence[Outcome]) -> Table:
    """Return the mean target accuracy of every algorithm on every target, with the standard error over seeds."""
    return table_of(arrange(outcomes), outcomes)


HOW = "at the step chosen on the source domains"


def table_of(
    grid: Grid, outcomes: Sequence[Outcome], how: str = HOW, what: str = "Accuracy", worst: bool = False
) -> Table:
    """Return the table of outcomes that are arranged already; ``how`` says how they were selected.

    ``what`` names their numbers. With ``worst`` the lowest target stands in the place of the mean over targets.
    """
    seeds = most_seeds(grid)
    over = _worst_target if worst else _average
    parts = _parts(grid)
    rows = [
        Row(name, (*_with_parts(groups, parts, seeds), over(cells), _validation(groups)))
        for name, groups in grid.items()
        for cells in [[_cell(group, seeds) for group in groups.values()]]
    ]
    targets = [title for column, names in parts.items() for title in (column, *(f"{one} of {column}" for one in names))]
    where = "the target domain"
    if targets == [OFFICIAL]:
        chosen = f"at the step chosen {_by(outcomes) if what == 'Accuracy' else ''}on its validation set"
        where, how = "the test images of the official split", how.replace(HOW, chosen)
    columns = (*targets, "worst" if worst else "Avg", "validation")
    return Table(columns, _ranked(rows), _caption(rows, outcomes, grid, f"{what} in percent on {where}, {how}."))


def _by(outcomes: Sequence[Outcome]) -> str:
    """The score that a set of WILDS is judged by, which its column of validation has, where that is not accuracy."""
    scores = {WILDS[name].score.replace("_", " ") for one in outcomes if (name := one.trial.data) in WILDS}
    return f"by the {' or '.join(sorted(scores))} (the column validation) " if scores - {"accuracy"} else ""


WIDE = 20  # targets that have a column each in a table for eyes; of more it has what is reached on most of them
OVER = {"worst": 0, "10 %": 10, "median": 50, "90 %": 90}


def narrowed(table: Table) -> Table:
    """Return the table with columns over all targets in the place of one for each, where there are hundreds."""
    targets = len(table.columns) - 2
    if targets <= WIDE:
        return table
    rows = [Row(row.algorithm, (*_over(row.cells[:-2]), *row.cells[-2:])) for row in table.rows]
    told = (
        f"Columns are over {targets} targets: the worst, and what is reached on all but 10, 50 and 90 % of them; in "
        "CSV and JSON each has a column of its own."
    )
    return Table((*OVER, *table.columns[-2:]), _ranked(rows), f"{table.caption} {told}", table.head)


def _over(cells: Sequence[Cell]) -> list[Cell]:
    """Return percentiles over the targets; none where one has no accuracy."""
    means = [cell.mean for cell in cells if cell.mean is not None]
    if len(means) < len(cells):
        return [Cell() for _ in OVER]
    lost = sum(cell.lost for cell in cells)
    return [Cell(mean=float(np.percentile(means, share)), n=len(means), lost=lost) for share in OVER.values()]


def _parts(grid: Grid) -> dict[str, tuple[str, ...]]:
    """Return the domains of every column that holds out several at once; each gets a column, where there is room."""
    found: dict[str, tuple[str, ...]] = dict.fromkeys(next(iter(grid.values()), {}), ())
    for groups in grid.values():
        for column, group in groups.items():
            for outcome in group.values():
                found[column] = outcome.trial.targets if len(outcome.trial.targets) > 1 else ()
    return found if sum(1 + len(names) for names in found.values()) <= WIDE else dict.fromkeys(found, ())


def _with_parts(groups: Mapping[str, Group], parts: Mapping[str, tuple[str, ...]], seeds: int) -> list[Cell]:
    return [_cell(groups[column], seeds, name) for column, names in parts.items() for name in ("", *names)]


def _cell(group: Group, seeds: int, part: str = "") -> Cell:
    """Return the accuracy on a target, or on one domain that is a ``part`` of it."""
    found = {seed: accuracy(outcome) for seed, outcome in group.items()}
    if part:
        found = {seed: None if value is None else group[seed].selected["targets"].get(part)
                 for seed, value in found.items()}  # fmt: skip
    values = {seed: value for seed, value in found.items() if value is not None}
    fewer = "" if not values or len(group) == seeds else counted(len(group), "seed")
    return Cell(
        mean=fmean(values.values()) if values else None,
        error=standard_error(list(values.values())),
        n=len(values),
        values=values,
        note=losses(group) or fewer,
        lost=len(group) - len(values),
    )


def _average(cells: Sequence[Cell]) -> Cell:
    """Return the mean of the columns' means; its error comes from the seeds that every column has."""
    means = [cell.mean for cell in cells if cell.mean is not None]
    if len(means) < len(cells):
        return Cell()
    columns = [cell.values or {} for cell in cells]
    shared = sorted(set.intersection(*(set(values) for values in columns)))
    values = {seed: fmean(column[seed] for column in columns) for seed in shared}
    lost = sum(cell.lost for cell in cells)
    return Cell(
        mean=fmean(means),
        error=standard_error(list(values.values())),
        n=len(values),
        values=values,
        note=f"without {lost} of {lost + sum(cell.n for cell in cells)} trials" if lost else "",
        lost=lost,
    )


def _worst_target(cells: Sequence[Cell]) -> Cell:
    """Return the lowest column of every seed that all columns have, mean over these seeds."""
    columns = [cell.values or {} for cell in cells]
    shared = sorted(set.intersection(*(set(values) for values in columns)))
    values = {seed: min(column[seed] for column in columns) for seed in shared}
    lost = sum(cell.lost for cell in cells)
    mean = fmean(values.values()) if values else None
    return Cell(mean, standard_error([*values.values()]), len(values), values, lost=lost)


def _validation(groups: Mapping[str, Group]) -> Cell:
    finished = [o.selected for group in groups.values() for o in group.values() if accuracy(o) is not None]
    found = [selected["validation"] for selected in finished if selected["validation"] is not None]
    return Cell(mean=fmean(found), n=len(found)) if found else Cell()


def _ranked(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Mark the best and second best of every column but the last. What prints the same ranks the same."""
    columns = list(zip(*(row.cells for row in rows), strict=True))
    shown = [marked(column) for column in columns[:-1]] + columns[-1:]
    return tuple(Row(row.algorithm, cells) for row, cells in zip(rows, zip(*shown, strict=True), strict=True))


def _caption(rows: Sequence[Row], outcomes: Sequence[Outcome], grid: Grid, how: str) -> str:
    if not rows:
        return "No trial has come to an end yet."
    most = max(cell.n for row in rows for cell in row.cells[:-2])
    groups = [group for groups in grid.values() for group in groups.values()]
    said = [how]
    if most:
        said.append(about_errors(most))
    if any(cell.lost for row in rows for cell in row.cells):
        said.append("Seeds that diverged or failed are left out, and what they leave behind is never marked as best.")
    trials = tabled(outcomes)
    if sum(map(len, groups)) < len(trials):
        said.append("Where a seed has several trials, the one with the best validation accuracy counts.")
    together = next((one.trial.targets for one in trials if len(one.trial.targets) > 1), None)
    if together is not None:
        said.append(
            f'"{"+".join(together)}" is domains held out together: the mean of the accuracies on each of them, which '
            "stand beside it where there is room, and one by one in the trial's result.json."
        )
    if others := dict.fromkeys(one.trial.metric for one in trials if one.trial.metric != "accuracy"):
        said.append(f"Steps were chosen by {' and '.join(others)}, and that is what validation is.")
    said.extend(_nothing_averaged(outcomes))
    said.extend(from_nothing([one.trial for one in outcomes]))
    if len(trials) < len(outcomes):
        said.append("Trials that hold out several domains at once serve leave-one-out selection and have no column.")
    return " ".join(said)


PHOTOGRAPHS = 64  # pixels on a side, and more: there, networks that were trained before do far better


def from_nothing(trials: Sequence[Trial]) -> list[str]:
    """Say what it means where a small network that had never seen a photograph was trained on some."""
    small = [trial for trial in trials if (trial.network, trial.weights) == ("small", "none")]
    if not any(trial.input_size >= PHOTOGRAPHS for trial in small):
        return []
    return [
        "The network small was trained from nothing, which suits drawings of a few pixels: on photographs a pretrained "
        "one is right far more often. Take one with --network resnet18 (network=), where the internet can be reached, "
        "or bring its weights and add --weights FILE (weights=)."
    ]


def _nothing_averaged(outcomes: Sequence[Outcome]) -> list[str]:
    """Name the averagers that were asked for and that some trials ended without."""
    found = [one.result for one in outcomes if one.result["status"] == "finished" and not one.averaged]
    asked = [(name, name in one.get("averages", ())) for one in found for name in separated(one.get("average", "none"))]
    missing = Counter(name for name, there in asked if name != "none" and not there)
    return [f"{name} had nothing to average yet in {n} of {len(found)} trials." for name, n in missing.items()]


NEEDS = {
    "leave-one-out": "it needs trials that hold out each other domain beside the target: run them with --targets pairs",
    "oracle": "it needs the accuracy on the target's own hold-out",
}


def table_by(outcomes: Sequence[Outcome], name: str) -> Table:
    """Return the table at the steps, and of the draws, that a rule chooses from the records."""
    found = reselected(outcomes, name)
    return table_of(arrange(found), found, how=f"at the step and of the draw chosen by {rule(name).title}")


def reselected(outcomes: Sequence[Outcome], name: str) -> list[Outcome]:
    """Return for every algorithm, target and seed the trial that a rule chooses, at the step that it chooses.

    Where none has finished, one that did not stands for them. Trials that only serve the choice are left out, as are
    those on targets for which the rule finds nothing to choose from.
    """
    rule(name)
    found = [one for some in _apart(outcomes) for one in _chosen(some, name)]
    if not found and any(one.result["status"] == "finished" for one in outcomes):
        needs = NEEDS.get(name, "they have no records")
        raise InputError(f"{rule(name).title} has nothing to choose from in these trials: {needs}")
    targets = {one.trial.targets for one in found}
    taken = {_group(one) for one in found}
    lost = {_group(one): one for one in outcomes if one.result["status"] != "finished" and one.trial.targets in targets}
    return found + [one for group, one in lost.items() if group not in taken]


def _apart(outcomes: Iterable[Outcome]) -> list[list[Outcome]]:
    """Split outcomes that a rule never compares, so that not all records of a search are in memory at once."""
    found: dict[tuple[str, str, int], list[Outcome]] = {}
    for one in outcomes:
        found.setdefault((one.trial.data, label(one.trial), one.trial.seed), []).append(one)
    return list(found.values())


def _chosen(outcomes: Sequence[Outcome], name: str) -> list[Outcome]:
    runs = [(one, _run(one)) for one in outcomes if one.result["status"] == "finished"]
    choices = selection((run for _, run in runs), name)
    return [
        _with(one, choice)
        for one, run in runs
        if (choice := choices.get(_group(one))) is not None and choice.draw == run.draw
    ]


def _run(outcome: Outcome) -> Run:
    return Run.of(outcome.trial, eligible(outcome.records(), outcome.trial))


def _group(outcome: Outcome) -> Rivals:
    trial = outcome.trial
    return Rivals(trial.data, label(trial), trial.seed, tuple(sorted(trial.targets)))


def _with(outcome: Outcome, choice: Choice) -> Outcome:
    trial = outcome.trial
    return replace(outcome, result={**outcome.result, "selected": summary(choice.record, trial.targets, trial.test)})
