"""Run a trial that several processes may want, and clear away what those that were killed have left of others."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from domainwise.data.domains import Domains
from domainwise.errors import InputError
from domainwise.experiment.output_folder import ended, served
from domainwise.experiment.records import Event
from domainwise.experiment.trial import Trial
from domainwise.files import LOCK, exists, lock_trial, names_in
from domainwise.sweeps.claims import Claim, Lost, at_work
from domainwise.training.checkpoint_files import clear
from domainwise.training.run_options import RunOptions
from domainwise.training.run_trial import Watch, execute


def work(trial: Trial, data: Domains, folder: Path, options: RunOptions, watch: Watch) -> Event:
    """Run a trial unless it has ended already, or another process is at it.

    Returns an event: {"result": ...}, with "elsewhere" where another process came to it; or {"taken": True}.
    """
    path = folder / "trials" / trial.id
    claim = Claim(folder, trial)
    if not claim.take():
        result = served(path, trial)
        return {"result": result, "elsewhere": True} if result else {"taken": True}

    def listen(trial: Trial, event: Event) -> None:
        claim.heard(event)
        watch(trial, event)

    with claim:
        if result := served(path, trial):  # since the driver looked
            return {"result": result, "elsewhere": True}
        watch(trial, {"step": 0})
        with suppress(Lost):
            return {"result": execute(trial, data, path, options, watch=listen)}
    return {"taken": True}


class _Busy(Exception):  # noqa: N818  a finding
    """Somebody is at the trial."""


def tidy(folder: Path) -> list[str]:
    """Take away the locks, claims and checkpoints of trials in an output folder that have ended and nobody is at.

    A process that was killed right after it had published a result leaves them. Returns the ids of these trials.
    """
    with suppress(OSError):
        trials, claimed = folder / "trials", {*names_in(folder / "claims")}
        ids = [id for id in names_in(trials) if id in claimed or exists(trials / id / LOCK)]
        return [id for id in ids if _tidied(trials / id, folder / "claims" / id)]
    return []


def _tidied(home: Path, claim: Path) -> bool:
    with suppress(OSError, InputError, _Busy):  # what cannot be read just now is left for later
        result = ended(home, certain=True)
        if result is None or at_work(claim):
            return False
        with lock_trial(home, _busy):
            if result["status"] in ("finished", "diverged"):  # one that failed can go on from its checkpoint
                clear(home)
        claim.unlink(missing_ok=True)
        return True
    return False


def _busy(sentence: str) -> None:
    raise _Busy(sentence)
