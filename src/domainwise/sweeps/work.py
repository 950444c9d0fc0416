"""One trial for one of several processes that may want it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from domainwise.data.domains import Domains
from domainwise.experiment.output_folder import served
from domainwise.experiment.records import Event
from domainwise.experiment.trial import Trial
from domainwise.sweeps.claims import Claim, Lost
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
