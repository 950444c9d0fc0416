"""Open and check an output folder: it is for one set of data, and many processes may work in it."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainwise._version import __version__
from domainwise.errors import InputError, warn
from domainwise.experiment import integrity
from domainwise.experiment.records import Journal, Result, publish
from domainwise.experiment.results import DAMAGED, OUTCOMES, homes, result_in, trial_in
from domainwise.experiment.trial import Trial, separated
from domainwise.files import ABSENT, LOCK, NotAFile, content_of, locked, make_folder

if TYPE_CHECKING:
    from domainwise.data.domains import Domains
    from domainwise.experiment.settings import Settings

MARK, TRIALS = "domainwise.json", "trials"
CHOICES = "auto.json"  # the network that was chosen for the data, and why
# A disk that is full, cannot be written to or has failed, too little memory, and a `watch` nobody listens to: the trial
# can go on later.
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
SCARCE = {errno.ENOMEM, errno.EMFILE, errno.ENFILE}
NOT_THE_TRIALS_FAULT = {*FULL, *SCARCE, errno.EIO, getattr(errno, "ESTALE", errno.EIO), errno.EPIPE}
NO_MEMORY = "DefaultCPUAllocator"  # torch's error for memory of the computer is a RuntimeError with this in it
FAULTS = {*NOT_THE_TRIALS_FAULT, errno.EACCES} - {errno.EPIPE}


@contextmanager
def opened(folder: Path, data: Domains) -> Iterator[None]:
    """Open a folder to write to: a new one, an empty one, or one of earlier runs on the same data."""
    try:
        make_folder(folder)
        check_contents(folder)
        with _one_at_a_time(folder):
            _check_data(folder, data)
    except OSError as error:
        raise InputError(f"cannot write to the output folder {folder}: {error.strerror or error}") from error
    try:
        yield
    except OSError as error:
        if error.errno not in FAULTS:
            raise
        what = "write to" if error.errno in (*FULL, errno.EACCES) else "read or write in"
        raise InputError(
            f"cannot {what} the output folder {folder} any more: {error.strerror}; what has ended is kept, and the "
            "same command again goes on from there"
        ) from error


def refuse_file(folder: Path) -> None:
    """Refuse an output folder that is a file, or lies below one."""
    try:
        there = next((place for place in (folder, *folder.absolute().parents) if place.exists()), None)
    except OSError as error:  # a name that is too long
        raise InputError(f"cannot write to the output folder {folder}: {error.strerror}") from error
    if there is not None and not there.is_dir():
        why = "it is a file" if there == folder else f"it would lie below the file {there}"
        raise InputError(f"cannot write to the output folder {folder}: {why}; give another")


def is_ours(folder: Path) -> bool:
    """Return whether domainwise has worked in a folder; its mark may be lost, and then the trials in it tell."""
    return (folder / MARK).is_file() or any(folder.glob("trials/*/trial.json"))


def ended(path: Path, *, files: bool = False, certain: bool = False) -> Result | None:
    """Return the result in a trial's folder, if there is one, damaged or not; the rest as in `result_in`."""
    try:
        (path / "result.json").lstat()
    except ABSENT:
        return None
    return result_in(path, files=files, certain=certain)


def make_room(home: Path) -> None:
    """Take away the result of a trial, so that it is run again, and what would stand in the way of that."""
    with suppress(FileNotFoundError, IsADirectoryError, NotAFile):
        content_of(home / "result.json")  # what cannot be read just now is not deleted for that
    for name in ("result.json", "counts.json", OUTCOMES):
        integrity.make_way(home / name)
        (home / name).unlink(missing_ok=True)
    for name in ("trial.json", Journal.LEAN, Journal.WHOLE, "error.txt", ".lock"):
        integrity.make_way(home / name)


def serves(trial: Trial, result: Result) -> bool:
    """Return whether a result is what is asked for: with all averages, unless there was nothing to average yet."""
    if result["status"] != "finished":
        return True
    return {*result["averages"], *separated(result.get("average", "none"))}.issuperset(trial.averages)


def served(path: Path, trial: Trial) -> Result | None:
    """Return the result in a trial's folder, if it is what is asked for."""
    result = ended(path)
    return result if result is not None and serves(trial, result) else None


def restored(home: Path) -> bool:
    """Write a lost trial.json again, from the saved model of the trial; return whether that could be done."""
    for config in sorted(home.glob("*/config.json")):
        with suppress(integrity.Damaged, KeyError, TypeError, ValueError):
            settings, result = integrity.read(config)["trial"], result_in(home)
            own = home.name if home.parent.name == TRIALS else result.get("id")  # one that fit made has any name
            if settings["id"] == own and Trial.from_json(settings) and result["status"] != DAMAGED:
                integrity.make_way(home / "trial.json")
                publish(home / "trial.json", integrity.sealed(settings))
                return True
    return False


def check_contents(folder: Path, mark: str = MARK) -> None:
    """Refuse to work where somebody else has files; ``mark`` is the first of ours there."""
    if (folder / mark).is_file() or not folder.is_dir() or is_ours(folder):
        return
    foreign = sorted(p.name for p in folder.iterdir() if not p.name.startswith((".lock", f".{mark}", CHOICES)))
    if foreign:
        raise InputError(
            f"the output folder {folder} has files that are not from domainwise ({', '.join(foreign[:3])}"
            f"{', ...' if len(foreign) > 3 else ''}): choose an empty or a new one with -o"
        )


def _check_data(folder: Path, data: Domains) -> None:
    about = marked(folder)
    before = about["data"].get(data.name)
    if before not in (None, data.fingerprint):
        raise InputError(
            f'{folder} has results on other data under the name "{data.name}" (fingerprint {before[:12]}, now '
            f"{data.fingerprint[:12]}): the images or labels have changed since; choose another folder with -o"
        )
    about["data"][data.name] = data.fingerprint
    about["classes"][data.name] = list(data.classes)
    publish_mark(folder, about)


def marked(folder: Path) -> dict[str, Any]:
    """Read domainwise.json: {"data": {name: fingerprint}, "classes": {name: [...]}}.

    Where it is lost or damaged, what the trials say of their data; then there is a warning, but for a new folder.
    """
    try:
        about = {"data": {}, "classes": {}, **integrity.read(folder / MARK)}
        named = all(isinstance(about[name], dict) for name in ("data", "classes"))
        if not named or not all(isinstance(one, str) for one in about["data"].values()):
            raise integrity.Damaged(folder / MARK, "is damaged: it names no data")
        return about
    except integrity.Unreadable:
        raise
    except integrity.Damaged as error:
        about = said_by_trials(folder)
        if about["data"]:
            warn(f"{error}: what the trials say of their data counts instead")
        return about


def said_by_trials(folder: Path) -> dict[str, Any]:
    """Return the data that an output folder has results on, as far as its trials and their models know."""
    about: dict[str, dict[str, Any]] = {"data": {}, "classes": {}}
    for home in homes(folder):
        with suppress(integrity.Damaged, KeyError):
            trial = trial_in(home)
            about["data"].setdefault(trial.data, trial.fingerprint)
            if trial.data not in about["classes"]:
                about["classes"][trial.data] = integrity.read(home / "best" / "config.json")["classes"]
    return about


def publish_mark(folder: Path, about: Mapping[str, Any]) -> None:
    integrity.make_way(folder / MARK)
    publish(folder / MARK, integrity.sealed({**about, "domainwise": __version__}))


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Two processes that start at once must not write the mark over each other. Held by the system, so it ends with the
    process however that ends; where files cannot be locked, the moment is short."""
    integrity.make_way(folder / LOCK)
    with locked(folder / LOCK, waiting=lambda: None):
        yield


def of_the_machine(error: BaseException | None) -> OSError | None:
    """Return the machine's own error, also where a library such as the compiler has made another error of it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, OSError) and error.errno in NOT_THE_TRIALS_FAULT:
            return error
        if isinstance(error, MemoryError) or NO_MEMORY in str(error):
            return OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        seen.add(id(error))
        error = getattr(error, "inner_exception", None) or error.__cause__ or error.__context__
    return None


def sentence(folder: Path, error: OSError | MemoryError) -> str:
    """Say what the machine has against a trial, and how to go on."""
    number = errno.ENOMEM if isinstance(error, MemoryError) else error.errno
    reason = os.strerror(number) if number else str(error)
    if number in SCARCE:
        return (
            f"this machine has too little for the trial in {folder}: {reason}. What was saved there stays: with fewer "
            "at once (--processes, --per-gpu), or on a larger machine, the same command goes on from it"
        )
    what = "write to" if number in FULL else "read or write in"
    return (
        f"cannot {what} {folder}: {reason}. What was saved there stays: when that has been put right, the same command "
        "goes on from it"
    )


def before(trial: Trial, settings: Settings) -> Trial:
    """Return a trial without what its algorithm has settled: algorithms of one table have one folder."""
    names = [name for name, origin in trial.origins.items() if origin.startswith("algorithm ")]
    return replace(trial, **{name: getattr(settings, name) for name in names})


def default_folder(command: str, trial: Trial) -> Path:
    """Return one folder for all comparisons of one table: same data, same settings, whichever algorithms."""
    apart = {"id", "targets", "algorithm", "hyperparameters", "source", "seed"}
    shared = {name: value for name, value in trial.identity.items() if name not in apart}
    digest = hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()[:8]
    return Path("domainwise-runs") / f"{command}-{digest}"
