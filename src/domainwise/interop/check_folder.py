"""Find what is damaged in a folder of results, in a saved model or in a cache, and mend what can be made again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from domainwise.analysis.measurement_files import BALANCE, SURFACE
from domainwise.data.decoded import array_files as storage, cache_entries as shelf
from domainwise.errors import InputError, counted, typed
from domainwise.experiment import integrity
from domainwise.experiment.output_folder import (
    CHOICES,
    MARK,
    is_ours,
    make_room,
    publish_mark,
    restored,
    said_by_trials,
)
from domainwise.experiment.records import Journal
from domainwise.experiment.results import DAMAGED, OUTCOMES, homes, result_in, trial_in, warn_of_no_hashes
from domainwise.files import LOCK, is_locked, leftovers
from domainwise.saved_models import card
from domainwise.saved_models.saved import CONFIG, read as weights_of
from domainwise.sweeps import claims
from domainwise.sweeps.status import PLAN
from domainwise.training.checkpoint_files import remove, saved
from domainwise.training.result import models_in
from domainwise.training.suited_settings import choices_in

UNSEALED = "without hashes"  # among what was looked at


@dataclass(frozen=True)
class Finding:
    """A file that is damaged, or that a process left behind when it ended."""

    path: Path
    problem: str
    mend: Callable[[], str] | None = None  # repairs it, and says what it did
    leftover: bool = False  # harmless
    mended: str = ""

    def __str__(self) -> str:
        return f"{self.problem}{': ' if self.mended else ''}{self.mended}"


@dataclass(frozen=True)
class Checked:
    """The findings of :func:`check`; nothing is damaged any more where ``damaged`` is empty."""

    folder: Path
    looked: str  # "2 trials, 2 models"
    findings: tuple[Finding, ...] = ()

    @property
    def damaged(self) -> list[Finding]:
        """The findings that are still damaged."""
        return [one for one in self.findings if not one.mended and not one.leftover]

    @property
    def mended(self) -> list[Finding]:
        """The findings that were mended."""
        return [one for one in self.findings if one.mended]

    def __repr__(self) -> str:
        words = {"damaged": len(self.damaged), "mended": len(self.mended)}
        words["left behind"] = sum(one.leftover and not one.mended for one in self.findings)
        said = ", ".join(f"{count} {word}" for word, count in words.items() if count) or "nothing is damaged"
        return f"<{self.folder}: {self.looked}; {said}>"


@typed
def check(folder: Path | str, repair: bool = False) -> Checked:
    """Compare every file of a folder with what was written: an output folder, a trial's, a model's, or a cache.

    ``repair`` mends what can be made again: a damaged trial is run again by the command that made it, and what
    processes left behind is removed. Models and checkpoints stay. A trial that a process works on just now is skipped.
    """
    folder = Path(folder)
    looked: dict[str, int] = {}
    findings = []
    for one in _findings(folder, looked):
        findings.append(_mended(one) if repair else one)
    if unsealed := looked.pop(UNSEALED, 0):
        warn_of_no_hashes(unsealed, looked["trial"])
    words = [counted(count, what) for what, count in looked.items()]
    return Checked(folder, ", ".join(words), tuple(findings))


def _mended(one: Finding) -> Finding:
    try:
        return replace(one, mended=one.mend()) if one.mend else one
    except OSError as error:
        return replace(one, problem=f"{one.problem}; it cannot be mended just now: {error.strerror or error}")


def _findings(folder: Path, looked: dict[str, int]) -> Iterator[Finding]:
    if is_ours(folder) or (folder / "trials").is_dir():
        yield from _results(folder, looked)
    elif any((folder / name).is_file() for name in ("trial.json", "result.json")):
        yield from _trial(folder, looked)
    elif (folder / CONFIG).is_file():
        yield from _model(folder, looked)
    elif (folder / storage.ABOUT).is_file() or shelf.entries(folder):
        yield from _cache(folder, looked)
    else:
        raise InputError(
            f"{folder} holds nothing that domainwise has made: give an output folder, the folder of a trial or of a "
            "saved model, or a cache"
        )


def _results(folder: Path, looked: dict[str, int]) -> Iterator[Finding]:
    looked["trial"] = 0
    for home in homes(folder):
        if not _busy(folder, home):
            yield from _trial(home, looked)
    if (wrong := _wrong(partial(integrity.read, folder / MARK))) is not None:
        yield Finding(folder / MARK, wrong, partial(_new_mark, folder))
    yield from _dispensable(folder / PLAN, "the next command writes it again")
    yield from _dispensable(folder / CHOICES, "the next command chooses the network anew", choices_in)
    if os.path.lexists(old := folder / "index.jsonl"):
        yield Finding(old, f"{old} is of an earlier version and not read any more", partial(_gone, old), leftover=True)
    for path in sorted((folder / "claims").glob("[!.]*")):
        about = claims.read(path)
        if claims.dead(about) or (not about and claims.silent(path)):
            said = f"{path} is the claim of a process that is no more"
            yield Finding(path, said, partial(_gone, path), leftover=True)


def _busy(folder: Path, home: Path) -> bool:
    return is_locked(home) or claims.at_work(folder / "claims" / home.name)


def _trial(home: Path, looked: dict[str, int]) -> Iterator[Finding]:
    looked["trial"] = looked.get("trial", 0) + 1
    ended = os.path.lexists(home / "result.json")
    if (wrong := _wrong(partial(trial_in, home))) is not None:
        yield Finding(home / "trial.json", wrong, partial(_settings_again, home))
    result = result_in(home, files=True) if ended else {}
    if result.get("status") == DAMAGED:
        yield Finding(home, result["message"], partial(_run_again, home))
    elif ended:
        looked[UNSEALED] = looked.get(UNSEALED, 0) + ("files" not in result)
        yield from _leftovers(home, result["status"])
    elif any((home / name).exists() for name in ("counts.json", f"best/{CONFIG}")) and not saved(home):
        yield Finding(home, f"{home / 'result.json'} is missing, of a trial that has ended", partial(_run_again, home))
    yield from _outcomes(home, result.get("files", {}))
    yield from _dispensable(home / BALANCE, "domainwise balance --keep measures it again")
    yield from _dispensable(home / SURFACE, "domainwise surface --keep measures it again")
    for one in _models(home, result.get("files", {}), looked):
        yield replace(one, mend=partial(_run_again, home)) if ended else one


def _outcomes(home: Path, files: dict[str, object]) -> Iterator[Finding]:
    """A file that is damaged; one that is gone was removed on purpose."""
    known, path = files.get(OUTCOMES), home / OUTCOMES
    if known and os.path.lexists(path) and (wrong := _wrong(partial(integrity.verify, path, known))) is not None:
        yield Finding(path, wrong, partial(_run_again, home))


def _dispensable(path: Path, otherwise: str, look: Callable[[Path], object] = integrity.read) -> Iterator[Finding]:
    """A file that may be missing: a command makes it again."""
    if os.path.lexists(path) and (wrong := _wrong(partial(look, path))) is not None:
        yield Finding(path, wrong, partial(_gone, path, otherwise))


def _models(home: Path, files: dict[str, object], looked: dict[str, int]) -> Iterator[Finding]:
    """Models that are there, whole or in part; one that is gone entirely was removed on purpose."""
    names = {path.relative_to(home).as_posix() for path in models_in(home)}
    names |= {name.rpartition("/")[0] for name in files if "/" in name and (home / name).exists()}
    for name in sorted(names):
        known = files.get(f"{name}/{CONFIG}")
        if known and (wrong := _wrong(partial(integrity.verify, home / name / CONFIG, known))) is not None:
            looked["model"] = looked.get("model", 0) + 1
            yield Finding(home / name, wrong)
        else:
            yield from _model(home / name, looked)


def _model(home: Path, looked: dict[str, int]) -> Iterator[Finding]:
    looked["model"] = looked.get("model", 0) + 1
    for look in (weights_of, card.read):
        if (wrong := _wrong(partial(look, home))) is not None:
            yield Finding(home, wrong)


def _cache(folder: Path, looked: dict[str, int]) -> Iterator[Finding]:
    own = (folder / storage.ABOUT).is_file()
    paths = [folder] if own else [entry.path for entry in shelf.entries(folder)]
    looked["decoded data set"] = len(paths)
    for path in paths:
        try:
            wrong, mend = shelf.damage(path), partial(_discarded, path)
        except OSError as error:  # it may be whole
            wrong, mend = str(error), None
        if wrong is not None:
            yield Finding(path, f"{path}: {wrong}", mend)


def _leftovers(home: Path, status: str) -> Iterator[Finding]:
    """Files that a kill right after the result leaves; a failed trial keeps its checkpoints to go on from."""
    paths = [path for path in (home / LOCK, *leftovers(home)) if os.path.lexists(path)]
    if status != "failed":
        paths += [*saved(home), *(path for path in [home / Journal.WHOLE] if path.exists())]
    for path in paths:
        said = f"{path} was left behind by a process that is no more"
        yield Finding(path, said, partial(_gone, path), leftover=True)


def _wrong(look: Callable[[], object]) -> str | None:
    try:
        look()
    except InputError as error:
        return str(error)
    return None


def _new_mark(folder: Path) -> str:
    publish_mark(folder, said_by_trials(folder))
    return "written again, from what the trials say of their data"


def _settings_again(home: Path) -> str:
    if restored(home):
        return "written again, as the saved model of the trial has it"
    return _run_again(home)


def _run_again(home: Path) -> str:
    kept = models_in(home)
    make_room(home)
    stay = f"; its models stay until then ({', '.join(path.name for path in kept)})" if kept else ""
    return f"the trial has no result any more, so that the command that made it runs it again{stay}"


def _gone(path: Path, more: str = "") -> str:
    if path.is_dir() and path in saved(path.parent):
        remove(path)
    elif path.is_dir():
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError):
            path.unlink()
    return f"removed{'; ' * bool(more)}{more}"


def _discarded(path: Path) -> str:
    shelf.discard(path)
    return "removed; the images are decoded again when they are needed"
