"""Say in words which row of a comparison to take, and what to expect of it at a site that nobody has seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean

import numpy as np

from domainwise.data.splits import OFFICIAL
from domainwise.errors import InputError, legible
from domainwise.experiment.results import Outcome
from domainwise.experiment.trial import SEARCHED, Trial, Value
from domainwise.report.grid import LATE, Grid, Group, Numbers, accuracy, arrange, label, numbers_of
from domainwise.report.page.classes import class_names, tallies
from domainwise.report.power import FALSE, Gap, Power, gap_between
from domainwise.report.statistics import holm, percent

PROBE = "probe"
WORST = 3  # classes that are named
NEAR = 1.0  # points
NAMED = 6  # rows that a sentence names one by one


@dataclass(frozen=True)
class Recommendation:
    """Which row of a comparison to take, and what to expect of it. Accuracies are shares of 1.

    ``sentence`` says all of it, and ``sentences`` has its parts.
    ``sites`` has the accuracy on every held-out site, ``expected`` their range and
    ``coverage`` how probably such a range covers a new site. ``known`` is the accuracy on new images of known sites.
    """

    label: str
    algorithm: str
    settings: Mapping[str, Value]  # the hyperparameters
    average: str  # the averager, or empty for the plain model
    expected: tuple[float, float]
    coverage: float
    sites: Mapping[str, float]
    known: float | None
    worst_classes: tuple[tuple[str, float], ...]
    tied: tuple[str, ...]  # rows that nothing tells apart from the best one
    seeds: int
    trial: Trial  # one of those behind the row, with every setting
    beside: tuple[str, ...] = ()  # what else there is to say

    @property
    def sentence(self) -> str:
        return " ".join(self.sentences)

    @property
    def sentences(self) -> list[str]:
        return [self._take(), *self._chance(), *self._new_site(), *self._known_sites(), *self._classes(), *self.beside]

    def _take(self) -> str:
        count = f"{len(self.sites)} held-out sites" if len(self.sites) > 1 else "the one held-out site"
        if self.official:
            count = "the test images of the official split"
        return f"Take {legible(self.label)}: accuracy {percent(fmean(self.sites.values()))} % on {count}."

    def _chance(self) -> list[str]:
        if self.seeds < 2:
            return ["It is the best of one seed, and nothing tells how much of that is chance: run at least three."]
        if not self.tied:
            return []
        tied = listed(self.tied) if len(self.tied) <= NAMED else f"{len(self.tied)} others"
        apart = f"These seeds do not tell it from {tied}"
        return [f"{apart}; of those within a point of the best it took the least time to train."]

    @property
    def official(self) -> bool:
        """Whether the sites are the test images of a split of the data's own."""
        return self.trial.targets == (OFFICIAL,)

    def _new_site(self) -> list[str]:
        low, high = map(percent, self.expected)
        if self.official:
            return []
        if len(self.sites) < 2:
            return [f"What to expect at a new site cannot be said from one ({low} %): hold out each domain in turn."]
        return [
            f"At a new site expect between {low} and {high} %, the range over these sites. A new site that is like "
            f"them lies in that range with a probability of {100 * self.coverage:.0f} %."
        ]

    def _known_sites(self) -> list[str]:
        if self.known is None:
            return []
        below = self.known - fmean(self.sites.values())
        if percent(abs(below)) == "0.0":
            how = "the same as on"
        else:
            how = f"{percent(abs(below))} points {'below' if below > 0 else 'above'}"
        return [f"On average that is {how} new images of the sites it was trained on ({percent(self.known)} %)."]

    def _classes(self) -> list[str]:
        if not self.worst_classes:
            return ["On which classes it fails is not known: these trials kept no counts."]
        worst = ", ".join(f"{legible(name)} ({percent(share)} %)" for name, share in self.worst_classes)
        return [f"It recognises least of: {worst}."]


def answer(outcomes: Sequence[Outcome], power: Power, row: Recommendation | None = None) -> list[list[str]]:
    """Say what a comparison says, in paragraphs of sentences: which row to take, and what the seeds can show.

    ``row`` is what :func:`recommend` returns, where that is known.
    """
    if not outcomes:
        return [["No trial has come to an end yet."]]
    if power.waiting:
        return [power.sentences]
    try:
        first = (row or recommend(outcomes)).sentences
    except InputError as error:
        said = str(error)
        first = [f"{said[:1].upper()}{said[1:]}."]
    return [part for part in (first, power.sentences) if part]


def recommend(outcomes: Sequence[Outcome]) -> Recommendation:
    """Return the cheapest of the rows within a point of the best one that nothing tells apart from it.

    Rows are compared by their mean over the second half of training, which scatters less than a single step. What few
    seeds do not tell apart may be far apart all the same, so more than a point is too far. Cost is the time that was
    measured; of a run and its average the plain model comes first.
    """
    if not outcomes:
        raise InputError("no trial has come to an end, so nothing can be recommended")
    outcomes = [one for one in outcomes if one.trial.targets]
    if not outcomes:
        raise InputError("no domain was held out, so nothing is known of a new site: compare holds each out in turn")
    if len(data := sorted({one.trial.data for one in outcomes})) > 1:
        raise InputError(f"these are results of several data sets ({', '.join(data)}): nothing holds for all of them")
    grid = arrange(outcomes)
    whole = {name: _sites(groups) for name, groups in grid.items() if all(map(_finished, groups.values()))}
    if not whole:
        raise InputError("no algorithm finished every trial on every target, so none can be recommended")
    numbers = numbers_of(grid, [LATE])[LATE]
    best = max(whole, key=lambda name: _mean(numbers[name]))
    gaps = {name: gap_between(best, name, LATE, numbers) for name in whole if name != best}
    tied = [best, *_not_told_apart(gaps)]
    near = [name for name in grid if name == best or (name in tied and (gaps[name].mean or 0.0) <= NEAR)]
    taken = min(near, key=lambda name: _cost(grid[name]))
    beside = [*_left_out(grid, whole), *_first_in_table(whole, tied), *_beside_the_probe(grid, numbers)]
    beside += _searched([one.trial for one in outcomes if label(one.trial) == taken], _first(grid[taken]).trial)
    tied = [name for name in grid if name in tied and name != taken]
    return _recommendation(grid[taken], taken, tied, whole[taken], beside)


def _mean(numbers: Numbers) -> float:
    return fmean(fmean(one or 0.0 for one in seeds.values()) for seeds in numbers.values())


def _finished(group: Group) -> bool:
    return bool(group) and all(accuracy(one) is not None for one in group.values())


def _sites(groups: Mapping[str, Group]) -> dict[str, float]:
    return {name: fmean(accuracy(one) or 0.0 for one in group.values()) for name, group in groups.items()}


def _not_told_apart(gaps: Mapping[str, Gap]) -> list[str]:
    """Return the rows that do not differ from the best one; one seed tells nothing, and then the best stands alone."""
    found = {name: one for name, gap in gaps.items() if (one := gap.estimate)}
    corrected = holm([one.p for one in found.values()])
    return [name for name, p in zip(found, corrected, strict=True) if p >= FALSE]


def _left_out(grid: Grid, whole: Mapping[str, object]) -> list[str]:
    """Name the rows that might have been better, had all of their trials finished."""
    names = [name for name in grid if name not in whole]
    return [f"Left out, as not all of their trials on all targets have finished: {listed(names)}."] if names else []


def _first_in_table(sites: Mapping[str, Mapping[str, float]], tied: Sequence[str]) -> list[str]:
    """Explain a row that the table has first and that is not as good."""
    first = max(sites, key=lambda name: fmean(sites[name].values()))
    if first in tied:
        return []
    return [f"{legible(first)} leads the table, but is behind in the mean over the second half of training."]


def _cost(groups: Mapping[str, Group]) -> tuple[float, bool]:
    every = [one for group in groups.values() for one in group.values()]
    seconds = [one.result.get("seconds") for one in every]
    known = [float(one) for one in seconds if one is not None]
    return fmean(known) if len(known) == len(seconds) else inf, every[0].averaged


def _recommendation(
    row: Mapping[str, Group], taken: str, tied: Sequence[str], sites: Mapping[str, float], beside: Sequence[str]
) -> Recommendation:
    own = [one for group in row.values() for one in group.values()]
    first = _first(row)
    # another metric says nothing beside an accuracy, and an official split validates on other sites, by its own score
    known = [value for one in own if (value := one.selected["validation"]) is not None
             and one.trial.metric == "accuracy" and OFFICIAL not in one.trial.targets]  # fmt: skip
    return Recommendation(
        label=taken,
        algorithm=first.trial.algorithm,
        settings=dict(first.trial.hyperparameters),
        average=first.average,
        expected=(min(sites.values()), max(sites.values())),
        coverage=(len(sites) - 1) / (len(sites) + 1),
        sites=dict(sites),
        known=fmean(known) if known else None,
        worst_classes=_worst_classes({taken: row}),
        tied=tuple(tied),
        seeds=min(map(len, row.values())),
        trial=first.trial,
        beside=tuple(beside),
    )


def _first(row: Mapping[str, Group]) -> Outcome:
    """Return the trial whose settings stand for a row: the one with the best validation accuracy."""
    own = [one for group in row.values() for one in group.values()]
    return max(own, key=lambda one: one.selected.get("validation") or 0.0)


def _searched(trials: Sequence[Trial], taken: Trial) -> list[str]:
    """Say whose settings those of a random search are, which has others for every target and seed."""
    draws = {one.draw for one in trials}
    if len(draws) < 2:
        return []
    every = [_searchable(one) for one in trials]
    drawn = {name: value for name, value in _searchable(taken).items() if any(one.get(name) != value for one in every)}
    settings = ", ".join(
        f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}" for name, value in drawn.items()
    )
    return [
        f"Its settings were searched for: of {len(draws)} draws each target and seed has its own, the best by "
        f"validation, and what to expect is of that choice. A model for new sites is trained with draw {taken.draw} "
        f"({settings}), which has the highest validation accuracy of all."
    ]


def _searchable(trial: Trial) -> dict[str, Value]:
    return {**trial.used, **{name: getattr(trial, name) for name in SEARCHED}}


def _worst_classes(row: Grid) -> tuple[tuple[str, float], ...]:
    """Return the classes recognised least, mean over targets and seeds; none where trials kept no counts."""
    found = tallies(row)
    ((columns),) = found.values()
    shares = [np.diag(one.shares) for seeds in columns.values() for one in seeds]
    if len({len(share) for share in shares}) != 1:
        return ()
    stacked = np.stack(shares)
    known = (~np.isnan(stacked)).sum(0)
    means = np.nansum(stacked, 0) / np.maximum(known, 1)
    names = class_names(row, found, next(name for name, seeds in columns.items() if seeds))
    order = sorted((i for i in range(len(names)) if known[i]), key=lambda i: float(means[i]))
    missed = [i for i in order if means[i] < 1] or order[:1]
    return tuple((names[i], float(means[i])) for i in missed[:WORST])


def _beside_the_probe(grid: Grid, numbers: Mapping[str, Numbers]) -> list[str]:
    """Name the algorithms that do no better than a linear layer on frozen features, where that was run."""
    trials = {name: next(one.trial for group in groups.values() for one in group.values())
              for name, groups in grid.items() if all(map(_finished, groups.values()))}  # fmt: skip
    probe = next((name for name, trial in trials.items() if trial.algorithm == PROBE), None)
    others = [name for name, trial in trials.items() if trial.algorithm != PROBE]
    if probe is None or not others:
        return []
    lost = [name for name in others if not _above(gap_between(name, probe, LATE, numbers))]
    if not lost:
        return []
    whom = (
        "No algorithm does"
        if len(lost) == len(others)
        else f"{listed(lost)} {'does' if len(lost) == 1 else 'do'} not do"
    )
    return [f"{whom} better than {legible(probe)}, which trains one linear layer on frozen features."]


def _above(gap: Gap) -> bool:
    found = gap.estimate
    return found.interval()[0] > 0 if found else (gap.mean or 0.0) > 0


def listed(names: Sequence[str]) -> str:
    """Write names as a sentence has them: a, b and c."""
    shown = [*map(legible, names)]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
