"""Write records for TensorBoard: one run for every trial."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from domainwise.errors import InputError, legible
from domainwise.experiment.records import ModelResult, Record, averages
from domainwise.experiment.results import Outcome, outcomes
from domainwise.experiment.selection import target_accuracy, validation
from domainwise.experiment.trial import Trial
from domainwise.files import LOCK, locked
from domainwise.sweeps.status import follow

OPEN = 64  # files at once


@dataclass(frozen=True)
class Written:
    """How much was new: points, and trials that have any."""

    points: int
    trials: int


def write(folder: Path, logdir: Path, *, wait: bool = False) -> Written:
    """Write the records of an output folder as points, and the reported numbers of trials that have ended.

    Points that are there already are not written again. With ``wait``, go on until all trials asked for last have
    ended.
    """
    if find_spec("tensorboard") is None:
        raise InputError(
            "TensorBoard is not installed here: pip install 'domainwise[tensorboard]', or pip install tensorboard"
        )
    if str(logdir) != str(logdir).encode(errors="replace").decode():
        raise InputError(
            f"TensorBoard cannot write to {legible(str(logdir))}, whose name is no text: name another folder"
        )
    records = follow(folder, wait=wait)
    with _alone(logdir), Board(folder, logdir) as board:
        for trial, record in records:
            board.add(trial, record)
        for outcome in outcomes(folder, files=True):
            board.report(outcome)
    return Written(board.points, len(board.known))


class Board:
    """The runs below one folder, and the points that each already has."""

    def __init__(self, folder: Path, logdir: Path) -> None:
        self.folder, self.logdir, self.points = folder, logdir, 0
        self.known: dict[str, set[tuple[str, int]]] = {}
        self.writers: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for id in list(self.writers):
            self.writers.pop(id).close()

    def add(self, trial: Trial, record: Record) -> None:
        """Write the points of one record that are not there yet."""
        new = self._new(trial, record["step"], scalars(trial, record))
        if not new:
            return
        writer = self._writer(trial)
        started = (self.folder / "trials" / trial.id / "trial.json").stat().st_mtime
        for tag, value in new.items():
            writer.add_scalar(tag, value, record["step"], started + record["seconds"])
        writer.flush()

    def report(self, outcome: Outcome) -> None:
        """Write a trial's settings and reported numbers, which TensorBoard shows side by side."""
        trial, numbers = outcome.trial, reported(outcome)
        if not numbers:
            return
        step = outcome.result["step"]
        new = self._new(trial, step, numbers)
        if not new:
            return
        if trial.id in self.writers:  # TensorBoard reads no more of a file once there is a newer one
            self.writers.pop(trial.id).close()
        with self._opened(trial) as writer:
            writer.add_hparams(hyperparameters(trial), new, run_name=".", global_step=step)

    def _new(self, trial: Trial, step: int, points: Mapping[str, float]) -> dict[str, float]:
        if trial.id not in self.known:
            self.known[trial.id] = points_in(self.logdir / run_name(trial))
        new = {tag: value for tag, value in points.items() if (tag, step) not in self.known[trial.id]}
        self.known[trial.id] |= {(tag, step) for tag in new}
        self.points += len(new)
        return new

    def _writer(self, trial: Trial) -> Any:
        if trial.id not in self.writers:
            if len(self.writers) == OPEN:
                self.writers.pop(next(iter(self.writers))).close()
            self.writers[trial.id] = self._opened(trial)
        return self.writers[trial.id]

    def _opened(self, trial: Trial) -> Any:
        from torch.utils.tensorboard import SummaryWriter

        return SummaryWriter(self.logdir / run_name(trial))


def scalars(trial: Trial, record: Record) -> dict[str, float]:
    """Return every number of a record by its tag."""
    points = {"training loss": _number(record["loss"])} if "loss" in record else {}
    points |= _domain_scalars(trial, record)
    for name, domains in averages(record, trial.average).items():
        about = f" ({name})" * (len(trial.averages) > 1)  # where it is not the only one
        averaged = _domain_scalars(trial, {**record, "domains": domains})
        points |= {f"averaged{about} {tag}": value for tag, value in averaged.items()}
    return points


def _domain_scalars(trial: Trial, record: Record) -> dict[str, float]:
    """The mean accuracies, and below them those of each domain."""
    targets = trial.targets
    points = {"validation accuracy": validation(record, targets)}
    points["target accuracy"] = target_accuracy(record, targets, trial.test)
    for name, parts in record["domains"].items():
        if name in targets:
            points[f"target accuracy/{name}"] = target_accuracy(record, [name], trial.test)
        elif "holdout" in parts:
            points[f"validation accuracy/{name}"] = parts["holdout"]["accuracy"]
            if "loss" in parts["holdout"]:  # not where the records are DomainBed's
                points[f"validation loss/{name}"] = _number(parts["holdout"]["loss"])
    return points


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def reported(outcome: Outcome) -> dict[str, float]:
    """Return the numbers of the selected models, averages too; none for a trial that diverged or failed."""
    averages = {f"reported {name}": result for name, result in outcome.result["averages"].items()}
    models: dict[str, ModelResult] = {"reported": outcome.result, **averages}
    return {
        f"{name}/{title}": value
        for name, result in models.items()
        if (selected := result["selected"])
        for title, value in (
            ("validation accuracy", selected["validation"]),
            ("target accuracy", selected["target"]),
            ("selected step", selected["step"]),
        )
        if value is not None
    }


def hyperparameters(trial: Trial) -> dict[str, Any]:
    """Return the settings that TensorBoard lists for a trial."""
    about = {"algorithm": trial.label or trial.algorithm, "target": "+".join(trial.targets)}
    settings = ("seed", "draw", "network", "steps", "batch", "dropout")
    return {**about, **{name: getattr(trial, name) for name in settings}, **trial.used}


def run_name(trial: Trial) -> str:
    """Return a folder name for a trial, safe whatever its trial.json says: all but letters, digits and .,=()+- is _."""
    draw = f"-draw{trial.draw}" if trial.draw else ""
    words = _safe_name(f"{trial.label or trial.algorithm}-{'+'.join(trial.targets)}", 80)
    return f"{words}{_safe_name(f'-seed{trial.seed}{draw}', 40)}-{trial.id[:8]}"


def _safe_name(text: str, most: int) -> str:
    """Keep a name short: a folder's may have 255 bytes, and a letter up to four."""
    return re.sub(r"[^\w.,=()+-]+", "_", text)[:most].encode()[: 2 * most].decode(errors="ignore")


def points_in(run: Path) -> set[tuple[str, int]]:
    """Return the points on disk, which count whatever became of the process that wrote them."""
    if not run.exists():
        return set()
    from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator

    events = EventAccumulator(str(run), size_guidance={SCALARS: 0}).Reload()
    return {(tag, event.step) for tag in events.Tags()[SCALARS] for event in events.Scalars(tag)}


@contextmanager
def _alone(logdir: Path) -> Iterator[None]:
    """Keep a second process out: two at once would write everything twice."""
    with ExitStack() as stack:
        try:
            logdir.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(logdir / LOCK))
        except BlockingIOError as error:
            raise InputError(f"another process is writing to {logdir} just now: let it, or end it first") from error
        except OSError as error:
            raise InputError(f"cannot write to {logdir}: {error.strerror or error}") from error
        yield
