"""Read the results of trials back from their folder."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, cast

from domainwise.errors import warn
from domainwise.experiment import integrity, records
from domainwise.experiment.integrity import are_counts, is_number, is_record, is_share, is_whole
from domainwise.experiment.trial import SEARCHED, Trial


@dataclass(frozen=True)
class Outcome:
    """Hold a trial and its result."""

    trial: Trial
    result: records.Result
    folder: Path
    average: str = ""  # of an averaged model of the run: the averager that made it

    @property
    def averaged(self) -> bool:
        return bool(self.average)

    @property
    def selected(self) -> records.Summary:
        """The numbers at the selected step; empty where the trial did not finish."""
        return self.result.get("selected") or {}

    @property
    def last(self) -> records.Summary:
        """The numbers at the last step; empty where the trial did not finish."""
        return self.result.get("last") or {}

    def records(self) -> list[records.Record]:
        if self.result["status"] == DAMAGED:
            return []
        found = records.read(self.folder / "records.jsonl")
        return records.averaged(found, self.average) if self.averaged else list(found)


@dataclass(frozen=True)
class Listing:
    """Hold the trials of an output folder, those that are damaged among them."""

    outcomes: Sequence[Outcome]  # of trials that have ended, well or badly; "damaged" is a status too
    unknown: Mapping[str, str] = field(default_factory=dict)  # ids of those with no trial.json to read, and why
    waiting: int = 0  # trials that have begun and have no result yet

    @property
    def results(self) -> dict[str, records.Result]:
        """Every result by the id of its trial."""
        lost = {id: damaged(id, sentence) for id, sentence in self.unknown.items()}
        return {**lost, **{one.folder.name: one.result for one in self.outcomes}}


def listing(folder: Path, *, files: bool = False) -> Listing:
    """Read what has ended in an output folder; ``files`` also compares the records and the counts with their hashes."""
    found, unknown, waiting = list[Outcome](), dict[str, str](), 0
    with _no_looking_for_cycles():
        for home in homes(folder):
            if not os.path.lexists(f"{home}/result.json"):
                waiting += 1
                continue
            try:
                found.append(outcome(home, files=files))
            except integrity.Damaged as error:
                unknown[home.name] = str(error)
    return Listing(found, unknown, waiting)


def outcomes(folder: Path, *, files: bool = False) -> list[Outcome]:
    """Return every trial of an output folder that has come to an end, well or badly."""
    return list(listing(folder, files=files).outcomes)


def warn_of_damage(trials: Listing) -> None:
    """Warn, in a sentence each, of what is damaged, of what has no result and of what nobody can check."""
    if trials.waiting:
        many = f"{trials.waiting} trial{'s' * (trials.waiting > 1)}"
        warn(f"{many} without a result yet, and so left out")
    unsealed = sum("files" not in one.result and one.result["status"] != DAMAGED for one in trials.outcomes)
    if unsealed:
        warn_of_no_hashes(unsealed, len(trials.results))
    lost = {one.folder.name: one.result["message"] for one in trials.outcomes if one.result["status"] == DAMAGED}
    lost |= trials.unknown
    if lost:
        more = f"; and {len(lost) - 3} more" if len(lost) > 3 else ""
        warn(
            f"{len(lost)} of {len(trials.results)} trials {'are' if len(lost) > 1 else 'is'} damaged and left out: "
            f"{'; '.join([*lost.values()][:3])}{more}. The command that made them runs them again with --retry-failed"
        )


def warn_of_no_hashes(unsealed: int, trials: int) -> None:
    warn(
        f"{unsealed} of {trials} trials are of an earlier version, which kept no hashes: whether their numbers have "
        "changed since cannot be told"
    )


def outcome(home: Path, *, files: bool = False) -> Outcome:
    """Read the result of a trial; raises ``Damaged`` where it is not known which trial it is."""
    trial = trial_in(home)
    return Outcome(trial, result_in(home, files=files), home)


def trial_in(home: Path) -> Trial:
    """Return the trial of a folder, from its trial.json."""
    path = home / "trial.json"
    settings = integrity.read(path)
    try:
        return Trial.from_json(settings)
    except (TypeError, ValueError, KeyError) as error:
        raise integrity.Damaged(path, f"is damaged: it describes no trial ({error})") from error


def result_in(home: Path, *, files: bool = False, certain: bool = False) -> records.Result:
    """Return the result in a trial's folder; its status is "damaged" where that, or ``files``, is not as written.

    ``certain``, for who deletes by it: an error where it cannot be read just now.
    """
    try:
        result = cast(records.Result, integrity.read(home / "result.json"))
        if (wrong := _wrong(result)) is not None:
            raise integrity.Damaged(home / "result.json", f"is damaged: its {wrong} makes no sense")
        if files:
            _verify(home, result)
    except integrity.Damaged as error:
        if certain and isinstance(error, integrity.Unreadable):
            raise
        return damaged(home.name, str(error))
    result.setdefault("averages", {})  # earlier versions left it out where there were none
    return result


def damaged(id: str, sentence: str) -> records.Result:
    """Return a result that stands for one of which something is damaged."""
    return {"id": id, "status": DAMAGED, "message": sentence, "selected": None, "last": None, "averages": {}}


DAMAGED = "damaged"
OUTCOMES = "outcomes.npz"  # see domainwise.experiment.outcomes
READ = ("records.jsonl", "counts.json")  # the files of a trial whose numbers are shown, beside those of its result


def _verify(home: Path, result: records.Result) -> None:
    """Refuse files that are not what was written or, without the hashes of later versions, that cannot be read."""
    if "files" in result:
        for name in READ:
            if name in result["files"]:
                integrity.verify(home / name, result["files"][name])
        return
    if (home / "counts.json").exists() and not are_counts(integrity.read(home / "counts.json")):
        raise integrity.Damaged(home / "counts.json", "is damaged: it holds no counts")
    path, targets = home / "records.jsonl", (result.get("selected") or {}).get("targets", {})
    if path.exists() or result["status"] == "finished":
        for number, line in enumerate(integrity.content(path).splitlines(keepends=True), 1):
            if not _is_record(line, targets):
                raise integrity.Damaged(path, f"is damaged: its line {number} is no record")


def _is_record(line: bytes, targets: Iterable[str]) -> bool:
    try:
        return is_record(json.loads(line), targets) and line.endswith(b"\n")
    except (ValueError, RecursionError):
        return False


def _wrong(result: Mapping[str, Any]) -> str | None:
    """The name of what a result cannot have been written with: other programs and accidents write JSON too."""
    kinds = {"id": str, "status": str, "message": str, "averages": dict, "versions": dict, "files": dict}
    for name, kind in kinds.items():
        if name in result and not isinstance(result[name], kind):
            return name
    if result.get("status") not in ("finished", "diverged", "failed"):
        return "status"
    summaries = {"selected": result.get("selected"), "last": result.get("last")}
    for name, average in result.get("averages", {}).items():
        if not isinstance(average, dict):
            return "averages"
        summaries |= {f"{part} of {name}": average.get(part) for part in ("selected", "last")}
    finished = result["status"] == "finished"
    numbers = [result.get(name) for name in ("step", "seconds")]
    if finished and (None in numbers or not all(map(is_number, numbers))):
        return "numbers"
    if finished and summaries["selected"] is None:
        return "numbers"
    return next((name for name, one in summaries.items() if one is not None and not _summary(one)), None)


def _summary(one: object) -> bool:
    """Whether it is a step with its accuracies, as tables need them."""
    if not isinstance(one, dict) or not is_whole(one.get("step")):
        return False
    targets, measures = one.get("targets"), one.get("measures", {})
    if not isinstance(targets, dict) or not isinstance(measures, dict):
        return False
    values = [one.get("target"), *targets.values()]
    told = [isinstance(value, str) if name == "worst_domain" else is_share(value) for name, value in measures.items()]
    # somebody's own metric, which is selected by, may be any number
    return is_number(one.get("validation")) and all(map(is_share, values)) and all(told)


def homes(folder: Path) -> list[Path]:
    """Return the folders of the trials in an output folder, in the order of their ids."""
    trials = folder / "trials"
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(trials) as entries:
        return [trials / name for name in sorted(one.name for one in entries if one.name[0] != "." and one.is_dir())]
    return []


def ended(folder: Path) -> dict[str, records.Result]:
    """Return the results of an output folder by the ids of their trials, for who needs no more."""
    return listing(folder).results


@contextmanager
def _no_looking_for_cycles() -> Iterator[None]:
    """All that is read stays, and Python would go through it again and again: a third of the time."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def variants(found: Iterable[Outcome]) -> list[Outcome]:
    """Return each outcome, and after it the averaged models of the same run as outcomes of their own."""
    return [one for outcome in found for one in (outcome, *_averages(outcome))]


def _averages(outcome: Outcome) -> list[Outcome]:
    trial = outcome.trial
    return [
        Outcome(
            replace(trial, label=f"{trial.label} + {name}"),
            {**outcome.result, **numbers, "averages": {}},
            outcome.folder,
            average=name,
        )
        for name, numbers in outcome.result["averages"].items()
    ]


def told_apart(found: Iterable[Outcome]) -> list[Outcome]:
    """Return the outcomes with labels that say what differs, where one label stands for different settings."""
    found = list(found)
    groups: dict[str, list[Trial]] = {}
    for outcome in found:
        groups.setdefault(outcome.trial.label, []).append(outcome.trial)
    differing = {label: [name for name in _SETTINGS if len({_told(trial, name) for trial in trials} - {None}) > 1]
                 for label, trials in groups.items()}  # fmt: skip
    return [
        replace(outcome, trial=_labelled(outcome.trial, names))
        if (names := differing[outcome.trial.label])
        else outcome
        for outcome in found
    ]


# What a table does not spread over rows and columns by itself. Hyperparameters are in the label where they were given.
_SETTINGS = [
    f.name
    for f in fields(Trial)
    if f.compare and f.name not in ("fingerprint", "targets", "hyperparameters", "seed", "algorithm")
]


def _told(trial: Trial, name: str) -> Any:
    """A setting that tells trials apart; None for what a search has drawn, which belongs to the one searched for."""
    return None if trial.draw and name in SEARCHED else getattr(trial, name)


def _labelled(trial: Trial, differing: list[str]) -> Trial:
    told = {name: _told(trial, name) for name in differing}
    about = ", ".join(f"{name}={str(value)[:12]}" for name, value in told.items() if value is not None)
    return replace(trial, label=f"{trial.label} [{about}]") if about else trial
