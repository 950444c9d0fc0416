"""Compare algorithms and train models: what Python users call, and each command is a thin layer over."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from domainwise.algorithms import Given, specs_of
from domainwise.data.decoded.cache import Store
from domainwise.data.domains import Domains
from domainwise.errors import InputError, typed, warn
from domainwise.experiment.output_folder import (
    before,
    default_folder,
    ended,
    make_room,
    opened,
    refuse_file,
    restored,
    serves,
)  # fmt: skip
from domainwise.experiment.records import Event
from domainwise.experiment.results import DAMAGED, Outcome, listing, variants
from domainwise.experiment.settings import Choice, Settings, resolve, together
from domainwise.experiment.trial import Trial
from domainwise.machine import choose_device, remember_places, threads_for
from domainwise.meta.ranks import check_alone
from domainwise.networks.network import check_network
from domainwise.report.expectation import refitting, refuse_settings
from domainwise.report.results import LivePage, Results as Results
from domainwise.saved_models.keep import spread
from domainwise.saved_models.model import Model
from domainwise.sweeps.engine import Runs, largest, runs_for
from domainwise.sweeps.in_process import Many, tidy
from domainwise.sweeps.progress import all_of, display, outlook, troubles
from domainwise.sweeps.status import write_plan
from domainwise.training.fit import Fitting, fitted, fitting
from domainwise.training.plan import plan, with_probe
from domainwise.training.reading import Reading, read, settings_for
from domainwise.training.run_options import RunOptions
from domainwise.training.run_trial import Watch
from domainwise.training.suited_settings import automatic, averages_for, remember
from domainwise.training.targets import seeds_of, targets_of


@dataclass(frozen=True)
class Comparison:
    """Hold the trials that are to be run, and where: all is laid out before anything starts."""

    data: Domains
    trials: tuple[Trial, ...]
    folder: Path
    choice: Choice | None = None  # of the network, which the folder is to remember

    def missing(self, retry_failed: bool = False) -> list[Trial]:
        """Return the trials that have not ended yet, or that ended without an average that is asked for now."""
        found = listing(self.folder, files=retry_failed).results
        again = ("failed", DAMAGED) if retry_failed else ()
        have = {id for id, result in found.items() if result["status"] not in again}
        return [trial for trial in self.trials if trial.id not in have or not serves(trial, found[trial.id])]

    def run(self, engine: Runs, watch: Watch, retry_failed: bool = False) -> Results:
        """Run what is missing, beside whoever else is at work in the same folder."""
        with opened(self.folder, self.data):
            remember(self.folder, self.data, self.choice)
            remember_places({sha256: file for trial in self.trials for sha256, file in trial.files.items()})
            write_plan(self.folder, self.trials)
            tidy(self.folder)
            for id in listing(self.folder).unknown if retry_failed else ():
                restored(self.folder / "trials" / id)
            missing = self.missing(retry_failed)
            if missing:
                check_alone("a trial")  # here, since processes of its own would not know of other ranks
            for network in {trial.network for trial in missing if trial.weights == "pretrained"}:
                check_network(network, "pretrained", missing[0].input_size)  # once, and not in every trial
            for trial in missing:  # one that finished stays until there is one with the averages that it lacks
                home = self.folder / "trials" / trial.id
                if (ended(home, files=retry_failed) or {}).get("status") != "finished":
                    make_room(home)
            engine.run(missing, self.data, self.folder, watch)
        return self.results()

    def go(
        self,
        runs: Runs,
        *,
        progress: bool | None = None,
        report: bool = False,
        dry_run: bool = False,
        retry_failed: bool = False,
        watch: Watch | None = None,
    ) -> Results:
        """Run what is missing, show how far it is and warn of what failed; the arguments are those of ``compare``."""
        missing = self.missing(retry_failed)
        for line in outlook(self.trials, missing, self.data, self.folder, runs) if progress else ():
            print(line, file=sys.stderr, flush=True)
        if dry_run:
            for trial in missing:
                where = f"target {'+'.join(trial.targets)}  seed {trial.seed}  draw {trial.draw}"
                print(f"{trial.id}  {trial.label}  {where}")
            print(f"{len(missing)} trials to run, results in {self.folder}")
            return self.results()
        page = LivePage(self.results, len(self.trials), len(missing)) if report else None
        with display(len(missing), progress) as shown:
            results = self.run(runs, all_of(shown.watch, watch, page.watch if page else None), retry_failed)
        if page:
            page.finish(results)
        for sentence in troubles(results.troubled):
            warn(sentence)
        return results

    def results(self) -> Results:
        """Return the results of those that have ended."""
        found, trials = listing(self.folder, files=True).results, self.folder / "trials"
        own = [Outcome(trial, found[trial.id], trials / trial.id) for trial in self.trials if trial.id in found]
        return Results(tuple(variants(own)), self.folder, self.data)


def prepare(
    data: Domains,
    algorithms: Given | Sequence[Given],
    *,
    targets: str | Sequence[str] = "auto",
    seeds: int | str | Sequence[int] = 3,
    settings: Settings | None = None,
    average: str | Sequence[str] = "none",
    draws: int = 1,
    output: Path | str | None = None,
    command: str = "compare",
    device: str = "cpu",
    probe: bool = False,
) -> Comparison:
    """Lay out a comparison: every algorithm on every target with every seed, and with every draw of a search."""
    settings = settings or resolve(benchmark=data.name, device="cpu")
    settings = automatic(settings, data, device=device, output=output)
    specs = specs_of(algorithms)
    if draws < 1:
        raise InputError(f"draws says how many, the defaults among them, so 1 or more, got {draws}")
    specs = with_probe(specs, data, settings) if probe and draws == 1 and command == "compare" else specs
    data = data.split_by(settings.duplicates)
    averages = averages_for(settings, average)
    trials = plan(data, specs, targets_of(data, targets), seeds_of(seeds), settings, averages, draws)
    folder = Path(output).expanduser() if output else default_folder(command, before(trials[0], settings))
    refuse_file(folder)
    return Comparison(data, tuple(trials), folder, settings.choice)


@typed
def compare(
    data: Domains | str | os.PathLike[str],
    algorithms: Given | Sequence[Given] = "erm,arith",
    *,
    targets: str | Sequence[str] = "auto",
    seeds: int | str | Sequence[int] = 3,
    draws: int = 1,
    preset: str = "quick",
    set: Mapping[str, Any] | None = None,
    average: str | Sequence[str] = "auto",
    probe: bool = True,
    output: Path | str | None = None,
    command: str = "compare",
    cache: Path | str | None = None,
    store: Store = "auto",
    skip_corrupt: bool = False,
    strict: bool = False,
    device: str = "auto",
    processes: int | None = None,
    threads: int | None = None,
    per_gpu: Many = "auto",
    timeout: float | None = None,
    retries: int | None = None,
    retry_failed: bool = False,
    engine: Literal["local", "ray"] = "local",
    address: str | None = None,
    progress: bool | None = None,
    report: bool = False,
    dry_run: bool = False,
    watch: Callable[[Trial, Event], None] | None = None,
    **options: Any,
) -> Results:
    """Train every algorithm with every target held out in turn and every seed, and compare on the target domain.

    What was computed before in the same output folder is not computed again. Trials that fail or diverge are warned
    of, and the others go on.

    Args:
        algorithms: as on the command line ("erm,arith(inner_steps=3)"), or classes and objects of algorithms; a class
            of a notebook or script, which lies in no file of its own, runs in this process alone.
        data: domains, or what ``--data`` takes ("photos", "pacs=DIR", "manifest.csv"), which is then decoded in the
            size that the settings ask for, into ``cache``; with ``store="files"`` images stay in their files and are
            decoded whenever they are needed, which "auto" does where there is no room for them.
        targets: domains to hold out: names, "a+b" at once, "all" in turn, or "official", the split that data may have
            of their own; "auto" is that where there is one, and else "all".
        seeds: how many, or which, as in "100-107".
        draws: above 1 searches at random beside the defaults.
        average: an averager such as "swad", or several as in "swad,ma", each reported beside the model; "auto" is what
            goes with the network where that is chosen by itself, "none" where it is named.
        probe: compare with a head on frozen features too, where data of one's own meets a pretrained network.
        output: folder of the results; without one it is named after ``command`` and the settings.
        processes, per_gpu: how many trials run side by side on a CPU, and on each GPU.
        timeout: ends a trial that takes more seconds. ``retries``: how often one whose process died is tried again.
        progress: False shows nothing, True also says what is to be run; by default bars show where somebody looks on.
        report: write ``report.html`` into the folder too, anew as trials end.
        dry_run: print what would be run, and run nothing.
        **options: settings of the preset (steps, batch, network, weights, ...), as ``set`` takes them too; ``set``
            also takes hyperparameters for all algorithms that have them. And options of a run: ``keep`` ("best",
            "none", "all") and ``snapshots`` say which models stay; ``evaluate_all``; ``compile``, ``capture`` and
            ``deterministic`` on a GPU; ``log_every`` and ``checkpoint_every``, in updates.
    """
    device = choose_device(device, elsewhere=engine == "ray")
    run, given = RunOptions.taken_from({**options, "cache": cache}, device)
    settings = settings_for(data, preset, device=device, given=together(given, set or {}))

    def asked(data: Domains, settings: Settings) -> tuple[Comparison, Runs]:
        spread(run.snapshots, settings.steps)
        comparison = prepare(
            data, algorithms, targets=targets, seeds=seeds, settings=settings, average=average, draws=draws,
            output=output, command=command, device=device, probe=probe,
        )  # fmt: skip
        return comparison, runs_for(
            largest(comparison.trials), run, processes=processes, threads=threads, per_gpu=per_gpu, timeout=timeout,
            retries=retries, engine=engine, address=address,
            in_memory=[spec.label for spec in specs_of(algorithms) if spec.in_memory],
        )  # fmt: skip

    how = Reading(cache, store, skip_corrupt, strict, progress, decode=not dry_run)
    comparison, runs = asked(*read(data, settings, how, device=device, output=output, check=asked))
    return comparison.go(
        runs, progress=progress, report=report, dry_run=dry_run, retry_failed=retry_failed, watch=watch
    )


@typed
def fit(
    data: Domains | Results | str | os.PathLike[str],
    algorithm: Given | None = None,
    *,
    seed: int = 0,
    preset: str = "quick",
    set: Mapping[str, Any] | None = None,
    average: str | Sequence[str] = "auto",
    output: Path | str | None = None,
    cache: Path | str | None = None,
    store: Store = "auto",
    skip_corrupt: bool = False,
    strict: bool = False,
    device: str = "auto",
    threads: int | None = None,
    progress: bool | None = None,
    watch: Callable[[Trial, Event], None] | None = None,
    trust_code: bool = False,
    **options: Any,
) -> Model:
    """Train on all domains, hold none out, and return the model: the one to use on a domain that nobody has seen.
    Of every domain a part is held out, by which the step is chosen. The model is kept in ``output``, where
    :func:`domainwise.load` finds it; the same call again finds it too, or goes on where it was stopped. How well it
    will do elsewhere is what :func:`domainwise.compare` estimates. Given its results in place of data, this trains what
    they recommend, with the same settings, and the model says what to expect of it; ``trust_code`` is then that of
    :func:`domainwise.load`, and ``weights`` says where the file is now that the networks started from. The other
    arguments are those of ``compare``; with ``average`` the averaged weights are the model, of several averagers those
    of the first. Without an ``algorithm`` it is arith.
    """
    if {"keep", "evaluate_all"} & options.keys():
        raise InputError("keep and evaluate_all are for comparisons: fit keeps the model that it selects")
    device = choose_device(device)
    run, rest = RunOptions.taken_from({**options, "cache": cache}, device)
    given = together(rest, set or {})
    if isinstance(data, Results):
        asked = {"algorithm": algorithm is not None, "preset": preset != "quick", "average": average != "auto"}
        weights = given.pop("weights", None)
        refuse_settings([*(name for name, other in asked.items() if other), *given])
        made = refitting(data, seed=seed, weights=weights, output=output, cache=cache, trust_code=trust_code)
    else:
        algorithm = "arith" if algorithm is None else algorithm
        settings = settings_for(data, preset, device=device, given=given)
        trial = partial(fitted, algorithm=algorithm, seed=seed, average=average)
        domains, settings = read(
            data, settings, Reading(cache, store, skip_corrupt, strict, progress), device=device, output=output,
            check=lambda data, settings: trial(data, settings=settings),
        )  # fmt: skip
        made = fitting(domains, algorithm, seed=seed, settings=settings, average=average, output=output)
    return _trained(made, run, threads, progress, watch)


def _trained(
    made: Fitting, options: RunOptions, threads: int | None, progress: bool | None, watch: Watch | None
) -> Model:
    trial = made.trial
    if progress:
        about = f"{trial.label} on all {len(made.data)} domains of {made.data.name}, {trial.steps} updates"
        print(f"{about}, network {trial.network}; its model goes to {made.folder}", file=sys.stderr, flush=True)
    with display(1, progress) as shown:
        threads = threads_for(largest([trial])) if threads is None else threads
        result = made.run(options, threads=threads, watch=all_of(shown.watch, watch))
    made.check(result)
    return made.model(options.device)
