"""Give the results of a comparison: a table, a frame, a page, an answer in words. Nothing here needs torch."""

from __future__ import annotations

import html
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from domainwise.errors import InputError, require, some, typed, warn
from domainwise.experiment.records import Event
from domainwise.experiment.results import Outcome, listing, told_apart, variants, warn_of_damage
from domainwise.experiment.trial import Trial

if TYPE_CHECKING:
    import pandas as pd

    from domainwise.data.domains import Domains
    from domainwise.report.power import Power
    from domainwise.report.recommend import Recommendation


@dataclass(frozen=True, repr=False)
class Results:
    """The results of a comparison: ``table()`` to print, ``frame()`` to compute with, ``report(path)`` to look at.

    ``answer()`` says in words which row to take, what to expect of it, and what the seeds can show; ``recommend()`` has
    the numbers behind the first of these, and ``dw.power(results)`` those behind the last.
    """

    outcomes: tuple[Outcome, ...]
    folder: Path
    data: Domains | None = field(default=None, repr=False, compare=False)

    @classmethod
    def open(cls, folder: Path | str, *, data: Domains | None = None) -> Results:
        """Open an output folder: all trials that have ended. ``data`` is what they were trained on, for ``dw.fit``."""
        from domainwise.data.domains import Domains

        require("folder", folder, Path | str)
        require("data", data, Domains | None)
        folder = Path(folder).expanduser()
        trials = listing(folder, files=True)
        found = tuple(variants(told_apart(trials.outcomes)))
        if not found and not trials.unknown:
            raise InputError(f"{folder} has no finished trials: give the folder that a comparison wrote to")
        warn_of_damage(trials)
        return cls(found, folder, data)

    @property
    def page(self) -> Path:
        """Return the file that a report of these results is in, if none is named."""
        return self.folder / "report.html"

    @property
    def troubled(self) -> list[Outcome]:
        """Return the trials that diverged or failed, or are damaged."""
        return [outcome for outcome in self.outcomes if outcome.result["status"] != "finished"]

    @typed
    def table(self, format: str = "table", select: str | None = None, metric: str | None = None) -> str:
        """Return the table as text. ``select`` names a rule of :mod:`domainwise.experiment.selection`.

        Without it, each trial counts at the step that it selected itself. ``metric`` takes the place of accuracy:
        balanced_accuracy, macro_f1, auroc, worst_domain, or a function of one's own as "my_metric.py:score".
        """
        from domainwise.report.scored import table_in
        from domainwise.report.tables import accuracy_table, narrowed, table_by

        if metric is not None and select is not None:
            raise InputError("a metric is of the step that each trial selected itself: give select or metric, not both")
        if metric is not None:
            found = table_in(self.outcomes, metric)
        else:
            found = accuracy_table(self.outcomes) if select is None else table_by(self.outcomes, select)
        return (found if format in ("csv", "json") else narrowed(found)).render(format)

    def frame(self) -> pd.DataFrame:
        """Return a row for every trial, with its settings and its numbers at the selected step."""
        from domainwise.report.frames import frame

        return frame(self.outcomes)

    def curves(self) -> pd.DataFrame:
        """Return a row for every evaluation of every trial, domain and part of one: the accuracy against the step."""
        from domainwise.report.frames import curves

        return curves(self.outcomes)

    def groups(self) -> pd.DataFrame:
        """Return a row for every trial and group of its test images, or for every target where there are no groups."""
        from domainwise.report.groups import frame

        return frame(self.outcomes)

    def __repr__(self) -> str:
        status = Counter(outcome.result["status"] for outcome in self.outcomes)
        algorithms = dict.fromkeys(outcome.trial.label for outcome in self.outcomes)
        targets = dict.fromkeys("+".join(outcome.trial.targets) for outcome in self.outcomes)
        told = ", ".join(f"{count} {name}" for name, count in status.items()) or "none"
        about = f"{some(algorithms)} on {some(targets)}; " if algorithms else ""
        return f"<Results in {self.folder}: {about}trials: {told}>"

    def _repr_html_(self) -> str:
        """Return the table, as a notebook shows it."""
        return f"<pre>{html.escape(self.table())}</pre>"

    def recommend(self) -> Recommendation:
        """Say which row to take, what to expect of it at a new site, and on which classes it fails."""
        from domainwise.report.recommend import recommend

        return self._row or recommend(self.outcomes)  # which says why there is none

    @cached_property
    def _row(self) -> Recommendation | None:
        """The recommendation, found once; None where there is none."""
        from domainwise.report.recommend import recommend

        with suppress(InputError):
            return recommend(self.outcomes)
        return None

    @property
    def waiting(self) -> int:
        """Count the trials that were asked for last and have not ended."""
        from domainwise.sweeps.status import planned

        return sum(not (self.folder / "trials" / id / "result.json").is_file() for id in planned(self.folder))

    def answer(self, power: Power | None = None) -> str:
        """Say in words which row to take, what to expect of it, and what the seeds that were run can show.

        ``power`` is what ``dw.power(results, ...)`` has found, where its defaults will not do.
        """
        from domainwise.report.recommend import answer

        return "\n\n".join(" ".join(part) for part in answer(self.outcomes, self._power(power), self._row))

    def report(
        self, path: Path | str, *, running: str = "", power: Power | None = None, pictures: bool | None = None
    ) -> Path:
        """Write the page, one file of HTML, and return its path. ``power`` is that of :meth:`answer`.

        The worst mistakes are shown as pictures where the data are known; ``pictures=True`` also shows those of a named
        benchmark, and ``False`` none. ``running`` is what to say of trials that have not ended; the page then loads
        itself again now and then.
        """
        from domainwise.report.page.mistakes import gallery
        from domainwise.report.page.page import write

        require("path", path, Path | str)
        require("pictures", pictures, bool | None)
        found = self._power(power)
        row = None if found.waiting else self._row
        mistakes = gallery(row, self.outcomes, self.data, pictures) if row else None
        return write(self.outcomes, Path(path), running=running, power=found, row=row, mistakes=mistakes)

    def _power(self, given: Power | None) -> Power:
        from domainwise.report.power import Power, power

        require("power", given, Power | None)
        return given or power(self)


AT_LEAST = 10.0  # seconds between two pages that are written while trials run
SHARE = 20  # writing takes no more than one part in this many of the time


class LivePage:
    """Write a report anew as trials end, as often as costs little."""

    def __init__(self, results: Callable[[], Results], trials: int, missing: int) -> None:
        self.results, self.trials, self.missing = results, trials, missing
        self.next = time.monotonic() + AT_LEAST

    def watch(self, trial: Trial, event: Event) -> None:
        """Hear what happens to a trial."""
        if "result" not in event:
            return
        self.missing -= 1
        if self.missing and time.monotonic() >= self.next:
            started = time.monotonic()
            with suppress(Exception):  # no reason to stop training; the last page says what is wrong
                self._write()
            self.next = time.monotonic() + max(AT_LEAST, SHARE * (time.monotonic() - started))

    def _write(self) -> None:
        ended = f"{self.trials - self.missing} of {self.trials} trials have ended"
        found = self.results()
        found.report(found.page, running=f"{ended}; this page shows those, and loads itself again.")

    @staticmethod
    def finish(results: Results) -> None:
        """Write the page of all results; where that cannot be done, warn, for the results are whole without it."""
        try:
            results.report(results.page)
        except Exception as error:
            why = str(error).strip() or type(error).__name__
            warn(
                f"the results are whole, and their page could not be made ({why}): domainwise report {results.folder} "
                "tries again"
            )
