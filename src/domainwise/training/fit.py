"""Make the model to use on a new domain: train on all domains, or average the models of several runs (DiWA)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from domainwise.algorithms import Given, specs_of
from domainwise.averaging import average_models, greedy
from domainwise.data.batches.inputs import Inputs, Part
from domainwise.data.domains import Domains
from domainwise.data.splits import split_domain
from domainwise.errors import InputError, TrialError, typed, warn
from domainwise.experiment.integrity import Damaged, Unreadable
from domainwise.experiment.output_folder import check_contents, ended, is_ours, refuse_file, sentence
from domainwise.experiment.records import Result
from domainwise.experiment.results import DAMAGED, outcome, trial_in
from domainwise.experiment.settings import MOST, Choice, Settings, resolve, whole
from domainwise.experiment.trial import Trial
from domainwise.files import exists, reading
from domainwise.machine import check_count, remember_places
from domainwise.saved_models.card import CARD, Card, Expectation, read as read_card, write as write_card
from domainwise.saved_models.estimate import Estimator, features_of, of_trial
from domainwise.saved_models.evaluation import evaluate
from domainwise.saved_models.keep import spread
from domainwise.saved_models.model import Model
from domainwise.saved_models.saved import CONFIG, PLAIN, averager_of, described, home_of, load, loaded
from domainwise.training.checkpoint_files import saved, told_of
from domainwise.training.plan import plan
from domainwise.training.result import models_in
from domainwise.training.run_options import RunOptions
from domainwise.training.run_trial import Watch, execute
from domainwise.training.suited_settings import automatic, averages_for, remember

LOOKS_AT_TARGETS = ("oracle", "leave-one-out")


@dataclass(frozen=True)
class Fitting:
    """Hold what is to be trained and where its model goes, before anything starts."""

    data: Domains
    trial: Trial
    folder: Path
    expected: Expectation | None = None  # of its model at a new site, from a comparison
    choice: Choice | None = None  # of the network, which the folder is to remember
    tried: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # estimate and accuracy at a site

    @property
    def which(self) -> str:
        """The name of the model to use: the averaged weights where they were asked for, otherwise the best."""
        return next(iter(self.trial.averages), "best")

    def run(
        self,
        options: RunOptions = RunOptions(),  # noqa: B008  frozen
        *,
        threads: int = 1,
        watch: Watch = lambda trial, event: None,
    ) -> Result:
        """Train, from where it was stopped if it was, and return the result, good or bad; each model gets a card."""
        with reading(self.folder):
            _refuse_damaged(self.folder)
            _refuse_other_snapshots(self.folder, spread(options.snapshots, self.trial.steps))
        remember(self.folder, self.data, self.choice)
        remember_places(self.trial.files)
        expected = self.expected or self._expected_before()
        before = torch.get_num_threads()
        torch.set_num_threads(check_count("threads", threads))
        try:
            result = execute(self.trial, self.data, self.folder, options, watch=watch)
        finally:
            torch.set_num_threads(before)
        if result["status"] == "finished":
            self._write_cards(expected)
        return result

    def _expected_before(self) -> Expectation | None:
        """Return what an earlier call expected of this model, which is still true."""
        with suppress(InputError):
            return read_card(home_of(self.folder, self.which)).expected
        return None

    def _write_cards(self, expected: Expectation | None) -> None:
        """Write a card beside every selected model. What is expected is true of the one that was compared."""
        for home in models_in(self.folder):
            own = averager_of(home) == next(iter(self.trial.averages), "")
            if home.parent == self.folder and (own or not exists(home / CARD)):
                config, trial = described(home)
                try:
                    estimator = partial(self._estimator, home)
                    write_card(home, self.data, trial, config, expected if own else None, estimator)
                except OSError as error:
                    raise InputError(sentence(home, error)) from error

    def _estimator(self, home: Path) -> Estimator | None:
        """Return what estimates without labels start from; None where the training kept no outcomes."""
        with suppress(InputError):
            model = loaded(home, device="cpu", which=None, named=self.trial)
            found = of_trial(replace(outcome(self.folder), average=averager_of(home)))
            return replace(found, tried=self.tried, features=features_of(model, self.data, self.trial))
        return None

    def check(self, result: Result) -> None:
        """Refuse a result that left no model to use."""
        if result["status"] != "finished":
            raise TrialError(f"{self.trial.label} has {result['status']}: {result['message']}")
        if missing := [name for name in self.trial.averages if name not in result["averages"]]:
            raise InputError(
                f"{' and '.join(missing)} had nothing to average yet after {self.trial.steps} updates; the model "
                f"without it is in {self.folder / 'best'}"
            )

    def model(self, device: str = "cpu") -> Model:
        return loaded(self.folder, device=device, which=self.which, named=self.trial)


def fitting(
    data: Domains,
    algorithm: Given = "arith",
    *,
    seed: int = 0,
    settings: Settings | None = None,
    average: str | Sequence[str] = "none",
    output: Path | str | None = None,
    device: str = "cpu",
) -> Fitting:
    """Lay out the training of one algorithm on all domains."""
    settings = settings or resolve(benchmark=data.name, device="cpu")
    settings = automatic(settings, data, device=device, output=output)
    trial = fitted(data, algorithm, seed=seed, settings=settings, average=average)
    return laid_out(data.split_by(settings.duplicates), trial, output, choice=settings.choice)


def fitted(
    data: Domains, algorithm: Given, *, seed: int, settings: Settings, average: str | Sequence[str] = "none"
) -> Trial:
    """Return the trial that trains one algorithm on all domains."""
    specs = specs_of(algorithm)
    if len(specs) != 1:
        raise InputError(f"fit trains one algorithm, got {len(specs)}: {', '.join(spec.label for spec in specs)}")
    check_fit(settings.selection, seed)
    (trial,) = plan(data.split_by(settings.duplicates), specs, [()], [seed], settings, averages_for(settings, average))
    return trial


def laid_out(
    data: Domains,
    trial: Trial,
    output: Path | str | None = None,
    expected: Expectation | None = None,
    choice: Choice | None = None,
    tried: Mapping[str, tuple[float, float]] | None = None,
) -> Fitting:
    """Return the training of a trial that holds no domain out; refuse a folder that has another model."""
    if data.has_official_split:
        warn(f"fit trains on all images of {data.name}, those of the official val and test too: score nothing on them")
    folder = Path(output).expanduser() if output else _own_folder(trial)
    _refuse_another(folder, trial)
    return Fitting(data, trial, folder, expected, choice, tried or {})


def check_fit(selection: str, seed: int) -> None:
    """Refuse a selection that needs a target, and a seed that is none."""
    if selection in LOOKS_AT_TARGETS:
        raise InputError(f'selection="{selection}" looks at a target, and fit holds none out: use validation')
    if not whole(seed, least=0):
        raise InputError(f"a seed is a whole number from 0 up to {MOST:,}, got {seed!r}")


@typed
def average_runs(folders: Sequence[Path | str], data: Domains | None = None, *, trust_code: bool = False) -> Model:
    """Average the saved models of trials that started from the same weights.

    Without ``data`` all of them count the same. With it they are added one after the other, the one with the best
    validation accuracy first, and each stays that does not lower the accuracy of the average on the sources' hold-outs.
    ``trust_code`` is that of :func:`domainwise.load`.
    """
    if not folders:
        raise InputError("there are no models to average: name the folders of some trials")
    if len({Path(folder).absolute() for folder in folders}) < len(folders):
        raise InputError("a model is named more than once, and would count as often: once is enough")
    models = [load(folder, which="best", trust_code=trust_code) for folder in folders]
    names = [str(folder) for folder in folders]
    states = [model.algorithm.net.state_dict() for model in models]
    inits = [model.config["init"] for model in models]
    first = models[0]
    if data is None:
        averaged = average_models(states, inits=inits, names=names)
    else:
        accuracies = [model.config["validation"] for model in models]
        judge = load(folders[0], which="best", trust_code=trust_code)
        averaged, _ = greedy(
            states, accuracies, lambda state: _validation(judge, state, data), inits=inits, names=names
        )
    first.algorithm.net.load_state_dict(averaged)
    return replace(first, card=Card(), folder=None)  # what one promises, and where it lies, is not of their average


def _validation(model: Model, state: dict[str, Tensor], data: Domains) -> float:
    trial = Trial.from_json(model.config["trial"])
    data = data.known_as(trial.fingerprint)
    if data.fingerprint != trial.fingerprint:
        raise InputError(f"these models were trained on other data than {data.name}, by its fingerprint")
    model.algorithm.net.load_state_dict(state)
    inputs = Inputs("none", trial.input_size, model.config["mean"], model.config["std"])
    sources = [(i, domain) for i, domain in enumerate(data) if domain.name not in trial.targets]
    held_out = [(domain, split_domain(domain, i, trial.holdout, trial.seed)[1]) for i, domain in sources]
    parts = [Part(domain, rows, str(model.algorithm.device)) for domain, rows in held_out if len(rows)]
    return fmean(evaluate(model.algorithm, part, inputs)["accuracy"] for part in parts)


def _refuse_another(folder: Path, trial: Trial) -> None:
    """A model that took hours is not replaced by one with other settings."""
    refuse_file(folder)
    if is_ours(folder) or is_ours(folder.absolute().parent.parent):  # whose tables have no place for it
        raise InputError(f"{folder} belongs to a comparison: give the model a folder of its own")
    with reading(folder):
        if exists(folder / "result.json") and not (folder / "trial.json").is_file():
            raise InputError(
                f"{folder / 'trial.json'} is missing: `domainwise check {folder} --repair` writes it again"
            )
    check_contents(folder, "trial.json")
    with reading(folder):
        if not exists(folder / "trial.json"):
            return
        model, stopped = models_in(folder), bool(saved(folder))
    try:
        other = trial_in(folder)
    except Unreadable:
        raise
    except Damaged as error:
        raise InputError(
            f"{folder} holds a trial that this version of domainwise cannot read: use another folder ({error})"
        ) from error
    if not model and not stopped:
        return
    # A model with an average has the other too, but who goes on must go on with both.
    there = not stopped and {*trial.averages} <= {*other.averages}
    asked = [name for name in _TOLD if name != "average" or not there]
    differ = [name for name in asked if _value(other, name) != _value(trial, name)]
    wanted = next(iter(trial.averages), "")
    if not differ and there and (kept := averager_of(home_of(folder, None))) not in ("", wanted):
        raise InputError(
            f'{folder} holds this training with average="{kept}", and loading it gives the averaged weights: ask for '
            f'the same average, load this model by which="{wanted or PLAIN}", or give it a folder of its own'
        )
    if differ:
        what = "a training that has not ended and can go on" if stopped else "another model"
        raise InputError(f"{folder} holds {what}, with other {', '.join(differ)}: give this one a folder of its own")


def _refuse_damaged(folder: Path) -> None:
    """A result whose files have changed since is not to be told again."""
    result = ended(folder, files=True) or {}
    if result.get("status") == DAMAGED:
        raise InputError(f"{result['message']}: `domainwise check {folder} --repair` has the model trained again")


def _refuse_other_snapshots(folder: Path, wanted: frozenset[int]) -> None:
    """They are made while training: what was trained has no more of them, and what was begun goes on with as many."""
    for checkpoint in saved(folder)[:1]:
        begun = told_of(checkpoint).get("choices", {}).get("snapshots", len(wanted))
        if begun != len(wanted):
            raise InputError(
                f"{folder} holds a training that has not ended and can go on, with {begun} snapshots: ask for as many, "
                "or give this one a folder of its own"
            )
    result = ended(folder) or {"status": "", "step": -1}
    made = [step for step in wanted if step <= result["step"]]  # training may have ended early
    there = all(exists(folder / "snapshots" / str(step) / CONFIG) for step in made)
    if result["status"] == "finished" and not there:
        raise InputError(
            f"{folder} holds a model that was trained without these snapshots, which are kept while training: give one "
            "with them a folder of its own"
        )


# What tells models of one id apart comes after what makes the id.
_TOLD = [*(field.name for field in fields(Trial) if field.compare), "selection", "select_every", "average"]


def _value(trial: Trial, name: str) -> Any:
    found = getattr(trial, name)
    return dict(found) if isinstance(found, Mapping) else found


def _own_folder(trial: Trial) -> Path:
    told = [trial.id, trial.selection, trial.select_every, trial.average]
    return Path("domainwise-runs") / f"fit-{hashlib.sha256(json.dumps(told).encode()).hexdigest()[:8]}"
