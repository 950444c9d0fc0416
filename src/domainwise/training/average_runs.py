"""One model from the best models of several runs (DiWA)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from torch import Tensor

from domainwise.averaging import average_models, greedy
from domainwise.data.batches.feed import Inputs, Part
from domainwise.data.domains import Domains
from domainwise.data.splits import split_domain
from domainwise.errors import InputError, typed
from domainwise.experiment.trial import Trial
from domainwise.saved_models.evaluation import evaluate
from domainwise.saved_models.saved import Model, load


@typed
def average_runs(folders: Sequence[Path | str], data: Domains | None = None, *, trust_code: bool = False) -> Model:
    """Average the saved models of trials that started from the same weights.

    Without ``data`` all of them count the same. With it they are added one after the other, the one with the best
    validation accuracy first, and each stays that does not lower the accuracy of the average on the sources' hold-outs.
    ``trust_code`` is that of :func:`domainwise.load`.
    """
    if not folders:
        raise InputError("there are no models to average: name the folders of some trials")
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
    return first


def _validation(model: Model, state: dict[str, Tensor], data: Domains) -> float:
    trial = Trial.from_json(model.config["trial"])
    data = data.known_as(trial.fingerprint)
    if data.fingerprint != trial.fingerprint:
        raise InputError(f"these models were trained on other data than {data.name}, by its fingerprint")
    model.algorithm.net.load_state_dict(state)
    inputs = Inputs("none", trial.input_size, model.config["mean"], model.config["std"])
    sources = [(i, domain) for i, domain in enumerate(data) if domain.name not in trial.targets]
    held_out = [(domain, split_domain(domain, i, trial.holdout, trial.seed)[1]) for i, domain in sources]
    parts = [Part(domain, rows, str(model.algorithm.device)) for domain, rows in held_out]
    return fmean(evaluate(model.algorithm, part, inputs)["accuracy"] for part in parts)
