"""Write and read the records of a run: one line of JSON per evaluation, only ever appended."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

from domainwise.files import beside, create_text, exists, open_to_append, replacing_text, sync as sync

Confusion = Sequence[Sequence[int]] | Mapping[str, Any]  # see domainwise.experiment.metrics
Calibration = Mapping[str, Sequence[float]]


Groups = Mapping[str, Sequence[float]]  # by group: the accuracy in it, and the number of its images


class Judged(TypedDict):
    """Hold the scores over all groups, and the accuracy in each."""

    metrics: dict[str, float]
    groups: Groups


class Scores(TypedDict):
    """The scores of a model on one part of one domain, with or without the counts that more can be derived from."""

    accuracy: float
    loss: NotRequired[float]
    count: NotRequired[int]  # images
    confusion: NotRequired[Confusion]
    calibration: NotRequired[Calibration]
    metrics: NotRequired[dict[str, float]]  # scores by group, and what is "judged" by in the place of accuracy
    groups: NotRequired[Groups]


# {"15": {"holdout": {"accuracy": 0.95, "loss": 0.2, "count": 60}},             a source
#  "75": {"main": {"accuracy": 0.7, ...}, "holdout": {"accuracy": 0.6, ...}}}   a target
DomainScores = dict[str, dict[str, Scores]]


class Record(TypedDict):
    """The record of one evaluation during a trial."""

    step: int
    domains: DomainScores
    seconds: NotRequired[float]
    loss: NotRequired[float | None]  # the mean training loss since the evaluation before
    averages: NotRequired[dict[str, DomainScores]]  # of averaged weights, by averager
    walk: NotRequired[dict[str, float | None]]  # how far one goes, beside the outer step, and which share goes wrong
    average: NotRequired[DomainScores]  # of the only averager there was in earlier versions


class Measures(TypedDict, total=False):
    """Means over the targets, and the domain with the lowest accuracy."""

    balanced_accuracy: float
    macro_f1: float
    calibration_error: float
    worst_domain: str
    worst_accuracy: float
    worst_group: float  # of an official split: the lowest accuracy of a group, or of a domain
    percentile_10: float  # ... and that which nine of ten of them exceed
    judged: float  # ... and the score that a benchmark judges by


class Summary(TypedDict, total=False):
    """One step with the accuracies that tables print; empty where a trial did not finish."""

    step: int
    validation: float
    target: float | None  # the mean over the targets, of which there may be none
    targets: dict[str, float]
    measures: Measures


class ModelResult(TypedDict, total=False):
    """The selected and the last step of one model of a trial; None where the trial did not finish."""

    selected: Summary | None
    last: Summary | None


class Result(ModelResult, total=False):
    """The content of result.json.

    The status is "finished", "diverged" or "failed"; "damaged" stands for a file that is not what was written.
    """

    id: str
    status: str
    message: str  # a sentence where the trial did not finish
    averages: dict[str, ModelResult]  # by averager
    average: str  # the averagers as asked for: "swad,ma"
    step: int  # the last one made
    seconds: float
    device: str
    threads: int | None
    parts: int  # that every leg was computed in where the GPU had too little memory; absent where it had enough
    versions: dict[str, str]  # of domainwise, torch, python, numpy, and the commit
    files: dict[str, Any]  # name -> {"sha256": ..., "bytes": ...}


class Event(TypedDict, total=False):
    """An event that ``watch`` hears of a trial.

    While it trains: {"step": updates made}, at an evaluation with "validation", or {"note": a sentence}. When it has
    ended: {"result": ...}, with "elsewhere" where another process ran it; or {"taken": True} while another one does.
    """

    step: int
    validation: float
    note: str
    result: Result
    elsewhere: bool
    taken: bool


def append(path: Path, record: Record) -> None:
    with open_to_append(path) as file:
        file.write(json.dumps(finite(record), allow_nan=False) + "\n")


class Journal:
    """Keep the records of a trial as they come: lean ones to stay, and whole ones while the trial runs."""

    LEAN, WHOLE = "records.jsonl", "evaluations.jsonl"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records: list[Record] = []

    def begin(self, *, again: bool) -> None:
        """Begin at the start, or ``again`` where the files end."""
        if again and exists(self.folder / self.WHOLE):
            self.records = _parsed((self.folder / self.WHOLE).read_bytes())
        else:
            for name in (self.LEAN, self.WHOLE):
                (self.folder / name).unlink(missing_ok=True)

    def add(self, record: Record) -> None:
        with open_to_append(self.folder / self.WHOLE) as file:
            file.write(json.dumps(record) + "\n")  # read by us alone: what is not finite comes back as it was
        append(self.folder / self.LEAN, lean(record))
        self.records.append(record)

    def close(self) -> None:
        (self.folder / self.WHOLE).unlink(missing_ok=True)

    @classmethod
    def agree(cls, folder: Path, lengths: Mapping[str, int]) -> bool:
        """Return whether the two files say the same up to these lengths, which is all to be told without a hash."""
        content = {name: (folder / name).read_bytes()[:length] if length else b"" for name, length in lengths.items()}
        try:
            return [finite(lean(one)) for one in _parsed(content[cls.WHOLE])] == _parsed(content[cls.LEAN])
        except (ValueError, KeyError, TypeError, AttributeError):
            return False


def _parsed(lines: bytes) -> list[Record]:
    return [json.loads(line) for line in lines.splitlines()]


COUNTS = ("confusion", "calibration", "groups")


def lean(record: Record) -> Record:
    """Return a record without the counts, which are kept for the selected model only."""
    found = record.copy()
    found["domains"] = _without_counts(record["domains"])
    if "averages" in record:
        found["averages"] = {name: _without_counts(domains) for name, domains in record["averages"].items()}
    if "average" in record:
        found["average"] = _without_counts(record["average"])
    return found


def averaged(found: Iterable[Record], name: str) -> list[Record]:
    """Return the records of an average, by the name of its averager, as if it were a run of its own."""
    pairs = [(record, averages(record, name).get(name)) for record in found]
    return [{**record, "domains": domains} for record, domains in pairs if domains is not None]


def averages(record: Record, only: str) -> dict[str, DomainScores]:
    """Return the averages in a record, by name. Once there was one at most, ``only``, and it had no name."""
    return {only: record["average"]} if "average" in record else record.get("averages", {})


def _without_counts(domains: DomainScores) -> DomainScores:
    return {
        name: {part: cast(Scores, {k: v for k, v in about.items() if k not in COUNTS}) for part, about in parts.items()}
        for name, parts in domains.items()
    }


def read(path: Path) -> Iterator[Record]:
    """Yield the records of a file; a last line that was cut while being written is left out."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.endswith("\n"):
                return
            yield json.loads(line)


def publish(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file so that it is either whole or absent, whatever happens in between."""
    with replacing_text(path) as file:
        file.write(_json(content))


def publish_once(path: Path, content: dict[str, Any]) -> bool:
    """Write a JSON file unless there is one already, which stays; return whether it was written."""
    temporary = beside(path)
    try:
        with create_text(temporary) as file:
            file.write(_json(content))
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        if path.exists():
            return False
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)
    return True


def _json(content: dict[str, Any]) -> str:
    return json.dumps(finite(content), indent=1, allow_nan=False) + "\n"


def finite(value: Any) -> Any:
    """Return the same content with None for every number that is not finite: JSON has no word for it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
