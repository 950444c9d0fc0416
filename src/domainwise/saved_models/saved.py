"""Load and save trained models: weights as safetensors, and a config.json that says how to use them; no pickle."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from domainwise._version import __version__
from domainwise.averaging import canonical
from domainwise.errors import InputError, require, typed, warn
from domainwise.experiment import integrity
from domainwise.experiment.records import publish
from domainwise.experiment.trial import Trial
from domainwise.files import make_folder, replacing, sync
from domainwise.machine import choose_device
from domainwise.networks.weight_files import save_tensors
from domainwise.saved_models import hub
from domainwise.saved_models.build import FEATURIZER, Featurizer, allowed, trained
from domainwise.saved_models.card import read as read_card
from domainwise.saved_models.model import Model

WEIGHTS = "model.safetensors"
FORMAT = 1  # of a config.json; what another number means is not known here
NEEDED = {"classes", "channels", "input_size", "mean", "std"}  # of a config.json, beside the trial
CONFIG = "config.json"
PLAIN, AVERAGED = "best", "best-average"  # the second is of the averager named first; more are best-average-<averager>


@typed
def load(folder: Path | str, *, device: str = "cpu", which: str | None = None, trust_code: bool = False) -> Model:
    """Load the model of a trial's folder: averaged weights where they were asked for, of the averager named first.

    ``"hf:user/model"`` is one on the Hugging Face hub, ``"hf:user/model@revision"`` one that stays as it is.
    ``which`` is "best" for the one without averaging, or the averager whose weights are wanted, such as "ma". A Python
    file that it names, with an algorithm or a network of somebody's own, is run only with ``trust_code``, and only if
    it is what it was when the model was trained.
    """
    require("which", which, str | os.PathLike[str] | None)  # it names a folder
    return loaded(folder, device=device, which=which, trust_code=trust_code)


def loaded(
    folder: Path | str, *, device: str, which: str | None, trust_code: bool = False, named: Trial | None = None
) -> Model:
    """Load a model; code that ``named`` names too needs no more trust, as the user has just named it."""
    device, folder = choose_device(device), hub.fetched(folder)
    home = home_of(folder, which)
    if not (home / CONFIG).is_file():
        raise InputError(f"{folder} has no saved model: {_elsewhere(folder, which)}")
    config, trial = described(home)
    if which is None and home == folder / PLAIN and trial.averages:
        warn(f"{' and '.join(trial.averages)} had nothing to average in {folder}: this is the model without it")
    if which == AVERAGED and config.get("which") != "average":
        raise InputError(f"{home} has no averaged weights: leave out {which}")
    trial = allowed(trial, home, trust_code=trust_code, named=named)
    algorithm = trained(trial, config, read(home), device, place=str(home / WEIGHTS))
    return Model(algorithm, config, read_card(home), home)


def _elsewhere(folder: Path, which: str | None) -> str:
    """Say where the models of a comparison are, or what else to give."""
    found = sorted(file.parent.parent for file in folder.glob(f"trials/*/{PLAIN}/{CONFIG}"))
    if not found:
        return f"give the folder of a trial that kept its {which or PLAIN} one"
    trial = described(found[0] / PLAIN)[1]
    what = f"{trial.label or trial.algorithm} for {'+'.join(trial.targets)}, seed {trial.seed}"
    return (
        f"it is a comparison whose trials kept {len(found)}. Give one of them, such as {found[0]} ({what}; "
        f"domainwise show {folder} lists all), or train on all domains what it recommends: domainwise fit --from "
        f"{folder}"
    )


def home_of(folder: Path, which: str | None) -> Path:
    """Return where a model lies. None is averaged weights where there are some; an averager is its own."""
    if (folder / CONFIG).is_file():
        _require_itself(folder, which)
        return folder
    if which is None:
        return folder / (AVERAGED if (folder / AVERAGED / CONFIG).is_file() else PLAIN)
    if which in (PLAIN, AVERAGED) or (folder / which / CONFIG).is_file():
        return folder / which
    homes = {name: home for home in sorted(folder.glob(f"{AVERAGED}*")) if (name := averager_of(home))}
    found = _named(which, list(homes))
    if found is None:
        known = ", ".join(['"best"', *(f'"{one}"' for one in homes)])
        raise InputError(f'{folder} has no model of "{which}": ask for one of {known}')
    return homes[found]


def _require_itself(home: Path, which: str | None) -> None:
    """Refuse to take one saved model for another."""
    own = averager_of(home)
    fits = which in (None, home.name, AVERAGED) or (_named(which, [own]) if own else which == PLAIN)
    if not fits:
        what = f"the averaged weights of {own}" if own else "a model without averaging"
        raise InputError(f'{home} is itself {what}: leave out "{which}", or give the folder of the trial')


def averager_of(home: Path) -> str:
    """Return the averager whose weights those of a saved model are; nothing where they are not averaged."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        config = json.loads((home / CONFIG).read_text(encoding="utf-8"))
        if config["which"] == "average":
            return str(config.get("average") or config["trial"]["average"])
    return ""


def _named(which: str, names: list[str]) -> str | None:
    """Find an averager as it is written, or by its kind where there is one of it."""
    with suppress(InputError):
        if (whole := canonical(which)) in names:
            return whole
    kind = [name for name in names if name.partition("(")[0] == which.strip().lower()]
    return kind[0] if len(kind) == 1 else None


def described(folder: Path) -> tuple[dict[str, Any], Trial]:
    """Return what the config.json of a model says; other programs write files of that name too."""
    config = integrity.read(folder / CONFIG)
    by = str(config.get("domainwise", __version__))
    if config.get("format", FORMAT) != FORMAT:
        raise InputError(f"{folder} holds a model of a later version of domainwise than this, {by}: use that version")
    try:
        trial = Trial.from_json(config["trial"])
        if not config.keys() >= NEEDED:
            raise KeyError(*NEEDED - config.keys())
        if not all(isinstance(text, str) for text in (trial.algorithm, trial.file, trial.network, trial.network_file)):
            raise TypeError("names are texts")
        return config, trial
    except (ValueError, KeyError, TypeError) as error:
        made = "" if by == __version__ else f": it was made by version {by}, and this is {__version__}"
        raise InputError(f"{folder} holds no model that this version of domainwise can read{made}") from error


def read(folder: Path) -> dict[str, Tensor]:
    """Return the weights of a saved model, checked by their hash, which those of earlier versions have not."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    names = [WEIGHTS]
    if files := integrity.read(folder / CONFIG).get("files"):
        names += [FEATURIZER] * (isinstance(files, dict) and FEATURIZER in files)
        for name in names:
            integrity.verify(folder / name, files.get(name) if isinstance(files, dict) else None)
    else:
        warn("a model of an earlier version, which kept no hashes: whether its weights have changed cannot be told")
    weights: dict[str, Tensor] = {}
    for name in names:
        try:
            weights |= load_file(folder / name)
        except (OSError, SafetensorError) as error:
            raise InputError(f"the weights in {folder / name} cannot be read: {error}") from error
    if not all(tensor.isfinite().all() for tensor in weights.values()):
        raise InputError(
            f"{folder} holds a model with parameters that are not finite numbers: it diverged before it was saved, or "
            f"{WEIGHTS} has changed since"
        )
    return weights


def save(
    folder: Path, weights: Mapping[str, Tensor], config: Mapping[str, Any], featurizer: Featurizer | None = None
) -> None:
    """Each file is whole or absent, whatever happens in between; config.json comes last and makes it a model.

    With a ``featurizer`` the weights are those of a head alone.
    """
    if folder.is_symlink():  # what it leads to is not ours to replace
        folder.unlink()
    make_folder(folder)
    for name in (CONFIG, WEIGHTS, FEATURIZER):
        integrity.make_way(folder / name)
    for name in (CONFIG, FEATURIZER):
        (folder / name).unlink(missing_ok=True)
    with replacing(folder / WEIGHTS) as temporary:
        save_tensors({name: tensor.contiguous() for name, tensor in weights.items()}, temporary)
        sync(temporary)
    files = {
        WEIGHTS: integrity.digest(folder / WEIGHTS),
        **({FEATURIZER: featurizer.put(folder)} if featurizer else {}),
    }
    made = {"format": FORMAT, "domainwise": __version__, "files": files}
    publish(folder / CONFIG, integrity.sealed({**config, **made}))
    sync(folder)


def fingerprint(weights: Mapping[str, Tensor]) -> str:
    """Return the hash of an initialisation: models can only be averaged if they share it."""
    digest = hashlib.sha256()
    for name, tensor in weights.items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
