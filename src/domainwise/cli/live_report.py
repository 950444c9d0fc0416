"""The report while trials run: written anew as they end, as often as costs little."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from domainwise.api import Comparison
from domainwise.errors import InputError
from domainwise.experiment.records import Event
from domainwise.experiment.trial import Trial
from domainwise.training.run_trial import Watch

AT_LEAST = 10.0  # seconds between two
SHARE = 20  # writing takes no more than one part in this many of the time


class Refreshing:
    """Hears what happens before ``watch`` does, and passes it on."""

    def __init__(self, comparison: Comparison, missing: int, path: Path, watch: Watch) -> None:
        self.comparison, self.path, self.watch = comparison, path, watch
        self.missing, self.next = missing, time.monotonic() + AT_LEAST

    def hear(self, trial: Trial, event: Event) -> None:
        self.watch(trial, event)
        if "result" not in event:
            return
        self.missing -= 1
        if self.missing and time.monotonic() >= self.next:
            started = time.monotonic()
            with suppress(OSError, InputError):  # no reason to stop training
                self._write()
            self.next = time.monotonic() + max(AT_LEAST, SHARE * (time.monotonic() - started))

    def _write(self) -> None:
        every = len(self.comparison.trials)
        running = f"{every - self.missing} of {every} trials have ended; this page shows those, and loads itself again."
        self.comparison.results().report(self.path, running=running)
