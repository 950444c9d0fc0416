"""Build the algorithm and the network that a trial names; code of others is run only where somebody trusts it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from domainwise.algorithms import Algorithm, Spec
from domainwise.algorithms._outer import Outer
from domainwise.data.batches.augment import IMAGENET_MEAN, IMAGENET_STD
from domainwise.data.domains import Domains
from domainwise.errors import InputError
from domainwise.experiment.integrity import digest
from domainwise.experiment.optimization import optimizer_of, schedule_of
from domainwise.experiment.trial import Trial
from domainwise.files import replacing, sha256, sync
from domainwise.networks.forms import Layout, form_of
from domainwise.networks.network import Network, build, check_name, network_source
from domainwise.networks.text_encoders import PREFIX, files_of, tokenizer_json
from domainwise.networks.weight_files import save_tensors, weights_sha256
from domainwise.user_files import OWN


@dataclass(frozen=True)
class Code:
    """Name a Python file that a trial runs, with the hash that was recorded of it."""

    what: str
    file: Path
    recorded: str

    def problem(self) -> str:
        """Return why it is not run, whoever trusts it; "" where nothing is against it."""
        if not re.fullmatch("[0-9a-f]{64}", self.recorded):
            return "and no hash of it is recorded, so that nobody can tell whether it is what it was: train again"
        if not self.file.is_file():
            return f"and there is no such file: put back the one whose sha256 is {self.recorded}"
        try:
            found = sha256(self.file)
        except OSError as error:
            return f"which cannot be read: {error.strerror or error}"
        if found != self.recorded:
            return (
                f"which has changed since: its sha256 was {self.recorded} and is {found}. Put back what it was, or "
                "train again"
            )
        return ""


def code_of(trial: Trial, *, training: bool = False) -> Iterator[Code]:
    """Yield the files that would be run to make the algorithm and the network of a trial, and to train them."""
    if trial.file:
        yield Code(f"algorithm, {trial.algorithm}", Path(trial.file), str(trial.source))
    own = OWN.fullmatch(trial.network)
    if (trial.network_file and not trial.network.startswith(PREFIX)) or own:
        file = trial.network_file or (own["file"] if own else "")
        yield Code(f"network, {trial.network}", Path(file), str(trial.network_source))
    if training and (trial.augment_source or trial.augment_file):
        yield Code(f"transform, {trial.augment}", Path(trial.augment_file), str(trial.augment_source))


def allowed(trial: Trial, home: Path, *, trust_code: bool, named: Trial | None = None, training: bool = False) -> Trial:
    """Return the trial, if no code of others has to be run for it, or if that is trusted and is what it was.

    ``named`` is a trial whose code was named in the present call: where the same is wanted, its files are taken.
    """
    trial = trial.located()
    if named and (trial.algorithm, trial.source) == (named.algorithm, named.source):
        trial = replace(trial, file=named.file)
    if named and (trial.network, trial.network_source) == (named.network, named.network_source):
        trial = replace(trial, network_file=named.network_file)
    known = set(code_of(named)) if named else set()
    for code in code_of(trial, training=training):
        trusted = trust_code or code in known
        problem = code.problem() or ("" if trusted else f"whose sha256 is {code.recorded}")
        if problem:
            ask = "" if trusted else f". {ASK}"
            raise InputError(f"the {code.what}, of the model in {home} is in {code.file.absolute()}, {problem}{ask}")
    return trial


ASK = (
    "What a model names is not run unless it is trusted, for it would run with all your rights: read that file, and "
    "add --trust-code (in Python: trust_code=True)"
)


FEATURIZER = "featurizer.safetensors"


@dataclass
class Featurizer:
    """The part of a network that stays as it is while heads are trained on its features, and how it sees images.

    It is written once: the models of further trials get its file by another name, which takes neither time nor room.
    """

    weights: Mapping[str, Tensor]
    digest: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    written: tuple[Path, tuple[int, ...], dict[str, Any]] | None = None  # where, its state then, and its hash

    def put(self, folder: Path) -> dict[str, Any]:
        """Write the weights into the folder of a model; return what tells the file from every other."""
        with replacing(folder / FEATURIZER) as temporary:
            if self.written is not None and _linked(*self.written[:2], temporary):
                return self.written[2]
            save_tensors({name: tensor.contiguous() for name, tensor in self.weights.items()}, temporary)
            sync(temporary)
            told = digest(temporary)
        self.written = folder / FEATURIZER, _state(folder / FEATURIZER), told
        return told


def _linked(file: Path, state: tuple[int, ...], to: Path) -> bool:
    """Whether a file that is what it was could be given another name; not every disk has such names."""
    with suppress(OSError):
        if not file.is_symlink() and _state(file) == state:
            os.link(file, to)
            return True
    return False


def _state(file: Path) -> tuple[int, ...]:
    about = file.stat()
    return about.st_ino, about.st_size, about.st_mtime_ns


def algorithm_of(trial: Trial) -> Algorithm:
    """Return the algorithm of a trial, with the outer optimizer of its settings."""
    algorithm = Spec(trial.algorithm, trial.hyperparameters, trial.file, trial.source).create()
    algorithm.outer_settings = outer_of(trial, trial.erm_updates)  # type: ignore[misc]  # its own
    return algorithm


def outer_of(trial: Trial, made: int = 0) -> Outer:
    """Return the outer optimizer of a trial, for an algorithm that begins after so many updates."""
    return Outer(optimizer_of(trial.optimizer), schedule_of(trial.schedule), trial.clip, trial.steps, made)


def named(network: str, weights: str) -> dict[str, str]:
    """Return what a trial says of a network and weights as a user names them: the hash of files, and their place."""
    check_name(network, pretrained=weights == "pretrained")
    told = _named_weights(weights)
    if network.startswith(PREFIX):
        files = files_of(network, pretrained=weights == "pretrained")
        if not files:
            return {**told, "network": network}
        config = files["config.json"].absolute()
        told |= {"network": PREFIX + config.parent.name, "network_source": sha256(config), "network_file": str(config)}
        return {**told, **(_named_weights(str(files["weights"])) if "weights" in files else {})}
    file, _, function = network.rpartition(":")
    if not file:
        return {**told, "network": network}
    path = Path(file).absolute()
    told |= {"network_source": network_source(network), "network_file": str(path)}
    return {**told, "network": f"{path.name}:{function}"}


def _named_weights(weights: str) -> dict[str, str]:
    if weights in ("none", "pretrained"):
        return {"weights": weights}
    return {"weights": weights_sha256(Path(weights)), "weights_file": str(Path(weights).absolute())}


def written_network(trial: Trial) -> str:
    """Return the network as a user writes it, with the place that it has here."""
    if not trial.network_file:
        return trial.network
    if trial.network.startswith(PREFIX):
        return PREFIX + trial.network_file
    return f"{trial.network_file}:{trial.network.rpartition(':')[2]}"


def network_of(
    trial: Trial,
    algorithm: Algorithm,
    layout: Layout,
    classes: int,
    *,
    filled: bool = True,
    architecture: Mapping[str, Any] | None = None,
) -> Network:
    """Return the network a trial starts from, for samples of a shape; only the channels of images matter.

    Not ``filled``, it has random weights whatever the trial says.
    """
    net = build(
        written_network(trial),
        _seen(layout, trial.input_size),
        classes,
        pretrained=filled and trial.weights == "pretrained",
        weights=trial.weights_file if filled and trial.weights_file else None,
        dropout=trial.dropout,
        freeze_batch_norm=trial.freeze_batch_norm,
        extra_channels=algorithm.extra_channels,
        source=trial.network_source,
        architecture=architecture,
    )
    if filled:
        _check_given(trial, net)
    return net


def trained(
    trial: Trial, config: Mapping[str, Any], weights: Mapping[str, Tensor], device: str, *, place: str
) -> Algorithm:
    """Return the algorithm of a trained model, which answers as it did; ``config`` was kept beside its weights.

    ``place`` is where they come from, for the sentence that refuses weights of another network.
    """
    algorithm = algorithm_of(trial)
    layout, made = layout_of(config), config.get("architecture")
    with torch.random.fork_rng(devices=[]):  # its first weights are not those that count
        net = network_of(trial, algorithm, layout, len(config["classes"]), filled=False, architecture=made)
    algorithm.setup(net.to(device), seed=trial.seed)  # some algorithms predict in their own way
    try:
        algorithm.net.load_state_dict(weights)
    except RuntimeError as error:
        raise InputError(f"the weights in {place} do not fit the network they were saved for: {error}") from error
    for name, value in config.get("recalled", {}).items():
        if name in algorithm.recalled:
            setattr(algorithm, name, value)
    return algorithm


def _seen(layout: Layout, side: int) -> Layout:
    """Images may be stored in another size than the network sees."""
    return layout if isinstance(layout, np.dtype) or not side else (side, side, layout[-1])


def layout_of(config: Mapping[str, Any]) -> Layout:
    """Return the shape of the samples that a saved model takes, or the fields of its dicts."""
    side, channels = config["input_size"], config["channels"]
    if "fields" in config:
        return np.dtype([(name, kind, tuple(shape)) for name, kind, shape in config["fields"]])
    return (side, side, channels) if side else tuple(config.get("shape", (channels,)))


def _told_tokenizer(name: str) -> dict[str, str]:
    """Return the tokenizer of texts; that of a network of transformers whole, so that a model needs nothing else."""
    whole = {"tokenizer_json": tokenizer_json(name)} if name.startswith(PREFIX) else {}
    return {"tokenizer": name, **whole} if name else {}


def told_layout(data: Domains, side: int) -> dict[str, Any]:
    """Return what a saved model says of the samples it takes."""
    if isinstance(data.layout, np.dtype):
        fields = [[name, data.layout[name].base.str, data.layout[name].shape] for name in data.layout.names or ()]
        return {"channels": 0, "fields": fields, **_told_tokenizer(data.tokenizer)}
    return {"channels": data.shape[-1], **({} if side else {"shape": data.shape})}


def _check_given(trial: Trial, net: Network) -> None:
    """A network of one's own may say these itself: what was asked for must not be what it does not do."""
    for name, own in (("dropout", net.dropout.p), ("freeze_batch_norm", net.freeze_batch_norm)):
        if trial.origins.get(name) == "given" and own != getattr(trial, name):
            raise InputError(
                f"{name}={getattr(trial, name)} was asked for, and {trial.network} has {own}, which is its own: change "
                "it there, or leave the setting out"
            )


def normalisation(net: Network, layout: Layout) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the mean and deviation that the network was pretrained with: ImageNet's for colours, none for the rest."""
    if form_of(layout) != "images" or layout[-1] != 3:
        return (0.0,), (1.0,)
    about = getattr(net.featurizer, "pretrained_cfg", {})
    return tuple(about.get("mean", IMAGENET_MEAN)), tuple(about.get("std", IMAGENET_STD))
