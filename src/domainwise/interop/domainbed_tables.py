"""DomainBed's tables, one per data set and selection rule, computed and printed as its own program does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from domainwise.errors import legible
from domainwise.experiment.selection import Group, rule, selection, target_accuracy
from domainwise.interop.domainbed import ALGORITHMS, DATASETS, Sweep
from domainwise.report.formats import LATEX, csv_table, json_text, latex_tabular, markdown_table, one_line

SELECTIONS = ("validation", "leave-one-out", "oracle")
ERROR = "± is DomainBed's: the population standard deviation over the root of the number of trials."


@dataclass(frozen=True)
class Cell:
    """One number of a table: a mean over trials as a fraction, and its standard error; a mean of means has none."""

    mean: float | None = None
    error: float | None = None
    n: int = 0

    def text(self, sign: str = "+/-") -> str:
        """Return the number in percent, with the error behind ``sign``; X where nothing was run."""
        if self.mean is None:
            return "X"
        return f"{100 * self.mean:.1f}" + ("" if self.error is None else f" {sign} {100 * self.error:.1f}")


@dataclass(frozen=True)
class Table:
    """The accuracies of all algorithms on one data set, or their means over data sets, by one selection rule."""

    rule: str
    dataset: str  # empty in the table of averages over data sets
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[Cell, ...]]  # algorithm -> cells

    @property
    def title(self) -> str:
        """The title as DomainBed prints it."""
        about = f"Dataset: {self.dataset}" if self.dataset else "Averages"
        return f"{about}, model selection method: {rule(self.rule).title}"


def tables(sweep: Sweep) -> list[Table]:
    """Return DomainBed's tables: for every selection rule one per data set, and one of averages."""
    runs = [one.run for one in sweep.runs]
    algorithms = _in_order((run.algorithm for run in runs), ALGORITHMS)
    domains = {run.data: tuple(run.records[0]["domains"]) for run in runs}
    datasets = _in_order(domains, tuple(DATASETS))
    made = []
    for name in SELECTIONS:
        chosen = selection(runs, name)
        accuracies = {group: target_accuracy(choice.record, group.targets) for group, choice in chosen.items()}
        made += [_of_dataset(name, dataset, domains[dataset], algorithms, accuracies) for dataset in datasets]
        made.append(_of_averages(name, datasets, algorithms, accuracies))
    return made


Accuracies = Mapping[Group, float]


def _of_dataset(
    name: str, dataset: str, domains: tuple[str, ...], algorithms: Sequence[str], accuracies: Accuracies
) -> Table:
    rows = {}
    for algorithm in algorithms:
        by_target = _trials(dataset, algorithm, accuracies)
        cells = [_cell(list(by_target.get(domain, {}).values())) for domain in domains]
        rows[algorithm] = (*cells, _average(cells))
    return Table(name, dataset, (*domains, "Avg"), rows)


def _of_averages(name: str, datasets: Sequence[str], algorithms: Sequence[str], accuracies: Accuracies) -> Table:
    """First the mean over the targets of a trial seed; then mean and error over seeds."""
    rows = {}
    for algorithm in algorithms:
        cells = []
        for dataset in datasets:
            columns = _trials(dataset, algorithm, accuracies).values()
            seeds = sorted({seed for column in columns for seed in column})
            means = [np.mean([column[seed] for column in columns if seed in column]) for seed in seeds]
            cells.append(_cell([float(mean) for mean in means]))
        rows[algorithm] = (*cells, _average(cells))
    return Table(name, "", (*datasets, "Avg"), rows)


def _trials(dataset: str, algorithm: str, accuracies: Accuracies) -> dict[str, dict[int, float]]:
    """Target -> trial seed -> accuracy, of the runs with one target."""
    by_target: dict[str, dict[int, float]] = {}
    for group, accuracy in accuracies.items():
        if (group.data, group.algorithm) == (dataset, algorithm) and len(group.targets) == 1:
            by_target.setdefault(group.targets[0], {})[group.seed] = accuracy
    return by_target


def _cell(values: Sequence[float]) -> Cell:
    """The error is the population standard deviation over the root of the count, as in DomainBed."""
    if not values:
        return Cell()
    return Cell(float(np.mean(values)), float(np.std(np.asarray(values) / np.sqrt(len(values)))), len(values))


def _average(cells: Sequence[Cell]) -> Cell:
    means = [cell.mean for cell in cells if cell.mean is not None]
    return Cell(sum(means) / len(means), n=len(means)) if len(means) == len(cells) else Cell()


def _in_order(names: Iterable[str], order: tuple[str, ...]) -> list[str]:
    """The names DomainBed knows first and in its order, the others after them by name."""
    return sorted(set(names), key=lambda name: (order.index(name) if name in order else len(order), name))


def as_text(tables: Sequence[Table], records: int) -> str:
    """Print exactly what DomainBed's collect_results prints, so that ``diff`` finds nothing."""
    lines = [f"Total records: {records}"]
    for table in tables:
        width = 20 if table.dataset else 25
        head, rows = _words(table, "+/-")
        lines += ["", f"-------- {legible(table.title)}"]
        lines += ["  ".join(legible(word).ljust(width)[:width] for word in words) + " " for words in [head, *rows]]
    return "\n".join(lines) + "\n"


def _words(table: Table, sign: str) -> tuple[list[str], list[list[str]]]:
    rows = [[name, *(cell.text(sign) for cell in cells)] for name, cells in table.rows.items()]
    return ["Algorithm", *table.columns], rows


def as_markdown(tables: Sequence[Table], records: int) -> str:
    """Return the tables as GitHub Markdown."""
    parts = [f"**{one_line(table.title)}**\n\n{markdown_table(*_words(table, '±'))}\n" for table in tables]
    return "\n".join([*parts, f"{records} records. {ERROR}"]) + "\n"


def as_latex(tables: Sequence[Table], records: int) -> str:
    r"""Return tables for ``\input``; they need the package booktabs."""
    parts = [f"\n% {one_line(table.title)}\n{latex_tabular(*_words(table, LATEX['±']), 'c')}" for table in tables]
    return "\n".join([f"% {records} records. {ERROR}", *parts]) + "\n"


def as_csv(tables: Sequence[Table], records: int) -> str:
    """Return one line per cell, with every digit."""
    head = ["selection", "dataset", "algorithm", "column", "mean", "error", "n"]
    rows = [
        (table.rule, table.dataset, name, column, cell.mean, cell.error, cell.n)
        for table in tables
        for name, cells in table.rows.items()
        for column, cell in zip(table.columns, cells, strict=True)
    ]
    return csv_table(head, rows)


def as_json(tables: Sequence[Table], records: int) -> str:
    """Return the tables as JSON, with every digit."""
    content = [
        {
            "selection": table.rule,
            "method": rule(table.rule).title,
            "dataset": table.dataset or None,
            "rows": [
                {"algorithm": name, "cells": dict(zip(table.columns, map(asdict, cells), strict=True))}
                for name, cells in table.rows.items()
            ],
        }
        for table in tables
    ]
    return json_text({"records": records, "error": ERROR, "tables": content})


FORMATS: dict[str, Callable[[Sequence[Table], int], str]] = {
    "table": as_text,
    "csv": as_csv,
    "json": as_json,
    "markdown": as_markdown,
    "latex": as_latex,
}
