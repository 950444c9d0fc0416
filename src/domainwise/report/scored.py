"""Make the table in another metric than accuracy, from what the selected models made of every image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np

from domainwise.data.splits import OFFICIAL
from domainwise.errors import legible
from domainwise.experiment import outcomes as kept
from domainwise.experiment.metrics import METRICS, Metric, measured, metric
from domainwise.experiment.outcomes import Seen
from domainwise.experiment.records import Summary
from domainwise.experiment.results import Outcome
from domainwise.report.formats import Table
from domainwise.report.grid import arrange, tabled
from domainwise.report.tables import table_of

WORST = "worst_domain"  # a table of accuracies with the lowest in the place of the mean


def table_in(outcomes: Sequence[Outcome], name: str) -> Table:
    """Return the table in another metric than accuracy, from what the selected models made of every image."""
    if name == WORST:
        return table_of(arrange(outcomes), outcomes, worst=True)
    one = metric(name)
    found = [_scored(outcome, one) for outcome in tabled(outcomes)]
    what = f"{one.title[:1].upper()}{one.title[1:]}" if name in METRICS else f"{one.title}, times 100,"
    return table_of(arrange(found), found, what=what)


def _scored(outcome: Outcome, one: Metric) -> Outcome:
    """Return an outcome with the numbers of a metric in the place of accuracies."""
    trial = outcome.trial
    if outcome.result["status"] != "finished":
        return outcome
    seen = kept.read(outcome)
    targets = {name: _of_parts(one, seen[name] if trial.test == "all" else {"main": seen[name]["main"]}, name, outcome)
               for name in trial.targets}  # fmt: skip
    sources = {name: parts for name, parts in seen.items() if name not in trial.targets and "holdout" in parts}
    by = ["val"] if OFFICIAL in trial.targets and "val" in sources else [*sources]
    held_out = [_of_parts(one, {"holdout": sources[name]["holdout"]}, name, outcome) for name in by]
    selected: Summary = {
        **outcome.selected,
        "targets": targets,
        "target": fmean(targets.values()) if targets else None,
        "validation": fmean(held_out),
    }
    return replace(outcome, result={**outcome.result, "selected": selected})


def _of_parts(one: Metric, parts: Mapping[str, Seen], domain: str, outcome: Outcome) -> float:
    """Return a metric over some parts of a domain, as one."""
    labels = np.concatenate([part.label for part in parts.values()])
    probabilities = np.concatenate([part.probabilities() for part in parts.values()])
    where = f'on the {" and ".join(parts)} part of domain "{legible(domain)}" in {outcome.folder}'
    return measured(one, labels, probabilities, where)
