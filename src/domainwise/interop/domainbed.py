"""Read the runs of a DomainBed sweep into our words: env i in -> main, env i out -> holdout."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from reprlib import repr as short
from typing import Any, NamedTuple

from domainwise.errors import InputError
from domainwise.experiment.records import Record, Scores
from domainwise.experiment.selection import Run
from domainwise.experiment.settings import number, whole

ALGORITHMS = (
    "ERM", "ERMPlusPlus", "Fish", "IRM", "GroupDRO", "Mixup", "MLDG", "CORAL", "MMD", "DANN", "CDANN", "MTL", "SagNet",
    "ARM", "VREx", "RSC", "SD", "ANDMask", "SANDMask", "IGA", "SelfReg", "Fishr", "TRM", "IB_ERM", "IB_IRM", "CAD",
    "CondCAD", "Transfer", "CausIRL_CORAL", "CausIRL_MMD", "EQRM", "RDM", "ADRMX", "URM",
)  # fmt: skip

# Environments in the order of their numbers, which is that of the sorted folder names.
DATASETS = {
    "ColoredMNIST": ("+90%", "+80%", "-90%"),
    "RotatedMNIST": ("0", "15", "30", "45", "60", "75"),
    "VLCS": ("C", "L", "S", "V"),
    "PACS": ("A", "C", "P", "S"),
    "OfficeHome": ("A", "C", "P", "R"),
    "TerraIncognita": ("L100", "L38", "L43", "L46"),
    "DomainNet": ("clip", "info", "paint", "quick", "real", "sketch"),
}


@dataclass(frozen=True, eq=False)
class Imported:
    """One training run: its arguments, its hyperparameters and its records."""

    folder: Path
    args: Mapping[str, Any]
    hparams: Mapping[str, Any]
    run: Run
    done: bool

    @property
    def last(self) -> int:
        """The last step that was evaluated."""
        step: int = self.run.records[-1]["step"]
        return step


@dataclass(frozen=True)
class Sweep:
    """All runs of the folders of a sweep, and the lines that could not be read."""

    runs: tuple[Imported, ...]
    broken: tuple[str, ...]  # "folder/results.jsonl, line 3: why it is no record"

    @property
    def records(self) -> int:
        """The number of evaluations."""
        return sum(len(one.run.records) for one in self.runs)

    @property
    def incomplete(self) -> list[Imported]:
        """The runs that stopped early: fewer steps than planned and no ``done`` file, which old sweeps never have."""
        longest: dict[str, int] = {}
        for one in self.runs:
            longest[one.run.data] = max(one.last, longest.get(one.run.data, 0))
        return [one for one in self.runs if not one.done and one.last < _planned(one, longest[one.run.data])]


def _planned(one: Imported, longest: int) -> int:
    steps = one.args.get("steps")
    return steps - 1 if isinstance(steps, int) else longest


class Line(NamedTuple):
    """One line of a results file."""

    args: dict[str, Any]
    hparams: dict[str, Any]
    run: tuple[str, str, int, tuple[str, ...], int]  # the fields of a Run but its records
    record: Record


def read(*folders: Path) -> Sweep:
    """Read every ``results.jsonl`` in the folders and one level below. Models are not opened."""
    runs: list[Imported] = []
    broken: list[str] = []
    for file in [file for folder in folders for file in _files(folder)]:
        lines = list(_lines(file, broken))
        for key in dict.fromkeys(line.run for line in lines):  # a folder that was used twice holds several runs
            own = [line for line in lines if line.run == key]
            run = Run(*key, _timed([line.record for line in own]))
            runs.append(Imported(file.parent, own[0].args, own[0].hparams, run, (file.parent / "done").exists()))
    if not runs:
        raise InputError(f"none of the lines in {', '.join(map(str, folders))} is a record: {broken[0]}")
    return Sweep(tuple(runs), tuple(broken))


def _files(folder: Path) -> list[Path]:
    name = "results.jsonl"
    files = [file for file in [folder / name, *sorted(folder.glob(f"*/{name}"))] if file.is_file()]
    if not files:
        raise InputError(f"{folder} has no folders with a {name}: give the output folder of a DomainBed sweep")
    if all(file.stat().st_size == 0 for file in files):
        raise InputError(f"every {name} in {folder} is empty: no run has come to its first evaluation")
    return files


def _lines(file: Path, broken: list[str]) -> Iterator[Line]:
    with file.open(encoding="utf-8", errors="replace") as lines:
        for number, text in enumerate(lines, 1):
            try:
                if text.strip():
                    yield _parsed(json.loads(text))
            except json.JSONDecodeError:
                broken.append(f"{file.parent.name}/{file.name}, line {number}: cut off or not JSON")
            except KeyError as error:
                broken.append(f"{file.parent.name}/{file.name}, line {number}: has no {error.args[0]}")
            except (TypeError, ValueError, RecursionError) as error:
                broken.append(f"{file.parent.name}/{file.name}, line {number}: {error}")


def _parsed(content: Any) -> Line:
    if not isinstance(content, dict) or not isinstance(content.get("args", {}), dict):
        raise ValueError("not the record of an evaluation")
    args, hparams = content["args"], content.get("hparams") or {}
    names = _domains(content, args)
    _check(args, ("dataset", "algorithm"), _is_name, "a name")
    _check(args, ("trial_seed", "hparams_seed"), _is_count, "a whole number")
    _check({"holdout_fraction": 0.2, **args}, ("holdout_fraction",), _is_share, "a share of the images")
    _check({"checkpoint_freq": None, **args}, ("checkpoint_freq",), lambda every: not every or whole(every), "a number")
    _check({"hparams": hparams}, ("hparams",), lambda value: isinstance(value, dict), "a dictionary")
    _check({"batch_size": 0, **hparams}, ("batch_size",), _is_count, "a whole number")
    _check(content, ("step",), _is_count, "a whole number")
    _check({"step_time": 0.0, **content}, ("step_time",), lambda time: not time or number(time), "a number")
    targets = tuple(_target(names, i) for i in args["test_envs"])
    if not targets:
        raise ValueError("it has no test environment")
    record: Record = {
        "step": int(content["step"]),
        "seconds": float(content.get("step_time") or 0.0),
        "loss": loss if number(loss := content.get("loss")) else None,
        "domains": {name: _parts(content, i, name in targets) for i, name in enumerate(names)},
    }
    run = (args["dataset"], args["algorithm"], int(args["trial_seed"]), targets, int(args["hparams_seed"]))
    return Line(args, hparams, run, record)


def _check(content: Mapping[str, Any], keys: Sequence[str], fits: Callable[[Any], bool], what: str) -> None:
    for key in keys:
        if not fits(content[key]):
            raise ValueError(f"{key} is {short(content[key])}, not {what}")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.strip() != ""


def _is_count(value: object) -> bool:
    """Whole numbers of DomainBed may be written as 300.0."""
    return whole(int(value) if isinstance(value, float) and value.is_integer() else value, least=0)


def _is_share(value: object) -> bool:
    return number(value) and 0 <= value <= 1  # type: ignore[operator]


def _domains(content: Mapping[str, Any], args: Mapping[str, Any]) -> tuple[str, ...]:
    """Runs written by us name their domains in ``args``; DomainBed's own do not."""
    domains = next(i for i in count() if f"env{i}_out_acc" not in content)
    if not domains:
        raise KeyError("env0_out_acc")
    names = args.get("domains")
    own = tuple(names) if isinstance(names, list) and all(map(_is_name, names)) else ()
    return own if len(own) == len(set(own)) == domains else environments(args["dataset"], domains)


def _target(names: Sequence[str], i: Any) -> str:
    if not isinstance(i, int) or not 0 <= i < len(names):
        raise ValueError(f"test environment {i} is none of its {len(names)}")
    return names[i]


def _parts(content: Mapping[str, Any], i: int, target: bool) -> dict[str, Scores]:
    parts = {"main": f"env{i}_in_acc", "holdout": f"env{i}_out_acc"}
    needed = {part: key for part, key in parts.items() if target or key in content}
    for key in needed.values():
        _check(content, (key,), _is_share, "an accuracy")
    return {part: {"accuracy": float(content[key])} for part, key in needed.items()}


def _timed(records: Sequence[Record]) -> list[Record]:
    """Sort by step and add up the seconds: DomainBed notes those of a single step."""
    made: list[Record] = []
    for record in sorted(records, key=lambda record: record["step"]):
        step, seconds = (made[-1]["step"], made[-1]["seconds"]) if made else (-1, 0.0)
        made.append({**record, "seconds": seconds + record["seconds"] * (record["step"] - step)})
    return made


def environments(dataset: str, count: int) -> tuple[str, ...]:
    """Return the names of the environments 0 to count - 1; plain ones where the data set is not known in this form."""
    known = DATASETS.get(dataset, ())
    return known if len(known) == count else tuple(f"env{i}" for i in range(count))
