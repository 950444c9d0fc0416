"""Describe a trial: everything that determines a run, resolved, frozen and named by its hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from domainwise.errors import InputError, closest, is_number, plain
from domainwise.machine import place_of

FILES = {  # and where their hashes are
    "file": "source", "network_file": "network_source", "augment_file": "augment_source",
    "weights_file": "weights", "metric_file": "metric_source",
}  # fmt: skip
SEARCHED = ("batch", "dropout")  # settings beside hyperparameters that a random search draws
INNER_LR = {"sgd": 1e-2, "momentum": 1e-3}  # of a walk, where it is left open; adam's is the outer lr
Value = float | int | str | bool | None


def added(default: Value) -> Any:
    """Declare a setting that trials from before do not have: it enters the id only where it is not the default."""
    return field(default=default, metadata={"added": True})


@dataclass(frozen=True)
class Trial:
    """One training run on all domains but the targets, of which there may be none.

    What determines the training is in the id, content rather than place: fingerprints and hashes, never a path. What
    only says how a run is called, averaged beside, read or found is not.
    """

    data: str
    fingerprint: str
    targets: tuple[str, ...]
    algorithm: str  # "arith", or "my_idea.py:MyIdea"
    hyperparameters: Mapping[str, Value]  # every one of them, resolved
    source: str = ""  # sha256 of a third party's algorithm
    network: str = "small"
    network_source: str = ""  # sha256 of a third party's network
    weights: str = "none"  # "none", "pretrained", or the sha256 of a file
    freeze_batch_norm: bool = False
    dropout: float = 0.0
    size: int = 0  # side of the images that are cropped from
    input_size: int = 0  # side of what the network sees
    augment: str = "none"
    validation: str = "plain"
    batch: int = 32  # images of each domain in one minibatch
    balanced: bool = False
    steps: int = 300
    evaluate_every: int = 30
    holdout: float = 0.2
    precision: str = "fp32"
    seed: int = 0
    optimizer: str = added("adam")  # the outer one, such as "sgd(momentum=0.9)"
    schedule: str = added("constant")  # of its learning rate
    clip: float = added(0.0)  # the largest norm of a gradient; 0: any
    erm_updates: int = added(0)  # updates by ERM before those of the algorithm
    patience: int = added(0)  # evaluations without a better one after which training ends; 0: never
    domains_per_step: int = added(0)  # source domains in one update, other ones each time; 0: all of them
    domains_by: str = added("uniform")  # all equally often, or by "size"
    features: str = added("trained")  # "frozen": the head alone is trained, on features that were computed once

    augment_source: str = added("")  # sha256 of a third party's transform
    class_weights: str = added("none")  # of the cross-entropy: "none", "balanced", or {"class": weight, ...} as JSON

    metric: str = added("accuracy")  # which is selected by, on the sources' hold-outs
    metric_source: str = added("")  # sha256 of a third party's metric

    label: str = field(default="", compare=False)  # how the user wrote it: what tables call it
    draw: int = field(default=0, compare=False)  # of a random search; what it drew is in the settings, and so in the id
    average: str = field(default="none", compare=False)  # "swad,ma(start=5)": as averaging.canonical writes them
    selection: str = field(default="validation", compare=False)
    select_every: int = field(default=1, compare=False)
    test: str = field(default="main", compare=False)
    train_size: int | str | None = field(default=None, compare=False)  # as asked for: data is found by it
    file: str = field(default="", compare=False)  # where a third party's algorithm lies
    network_file: str = field(default="", compare=False)
    metric_file: str = field(default="", compare=False)
    augment_file: str = field(default="", compare=False)
    weights_file: str = field(default="", compare=False)
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)  # which layer each setting is from

    @property
    def used(self) -> dict[str, Value]:
        """Return the hyperparameters with the values that training goes by; in the id, one left open stays so."""
        found = dict(self.hyperparameters)
        inner = found.get("inner")
        if isinstance(inner, str) and inner in (*INNER_LR, "adam", "amsgrad") and found.get("inner_lr", 0) is None:
            found["inner_lr"] = INNER_LR.get(inner, found.get("lr"))
        return found

    @property
    def identity(self) -> dict[str, Any]:
        """Return what determines the training; a setting added since 0.1 only where it is not the default."""
        settings = {name: getattr(self, name) for name in _DETERMINING}
        settings["hyperparameters"] = dict(self.hyperparameters)
        return {name: value for name, value in settings.items() if name not in _ADDED or value != _ADDED[name]}

    @cached_property
    def id(self) -> str:
        return hashlib.sha256(_CANONICAL.encode(self.identity).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, **asdict(self)}

    def shared(self) -> dict[str, Any]:
        """Return it as it stands in files that people share, which name files without the folders they lie in."""
        return {**self.to_json(), **{name: Path(getattr(self, name)).name for name in FILES}}

    @property
    def files(self) -> dict[str, str]:
        """Return the places of somebody's own files that it names, by their hashes."""
        found = {getattr(self, sha256): getattr(self, name) for name, sha256 in FILES.items()}
        return {sha256: file for sha256, file in found.items() if file}

    def located(self) -> Trial:
        """Return it with the places that these files have on this machine, as far as it knows them."""
        found: Any = {name: place_of(getattr(self, name), getattr(self, sha256)) for name, sha256 in FILES.items()}
        return replace(self, **found)

    @property
    def averages(self) -> tuple[str, ...]:
        """Return the averagers beside it, by name."""
        return tuple(name for name in separated(self.average) if name != "none")

    @classmethod
    def from_json(cls, settings: Mapping[str, Any]) -> Trial:
        known = {**settings, "targets": tuple(settings["targets"])}
        for other in ("id", "checksum"):  # of the file
            known.pop(other, None)
        trial = cls(**known)
        wrong = [name for name, kinds in _KINDS.items() if not isinstance(getattr(trial, name), kinds)]
        if not all(isinstance(origin, str) for origin in trial.origins.values()):
            wrong.append("origins")
        if wrong or not all(isinstance(name, str) for name in trial.targets):
            raise TypeError(f"not what a trial has under {', '.join(wrong or ['targets'])}")
        return trial


_CANONICAL = json.JSONEncoder(sort_keys=True)  # made once: there may be ten thousand trials
_DETERMINING = {f.name for f in fields(Trial) if f.compare}
_ADDED = {f.name: f.default for f in fields(Trial) if "added" in f.metadata}
_TYPES = {"str": str, "int": int, "float": (int, float), "bool": bool, "tuple[str, ...]": tuple}
_KINDS: dict[str, Any] = {f.name: _TYPES.get(str(f.type), Mapping) for f in fields(Trial) if "|" not in str(f.type)}


def written_weights(given: object) -> object:
    """Return the weights of classes as a trial has them, a text; what is no mapping comes back as it is."""
    if isinstance(given, str) and given.startswith("{"):
        try:
            given = json.loads(given)
        except ValueError as error:
            raise InputError(f"cannot read class_weights={given}: {error}") from error
    if not isinstance(given, Mapping):
        return given
    weights = [plain(weight) for weight in given.values()]
    if not all(is_number(one) and 0 <= one < float("inf") for one in weights) or not any(weights):
        raise InputError(f"class_weights are numbers from 0 up, and not all of them 0, got {dict(given)!r}")
    return json.dumps(dict(zip(map(str, given), map(float, weights), strict=True)), sort_keys=True, ensure_ascii=False)


def named_weights(text: str, classes: Sequence[str]) -> dict[str, float]:
    """Return the weights that a trial has for some of the classes; a name that is none of them is refused."""
    found: dict[str, float] = json.loads(text) if text.startswith("{") else {}
    for name in found:
        if name not in classes:
            raise InputError(f'class_weights names "{name}", which is none of the classes: {closest(name, classes)}')
    return found


def separated(text: str) -> list[str]:
    """Split a text such as ``erm,arith(inner_steps=3)`` at the commas that are outside brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]
