"""The table by another rule of selection than the one that trials were run with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from domainwise.errors import InputError
from domainwise.experiment.results import Outcome
from domainwise.experiment.selection import Choice, Group, Run, eligible, rule, selection, summary
from domainwise.report.formats import Table
from domainwise.report.grid import arrange, label
from domainwise.report.tables import table_of

NEEDS = {
    "leave-one-out": "it needs trials that hold out each other domain beside the target: run them with --targets pairs",
    "oracle": "it needs the accuracy on the target's own hold-out",
}


def table_by(outcomes: Sequence[Outcome], name: str) -> Table:
    """Accuracies at the steps, and of the draws, that the rule chooses from the records."""
    found = reselected(outcomes, name)
    return table_of(arrange(found), found, how=f"at the step and of the draw chosen by {rule(name).title}")


def reselected(outcomes: Sequence[Outcome], name: str) -> list[Outcome]:
    """Of every algorithm, target and seed the trial that the rule chooses, with the numbers of the step it chooses.

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
    """What a rule never compares is never in memory at once: a search leaves many records behind."""
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


def _group(outcome: Outcome) -> Group:
    trial = outcome.trial
    return Group(trial.data, label(trial), trial.seed, tuple(sorted(trial.targets)))


def _with(outcome: Outcome, choice: Choice) -> Outcome:
    trial = outcome.trial
    return replace(outcome, result={**outcome.result, "selected": summary(choice.record, trial.targets, trial.test)})
