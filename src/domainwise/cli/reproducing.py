"""Make tables and figures of the paper from what was typed: run what they need, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from domainwise._version import __version__
from domainwise.api import Comparison
from domainwise.cli.options import Images, Results
from domainwise.data.domains import Domains
from domainwise.data.sources.open import benchmark_named
from domainwise.data.splits import OFFICIAL
from domainwise.errors import InputError
from domainwise.experiment.output_folder import MARK, check_contents, refuse_file
from domainwise.experiment.records import publish
from domainwise.experiment.results import Outcome
from domainwise.experiment.settings import Settings
from domainwise.paper.figures import Drawing, figure1, figure2, figure3, figure4, figure5, open_task
from domainwise.paper.index import TRAINED, serves
from domainwise.paper.layout import PaperRequest
from domainwise.paper.numbers import DATA_SETS, WILDS
from domainwise.paper.page import Page
from domainwise.paper.tables import TABLES, PaperTable
from domainwise.sweeps.engine import Runs
from domainwise.training.reading import Reading, read, settings_for

# Enough of the digits for every table and figure in a few minutes: the two targets that are hardest, and fewer steps
# for the figure whose steps cost up to ten times as much.
DIGITS_TARGETS, DIGITS_STEPS, FEWER_STEPS = "0,75", 151, 101


@dataclass
class Making:
    """Makes tables and figures, and remembers the trials that they needed."""

    texts: Sequence[str]  # data, as typed
    given: Mapping[str, Any]  # settings
    preset: str | None
    wish: PaperRequest  # targets "" where none were named
    device: str
    images: Images
    results: Results
    runs: Callable[[str, bool], Runs]  # for a network, and whether models are kept
    retry_failed: bool = False
    ended: dict[tuple[Path, str], Outcome] = field(default_factory=dict)  # by folder and averager
    listed: set[tuple[Path, str]] = field(default_factory=set)  # trials that a dry run has named, and their folders

    def make(self, name: str) -> list[Page | Drawing]:
        """One table or figure; nothing in a dry run."""
        if name in ("figure1", "figure2"):
            return [] if self.results.dry_run else [figure1() if name == "figure1" else figure2()]
        item = TRAINED["figure3" if name == "figure4" else name]
        found = self._run(item, self._wish(name))
        if self.results.dry_run:
            return []
        if name == "wilds" and not found:
            return []  # the paper has no numbers to show alone
        outcomes = [one for _, own in found for one in own]
        if name in TABLES:
            return [TABLES[name].render(outcomes, self.wish)]
        if not found:
            return [figure4()] if name == "figure4" else []
        if name == "figure5":
            return [*figure5(outcomes, self.wish)]
        return [_surface(name, *found[0], self.device)]

    def wanted(self, names: Sequence[str]) -> str:
        """Return the data that tables are made of, as it is typed."""
        return " or ".join(f"{data}=DIR" for name in names for data in TRAINED[name].data)

    @property
    def troubled(self) -> bool:
        """Return whether any trial came to no good end."""
        return any(outcome.result["status"] != "finished" for outcome in self.ended.values())

    def _wish(self, name: str) -> PaperRequest:
        wanted = tuple(one for one in self.wish.algorithms if serves(name, one))
        single = name in ("figure3", "figure4")
        return replace(self.wish, algorithms=() if single else wanted)

    def _run(self, item: PaperTable, wish: PaperRequest) -> list[tuple[Domains, list[Outcome]]]:
        found = []
        for text in self.texts:
            wilds = item.targets == OFFICIAL
            if (wilds or is_the_papers(text)) and name_of(text) not in item.data:
                continue  # nothing stands in for the sets of WILDS
            if wilds and wish.targets:
                raise InputError(f"{item.name} goes by the official split of {name_of(text)}: leave --targets out")
            data, settings = self._opened(text, item)
            targets = wish.targets or (DIGITS_TARGETS if text == "digits" else item.targets)
            own = replace(wish, targets=targets)
            folder, keep = self.results.output or default_folder([data.name]), item.models > 0
            # a model is kept in a folder of its own: that of a table may have ended without, or with an average beside
            comparison = item.trials(data, settings, own, folder / "figure3" if keep else folder)
            found.append((data, self._outcomes(comparison, keep)))
        return found

    def _outcomes(self, comparison: Comparison, keep: bool) -> list[Outcome]:
        if self.results.dry_run:  # trials that several tables share are named once
            fresh = tuple(one for one in comparison.trials if (comparison.folder, one.id) not in self.listed)
            self.listed |= {(comparison.folder, one.id) for one in fresh}
            comparison = replace(comparison, trials=fresh)
        if not comparison.trials:
            return []
        found = comparison.go(
            self.runs(comparison.trials[0].network, keep), progress=not self.results.quiet,
            report=not self.results.dry_run, dry_run=self.results.dry_run, retry_failed=self.retry_failed,
        )  # fmt: skip
        self.ended |= {} if self.results.dry_run else {(one.folder, one.average): one for one in found.outcomes}
        return list(found.outcomes)

    def _opened(self, text: str, item: PaperTable) -> tuple[Domains, Settings]:
        own, given = is_the_papers(text), dict(self.given)
        if text == "digits" and self.preset is None and "steps" not in given:
            given["steps"] = DIGITS_STEPS if item.name in TABLES else FEWER_STEPS
            given.setdefault("evaluate_every", given["steps"] // 10)
        preset = self.preset or (item.preset if own else "quick")
        if preset == "quick":
            given.setdefault("network", "small")  # as ever, whatever is at hand on this machine
        settings = settings_for(text, preset, device=self.device, given=given)
        how = Reading(**vars(self.images), progress=not self.results.quiet, decode=not self.results.dry_run)
        data, settings = read(text, settings, how, device=self.device, output=self.results.output)
        if data.name in (*DATA_SETS, *WILDS) and not own:
            raise InputError(
                f"{text} is called like a benchmark of the paper: if it is that, give --data {data.name}={text}"
            )
        return data, settings


def _surface(name: str, data: Domains, outcomes: Sequence[Outcome], device: str) -> Drawing:
    own = [one for one in outcomes if not one.averaged]
    for one in own:
        if one.result["status"] != "finished":
            raise InputError(f"the model for {name} came to no good end: {one.result['message']}")
    return figure3(own, data, device=device) if name == "figure3" else figure4(open_task(own[-1], data, device))


def name_of(text: str) -> str:
    """Return what data will be called, before it is opened."""
    if "\0" in text:
        raise InputError(f"no data is called {text!a}")
    benchmark, path = benchmark_named(text), Path(text).expanduser().resolve()
    return benchmark.name if benchmark else path.name if path.is_dir() else path.stem


def is_the_papers(text: str) -> bool:
    """Return whether data is one of the paper's benchmarks."""
    benchmark = benchmark_named(text)
    return benchmark is not None and benchmark.name in (*DATA_SETS, *WILDS)


def ours(folder: Path) -> None:
    """Mark a new folder, so that it can be written to later whatever comes first; another's is refused."""
    refuse_file(folder)
    if not folder.exists() or {path.name for path in folder.iterdir()} <= {"reproduce"}:
        folder.mkdir(parents=True, exist_ok=True)
        publish(folder / MARK, {"domainwise": __version__, "data": {}})
    check_contents(folder)


def default_folder(names: Sequence[str]) -> Path:
    """One for each set of data, whichever table; what is made of several has one of its own."""
    return Path("domainwise-runs") / "-".join(["reproduce", *names])
