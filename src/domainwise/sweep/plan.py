"""Which trials a comparison consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from domainwise.algorithms import Spec, hypers
from domainwise.data.domains import Domains
from domainwise.errors import InputError
from domainwise.trial import Trial


@dataclass(frozen=True)
class Settings:
    """What all trials of a comparison share."""

    steps: int = 300
    batch: int = 32
    evaluate_every: int = 50
    holdout: float = 0.2
    network: str = "small"
    given: Mapping[str, Any] = field(default_factory=dict)  # hyperparameters for every algorithm that has them

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "evaluate_every"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be 1 or more, got {getattr(self, name)}")
        if not 0 < self.holdout < 1:
            raise InputError(f"holdout must be between 0 and 1, got {self.holdout}")


# Hyperparameters that a network changes: one that starts from nothing needs larger steps than a pretrained one.
OF_NETWORK: dict[str, dict[str, Any]] = {"small": {"lr": 1e-3}}


def plan(
    data: Domains, specs: Sequence[Spec], targets: Sequence[str], seeds: Sequence[int], settings: Settings
) -> list[Trial]:
    """One trial per seed, target and algorithm, without repetition, seeds outermost: a partial run is already a
    comparison."""
    _known_somewhere(specs, settings.given)
    shared = asdict(settings)
    del shared["given"]
    trials: dict[str, Trial] = {}
    for seed in seeds:
        for target in targets:
            for spec in specs:
                trial = Trial(
                    data=data.name,
                    fingerprint=data.fingerprint,
                    targets=(data[target].name,),
                    algorithm=spec.name,
                    hyperparameters=resolved(spec, settings),
                    source=spec.source,
                    size=data.shape[0],
                    seed=seed,
                    label=spec.label,
                    file=spec.file,
                    **shared,
                )
                trials.setdefault(trial.id, trial)
    return list(trials.values())


def resolved(spec: Spec, settings: Settings) -> dict[str, Any]:
    """Every hyperparameter: field default < network < given for all < written beside the algorithm."""
    algorithm = spec.create({**OF_NETWORK.get(settings.network, {}), **settings.given})
    return {name: getattr(algorithm, name) for name in hypers(type(algorithm))}


def _known_somewhere(specs: Sequence[Spec], given: Mapping[str, Any]) -> None:
    for name in given:
        if not any(name in hypers(spec.cls()) for spec in specs):
            raise InputError(f'none of {", ".join(spec.label for spec in specs)} has a hyperparameter "{name}"')


def targets_of(data: Domains, text: str | Sequence[str]) -> list[str]:
    """Targets as given: names, names separated by commas, or "all"."""
    if text == "all":
        return list(data.names)
    names = [name.strip() for name in text.split(",")] if isinstance(text, str) else list(text)
    return list(dict.fromkeys(data[name].name for name in names))
