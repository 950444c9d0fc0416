"""Settings of a trial beside its data, algorithm, target and seed, and where each of them came from.

Precedence: preset < network < benchmark < algorithm < drawn by a search < device < given by the user. A preset says
everything, the others some of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from domainwise.errors import InputError, closest, is_number, is_whole, plain, require
from domainwise.experiment.optimization import optimizer_of, schedule_of, text_of
from domainwise.experiment.presets import (
    ALGORITHMS,
    AUTO,
    BACKBONE,
    BENCHMARKS,
    FROZEN,
    PACE,
    PRESETS,
    SMALL,
    UNTRAINED,
)
from domainwise.experiment.trial import written_weights
from domainwise.machine import OWN_NETWORKS


@dataclass(frozen=True)
class Choice:
    """Settings that were chosen for some data on some machine, and why."""

    reason: str
    settings: Mapping[str, Any]
    made_for: str = ""  # tells the same data by what is known before they are read
    weights_name: str = ""  # of a file: in the settings its hash stands, never its place


@dataclass(frozen=True)
class Settings:
    """Hold one value for every setting; ``origins`` says which layer each is from."""

    network: str  # "auto" until the data and the machine are known
    weights: str  # "none", "pretrained", or a file
    freeze_batch_norm: bool
    dropout: float
    input_size: int  # side of what the network sees
    train_size: int | str  # side of what is kept to crop from, larger images resized to it; "original" keeps them
    augment: str
    validation: str  # "augmented" like training, as published, or "plain" like the target
    batch: int  # images of each source domain in an update, drawn with replacement
    balanced: bool  # draw the classes equally often
    domains_per_step: int  # source domains in one update, other ones each time; 0: all of them
    domains_by: str  # which these are: all equally often, "uniform", or in proportion to their "size"
    class_weights: str  # of the cross-entropy: "none", "balanced", or {"class": weight, ...}, which is kept as JSON
    features: str  # "trained" with the head, or "frozen": computed once, and the head alone is trained on them
    steps: int
    epochs: float  # passes over the training images, in the place of steps; 0: as many as steps say
    optimizer: str  # the outer one: adam, adam(amsgrad=True), adamw, sgd(momentum=0.9)
    schedule: str  # of its learning rate: constant, linear(warmup=100), step(every=500, by=0.9)
    clip: float  # the largest norm of a gradient; 0: any
    erm_updates: int  # updates by ERM before those of the algorithm
    patience: int  # evaluations without a better one on the sources' hold-outs after which training ends; 0: never
    evaluate_every: int
    select_every: int  # the evaluations that selection may choose from
    holdout: float
    duplicates: str  # copies of a file in one domain: "together" in one part of the split, or "apart" as they fall
    test: str  # the part of the target that the accuracy is on: "main" (80 %), as published, or "all"
    selection: str
    metric: str  # that is selected by: accuracy, balanced_accuracy, macro_f1, auroc, or my_metric.py:score
    precision: str
    lr: float
    weight_decay: float
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)  # others, for every algorithm that has them
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)
    choice: Choice | None = field(default=None, compare=False)  # which an output folder is to remember

    def __post_init__(self) -> None:
        for name in CHECKS:
            object.__setattr__(self, name, plain(getattr(self, name)))
        check({name: getattr(self, name) for name in (*CHECKS, *CHOICES)})
        object.__setattr__(self, "optimizer", text_of(optimizer_of(self.optimizer)))
        object.__setattr__(self, "schedule", text_of(schedule_of(self.schedule)))
        # 0, -0.0 and 0.0 are one setting, and one trial
        for name in ("dropout", "holdout", "lr", "weight_decay", "clip", "epochs"):
            object.__setattr__(self, name, float(getattr(self, name)) + 0.0)

    @property
    def given(self) -> dict[str, Any]:
        """Hyperparameters that the user gave for all algorithms, in the place of those that a preset has."""
        return {name: value for name, value in self.hyperparameters.items() if self.origins.get(name) == "given"}

    def given_to_all(self) -> dict[str, Any]:
        """Hyperparameters that are not written beside an algorithm."""
        return {"lr": self.lr, "weight_decay": self.weight_decay, **self.hyperparameters}


BESIDE = {"hyperparameters", "origins", "choice"}  # what is no setting of its own
MOST = 10**9  # of anything that is counted: more is a slip of the finger
LONGEST = 1000  # letters of a name or a path
WIDEST = 16_384  # pixels on a side


def whole(value: object, least: int = 1, most: int = MOST) -> bool:
    return is_whole(value) and least <= value <= most  # type: ignore[operator]


def number(value: object) -> bool:
    """Return whether a value is a finite number, which neither True nor nan is."""
    return is_number(value) and abs(value) <= sys.float_info.max  # type: ignore[arg-type]


def _text(value: object) -> bool:
    return isinstance(value, str) and value.isprintable() and value.strip() == value != "" and len(value) <= LONGEST


def _one_of_two(value: object) -> bool:
    return isinstance(value, bool)


Check = tuple[Callable[[Any], bool], str]
CHECKS: dict[str, Check] = {
    **dict.fromkeys(("network", "weights", "optimizer", "schedule", "metric"), (_text, "a name or a file")),
    **dict.fromkeys(("freeze_batch_norm", "balanced"), (_one_of_two, "True or False")),
    **dict.fromkeys(
        ("steps", "batch", "evaluate_every", "select_every"), (whole, f"a whole number from 1 up to {MOST:,}")
    ),
    **dict.fromkeys(
        ("patience", "domains_per_step"),
        (lambda count: whole(count, least=0), f"a whole number from 0 up to {MOST:,}"),
    ),
    "input_size": (lambda size: whole(size, most=WIDEST), f"a whole number from 1 up to {WIDEST:,}"),
    "train_size": (
        lambda size: size == "original" or whole(size, most=WIDEST),
        f'a whole number from 1 up to {WIDEST:,} or "original"',
    ),
    "dropout": (lambda share: number(share) and 0 <= share < 1, "a number from 0 up, below 1"),
    "holdout": (lambda share: number(share) and 0 < share < 1, "between 0 and 1"),
    "lr": (lambda rate: number(rate) and rate > 0, "a number above 0"),
    "class_weights": (
        lambda weights: weights in ("none", "balanced") or (isinstance(weights, str) and weights.startswith("{")),
        'none, balanced or a weight for each class, as in {"cat": 2}',
    ),
    "weight_decay": (lambda rate: number(rate) and rate >= 0, "a number from 0 up"),
    "clip": (lambda norm: number(norm) and norm >= 0, "a number from 0 up"),
    "epochs": (lambda passes: number(passes) and 0 <= passes <= MOST, "a number from 0 up"),
    "erm_updates": (lambda count: whole(count, least=0), f"a whole number from 0 up to {MOST:,}"),
}
CHOICES = {
    "augment": ("none", "flip", "domainbed"),
    "features": ("trained", "frozen"),
    "domains_by": ("uniform", "size"),
    "validation": ("plain", "augmented"),
    "duplicates": ("together", "apart"),
    "test": ("main", "all"),
    "selection": ("validation", "pooled", "worst", "oracle", "last", "val", "id_val"),
    "precision": ("fp32", "tf32", "bf16"),
}


def check(values: Mapping[str, Any]) -> None:
    """Refuse the first value that its setting cannot have."""
    for name, value in values.items():
        fits, what = CHECKS.get(name, (lambda _: True, ""))
        if not fits(value):
            raise InputError(f"{name} must be {what}, got {value!r}")
        own = name == "augment" and ".py:" in str(value)
        if name in CHOICES and value not in CHOICES[name] and not own:
            file = " or FILE.py:FUNCTION" if name == "augment" else ""
            raise InputError(f'{name} must be one of {", ".join(CHOICES[name])}{file}, got "{value}"')


def own_settings(algorithm: str, input_size: int) -> dict[str, Any]:
    """Return the settings that an algorithm goes by, and that no search draws."""
    return {} if algorithm == "arm" and input_size <= SMALL else ALGORITHMS.get(algorithm, {})


def of_algorithm(settings: Settings, name: str, *, alone: bool = False) -> Settings:
    """Return the settings with those that an algorithm goes by.

    What is given comes first, but not for a probe: what suits a whole network does not suit a head. ``alone`` says that
    nothing is compared with it: learning rates that are given are then meant for it. ERM needs none before itself.
    """
    keeps = {"erm_updates"} if name == "erm" else set()
    keeps |= {*FROZEN} - ({"lr", "weight_decay"} if alone else set()) if name == "probe" else set()
    given = {key for key, origin in settings.origins.items() if origin == "given"} - keeps
    given |= {*PACE} if given & {*PACE} else set()
    own = {key: value for key, value in own_settings(name, settings.input_size).items() if key not in given}
    return replace(settings, **own, origins={**settings.origins, **dict.fromkeys(own, f"algorithm {name}")})


def together(*given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was given in several places as one mapping; two values for one name are refused."""
    found: dict[str, Any] = {}
    for part in given:
        for name, value in part.items():
            if name in found:
                raise InputError(f"{name} is given twice, as {found[name]!r} and as {value!r}: once is enough")
            found[name] = value
    return found


def resolve(
    preset: str = "quick", *, benchmark: str = "", device: str = "cuda", given: Mapping[str, Any] | None = None
) -> Settings:
    """Return settings from a preset, for a benchmark (or any other data), with what the user gave on top.

    Low precision is for GPUs: on a CPU it is slow, and taken only where it is asked for.
    """
    if not isinstance(preset, str) or preset not in PRESETS:
        raise InputError(f'there is no preset "{preset}": {closest(preset, PRESETS)}')
    given = {
        name: os.fspath(value) if isinstance(value, os.PathLike) else plain(value)
        for name, value in (given or {}).items()
    }
    given = {name: written_weights(value) if name == "class_weights" else value for name, value in given.items()}
    for name in given:
        require("the name of a setting", name, str)
    check(given)
    if device == "cpu" and given.get("precision") == "tf32":
        raise InputError("precision tf32 is that of some GPUs' units, which a CPU has not: take fp32")
    of_benchmark = BENCHMARKS[preset].get(benchmark, {})
    own = {f.name for f in fields(Settings)} - BESIDE
    layers: list[tuple[str, Mapping[str, Any]]] = [
        (f"preset {preset}", PRESETS[preset]),
        (f"benchmark {benchmark}", of_benchmark),
        ("device cpu", {"precision": "fp32"} if device == "cpu" else {}),
        ("given", {name: value for name, value in given.items() if name in own}),
    ]
    chosen = given.get("network")
    if chosen == AUTO and PRESETS[preset]["network"] != AUTO:
        raise InputError(f"the preset {preset} says which network: leave network=auto out, or use the preset quick")
    if chosen not in (None, AUTO, of_benchmark.get("network", PRESETS[preset]["network"])):
        untrained = chosen in OWN_NETWORKS or ":" in chosen
        layers.insert(1, (f"network {Path(chosen).name}", UNTRAINED if untrained else BACKBONE))
    if given.get("features") == "frozen":
        layers.insert(-2, ("features frozen", FROZEN))
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, layer in [*layers, ("given", {name: value for name, value in given.items() if name not in own})]:
        values.update(layer)
        origins.update(dict.fromkeys(layer, origin))
    hyperparameters = {name: values.pop(name) for name in [*values] if name not in own}
    if values["features"] == "frozen" and (values["augment"], values["validation"]) != ("none", "plain"):
        raise InputError(
            "frozen features are computed once, from images as they are, so nothing can be augmented: leave out "
            "augment and validation, or features=frozen"
        )
    follow(values, origins)
    return Settings(**values, hyperparameters=hyperparameters, origins=origins)


def follow(values: dict[str, Any], origins: dict[str, str]) -> None:
    """Set what depends on another setting and was not given itself."""
    if origins["steps"] == "given" and values["epochs"]:
        if origins["epochs"] == "given":
            raise InputError(f"steps={values['steps']} and epochs={values['epochs']} say the same: give one of them")
        values["epochs"], origins["epochs"] = 0, "steps"
    if origins["train_size"] != "given" and values["augment"] == "none":
        values["train_size"], origins["train_size"] = values["input_size"], "input_size, without augmentation"
    if origins["steps"] == "given" and origins["evaluate_every"] != "given":
        every = max(1, values["steps"] // 10)
        if every < values["evaluate_every"] or origins["evaluate_every"] == "preset quick":
            values["evaluate_every"], origins["evaluate_every"] = every, "a tenth of steps"
    if origins["select_every"] != "given" and origins["evaluate_every"] in ("given", "a tenth of steps"):
        values["select_every"], origins["select_every"] = values["evaluate_every"], "evaluate_every"
