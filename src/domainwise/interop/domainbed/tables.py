"""DomainBed's tables: for every rule of selection one per data set, and one of averages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from domainwise.experiment.selection import Group, rule, selection, target_accuracy
from domainwise.interop.domainbed.names import algorithms_in_order, datasets_in_order
from domainwise.interop.domainbed.read import Sweep

SELECTIONS = ("validation", "leave-one-out", "oracle")


@dataclass(frozen=True)
class Cell:
    """A mean over trials as a fraction, and its standard error; no error for a mean of means."""

    mean: float | None = None
    error: float | None = None
    n: int = 0

    def text(self, sign: str = "+/-") -> str:
        if self.mean is None:
            return "X"
        return f"{100 * self.mean:.1f}" + ("" if self.error is None else f" {sign} {100 * self.error:.1f}")


@dataclass(frozen=True)
class Table:
    rule: str
    dataset: str  # empty in the table of averages over data sets
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[Cell, ...]]  # algorithm -> cells

    @property
    def title(self) -> str:
        about = f"Dataset: {self.dataset}" if self.dataset else "Averages"
        return f"{about}, model selection method: {rule(self.rule).title}"


def tables(sweep: Sweep) -> list[Table]:
    runs = [one.run for one in sweep.runs]
    algorithms = algorithms_in_order(run.algorithm for run in runs)
    domains = {run.data: tuple(run.records[0]["domains"]) for run in runs}
    datasets = datasets_in_order(domains)
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
        found = _trials(dataset, algorithm, accuracies)
        cells = [_cell(list(found.get(domain, {}).values())) for domain in domains]
        rows[algorithm] = (*cells, _average(cells))
    return Table(name, dataset, (*domains, "Avg"), rows)


def _of_averages(name: str, datasets: Sequence[str], algorithms: Sequence[str], accuracies: Accuracies) -> Table:
    """A trial's value is the mean over the targets it has; then come mean and error over trials."""
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
    """Target -> trial -> accuracy, of the runs with one target."""
    found: dict[str, dict[int, float]] = {}
    for group, accuracy in accuracies.items():
        if (group.data, group.algorithm) == (dataset, algorithm) and len(group.targets) == 1:
            found.setdefault(group.targets[0], {})[group.seed] = accuracy
    return found


def _cell(values: Sequence[float]) -> Cell:
    """Population standard deviation over the root of the count, as DomainBed has it."""
    if not values:
        return Cell()
    return Cell(float(np.mean(values)), float(np.std(np.asarray(values) / np.sqrt(len(values)))), len(values))


def _average(cells: Sequence[Cell]) -> Cell:
    means = [cell.mean for cell in cells if cell.mean is not None]
    return Cell(sum(means) / len(means), n=len(means)) if len(means) == len(cells) else Cell()
