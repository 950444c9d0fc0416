"""Compare algorithms and train models from Python; the command line is a thin layer over this."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from domainwise.algorithms import parse
from domainwise.averaging import canonical
from domainwise.data.domains import Domains
from domainwise.errors import InputError, typed
from domainwise.experiment.output_folder import ended, make_room, opened, refuse_file, restored, serves
from domainwise.experiment.records import Event
from domainwise.experiment.results import DAMAGED, Outcome, listing, variants
from domainwise.experiment.settings import Choice, Settings, resolve, together
from domainwise.experiment.trial import Trial
from domainwise.machine import choose_device
from domainwise.report.expectation import refitting, refuse_settings
from domainwise.report.results import Results as Results
from domainwise.saved_models.keep import Keep, spread
from domainwise.saved_models.saved import Model
from domainwise.sweeps.engine import Engine, Runs
from domainwise.sweeps.shared_gpu import Many
from domainwise.sweeps.status import write_plan
from domainwise.sweeps.work import tidy
from domainwise.training.fit import Fitting, fitting
from domainwise.training.plan import plan, seeds_of, targets_of
from domainwise.training.run_options import RunOptions
from domainwise.training.run_trial import Watch
from domainwise.training.suited_settings import automatic, remember


@dataclass(frozen=True)
class Comparison:
    """What is to be run, and where: laid out before anything starts."""

    data: Domains
    trials: tuple[Trial, ...]
    folder: Path
    choice: Choice | None = None  # of the network, which the folder is to remember

    def missing(self, retry_failed: bool = False) -> list[Trial]:
        """The trials that have not come to an end yet, or that ended without the average that is asked for now."""
        found = listing(self.folder, files=retry_failed).results
        again = ("failed", DAMAGED) if retry_failed else ()
        have = {id for id, result in found.items() if result["status"] not in again}
        return [trial for trial in self.trials if trial.id not in have or not serves(trial, found[trial.id])]

    def run(self, engine: Runs, watch: Watch, retry_failed: bool = False) -> Results:
        """Run what is missing, beside whoever else is at work in the same folder."""
        with opened(self.folder, self.data):
            remember(self.folder, self.data, self.choice)
            write_plan(self.folder, self.trials)
            tidy(self.folder)
            for id in listing(self.folder).unknown if retry_failed else ():
                restored(self.folder / "trials" / id)
            missing = self.missing(retry_failed)
            for trial in missing:  # one that finished stays until there is one with the averages that it lacks
                home = self.folder / "trials" / trial.id
                if (ended(home, files=retry_failed) or {}).get("status") != "finished":
                    make_room(home)
            engine.run(missing, self.data, self.folder, watch)
        return self.results()

    def results(self) -> Results:
        found, trials = listing(self.folder, files=True).results, self.folder / "trials"
        own = [Outcome(trial, found[trial.id], trials / trial.id) for trial in self.trials if trial.id in found]
        return Results(tuple(variants(own)), self.folder, self.data)


def prepare(
    data: Domains,
    algorithms: str | Sequence[str],
    *,
    targets: str | Sequence[str] = "all",
    seeds: int | str | Sequence[int] = 3,
    settings: Settings | None = None,
    average: str | Sequence[str] = "none",
    draws: int = 1,
    output: Path | str | None = None,
    command: str = "compare",
    device: str = "cpu",
) -> Comparison:
    """Lay out a comparison: every algorithm on every target with every seed, and with every draw of a search."""
    settings = settings or resolve(benchmark=data.name, device="cpu")
    settings = automatic(settings, data, device=device, output=output)
    specs = parse(algorithms if isinstance(algorithms, str) else ",".join(algorithms))
    if draws < 1:
        raise InputError(f"draws says how many, the defaults among them, so 1 or more, got {draws}")
    data = data.split_by(settings.duplicates)
    trials = plan(data, specs, targets_of(data, targets), seeds_of(seeds), settings, canonical(average), draws)
    if not output:
        folder = default_folder(command, before(trials[0], settings))
        return Comparison(data, tuple(trials), folder, settings.choice)
    folder = Path(output).expanduser()
    refuse_file(folder)
    return Comparison(data, tuple(trials), folder, settings.choice)


def before(trial: Trial, settings: Settings) -> Trial:
    """A trial without what its algorithm has settled: algorithms of one table have one folder."""
    names = [name for name, origin in trial.origins.items() if origin.startswith("algorithm ")]
    return replace(trial, **{name: getattr(settings, name) for name in names})


def default_folder(command: str, trial: Trial) -> Path:
    """The same for all comparisons that belong in one table: same data, same settings, whichever algorithms."""
    apart = {"id", "targets", "algorithm", "hyperparameters", "source", "seed"}
    shared = {name: value for name, value in trial.identity.items() if name not in apart}
    digest = hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()[:8]
    return Path("domainwise-runs") / f"{command}-{digest}"


@typed
def compare(
    data: Domains,
    algorithms: str | Sequence[str],
    *,
    targets: str | Sequence[str] = "all",
    seeds: int | str | Sequence[int] = 3,
    preset: str = "quick",
    set: Mapping[str, Any] | None = None,
    average: str | Sequence[str] = "none",
    draws: int = 1,
    output: Path | str | None = None,
    device: str = "cpu",
    processes: int = 1,
    per_gpu: Many = "auto",
    threads: int = 1,
    keep: Keep = "best",
    snapshots: int = 0,
    evaluate_all: bool = False,
    timeout: float | None = None,
    retries: int | None = None,
    retry_failed: bool = False,
    watch: Callable[[Trial, Event], None] | None = None,
    **settings: Any,
) -> Results:
    """Train every algorithm with every target held out in turn and every seed, and compare on the unseen domain.

    What was computed before in the same output folder is not computed again. ``settings`` are those of the preset
    (steps, batch, network, weights, dropout, ...); ``set`` takes them too, and hyperparameters for all algorithms that
    have them; ``seeds`` is how many, or which ("100-107"); ``draws`` above 1 searches at random beside the defaults;
    ``average`` is an averager such as "swad", or several as in "swad,ma", each reported beside the model; ``keep``
    and ``snapshots`` say which models stay (see ``domainwise compare --help``); ``evaluate_all`` evaluates what
    the sources are trained on too; ``timeout`` ends a trial that takes more seconds; ``retries`` is how often one
    whose process has died is tried again, once if not given.
    """
    device = choose_device(device)
    chosen = resolve(preset, benchmark=data.name, device=device, given=together(settings, set or {}))
    spread(snapshots, chosen.steps)
    comparison = prepare(
        data,
        algorithms,
        targets=targets,
        seeds=seeds,
        settings=chosen,
        average=average,
        draws=draws,
        output=output,
        device=device,
    )
    engine = Engine(
        RunOptions(device, keep=keep, snapshots=snapshots, evaluate_all=evaluate_all),
        processes,
        threads,
        per_gpu,
        timeout,
        retries,
    )
    return comparison.run(engine, watch or (lambda trial, event: None), retry_failed)


@typed
def fit(
    data: Domains | Results,
    algorithm: str = "arith",
    *,
    seed: int = 0,
    preset: str = "quick",
    set: Mapping[str, Any] | None = None,
    average: str | Sequence[str] = "none",
    output: Path | str | None = None,
    device: str = "cpu",
    threads: int = 1,
    snapshots: int = 0,
    watch: Callable[[Trial, Event], None] | None = None,
    trust_code: bool = False,
    **settings: Any,
) -> Model:
    """Train on all domains, hold none out, and return the model: the one to use on a domain that nobody has seen.

    Of every domain a part is held out, by which the step is chosen. The model is kept in ``output``, where
    :func:`domainwise.load` finds it; the same call again finds it too, or goes on where it was stopped. How well it
    will do elsewhere is what :func:`domainwise.compare` estimates. Given its results in place of data, this trains what
    they recommend, with the same settings, and the model says what to expect of it; ``trust_code`` is then that of
    :func:`domainwise.load`, and ``weights`` says where the file is now that the networks started from. The other
    arguments are those of ``compare``; with ``average`` the averaged weights are the model, of several averagers those
    of the first.
    """
    device = choose_device(device)
    options = RunOptions(device, snapshots=snapshots)
    if isinstance(data, Results):
        asked = {"algorithm": algorithm != "arith", "preset": preset != "quick", "average": average != "none"}
        given = together(settings, set or {})
        weights = given.pop("weights", None)
        refuse_settings([*(name for name, other in asked.items() if other), *given])
        made = refitting(data, seed=seed, weights=weights, output=output, trust_code=trust_code)
    else:
        chosen = resolve(preset, benchmark=data.name, device=device, given=together(settings, set or {}))
        made = fitting(data, algorithm, seed=seed, settings=chosen, average=average, output=output, device=device)
    return _model_of(made, options, threads, watch)


def _model_of(made: Fitting, options: RunOptions, threads: int, watch: Callable[[Trial, Event], None] | None) -> Model:
    result = made.run(options, threads=threads, watch=watch or (lambda trial, event: None))
    made.check(result)
    return made.model(options.device)
