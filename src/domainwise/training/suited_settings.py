"""Fit the settings to the data and the machine: choose what was left open, and refuse what does not go together."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainwise.averaging import canonical
from domainwise.data.domains import FREE, MAIN, Domains
from domainwise.errors import InputError, warn
from domainwise.experiment import integrity
from domainwise.experiment.optimization import Step, schedule_of, text_of
from domainwise.experiment.output_folder import CHOICES
from domainwise.experiment.presets import AUTO, BACKBONE
from domainwise.experiment.records import publish, publish_once
from domainwise.experiment.results import homes, trial_in
from domainwise.experiment.settings import Choice, Settings, follow
from domainwise.experiment.trial import named_weights
from domainwise.files import make_folder
from domainwise.networks.pretrained import at_hand, network_for
from domainwise.networks.weight_files import weights_sha256
from domainwise.training.without_images import refuse_network, without_images

if TYPE_CHECKING:
    from domainwise.data.sources.listing import Listing


def suited(settings: Settings, data: Domains) -> Settings:
    """The same settings, with ``input_size`` that of the images where only the preset quick has an opinion on it."""
    _refuse_holdout(settings, data)
    named_weights(settings.class_weights, data.classes)
    settings = _in_updates(settings, data)
    if settings.erm_updates >= settings.steps:
        raise InputError(
            f"erm_updates={settings.erm_updates} leaves none of the {settings.steps} steps to the algorithm: ask for "
            "fewer"
        )
    if settings.patience and settings.selection in ("last", "oracle"):
        raise InputError(
            f"patience={settings.patience} ends training where validation no longer rises, and "
            f"selection={settings.selection} does not look at it: leave one of the two out"
        )
    if data.form != "images":
        return without_images(settings, data)
    settings = automatic(settings, data)
    refuse_network(settings, data)
    _refuse_train_size(settings, data)
    asked, (height, width) = settings.input_size, data.evaluation_shape[:2]
    if settings.origins.get("input_size") == "preset quick" and asked != height:
        settings = replace(settings, input_size=height, origins={**settings.origins, "input_size": "the data"})
    if settings.origins.get("input_size") == "the data" and height != width:
        raise InputError(
            f"the images of {data.name} are {height} x {width}, and networks see squares here: give input_size, the "
            f"side of the square they are to be squeezed into (input_size={min(height, width)}), or cut them to squares"
        )
    if settings.input_size > height and _resized(data):
        across = f"{settings.input_size} x {settings.input_size}"
        raise InputError(
            f"the network is to see {across} pixels (input_size, {settings.origins.get('input_size')}), and the images "
            f"of {data.name} were resized to {height} x {height} when they were read: open them with "
            f"size={settings.input_size}, or give input_size={height}"
        )
    return settings


def _in_updates(settings: Settings, data: Domains) -> Settings:
    """The settings with epochs as updates: by the training rows of an official split, else of all domains but one.

    Updates by ERM that come first are beside the epochs. Where a preset counts epochs, each of them is evaluated.
    """
    schedule, origins = schedule_of(settings.schedule), dict(settings.origins)
    by_epoch = isinstance(schedule, Step) and not schedule.every
    if not settings.epochs and not by_epoch:
        return settings
    rows, sources = _trained_on(data, settings.holdout)
    each = math.ceil(rows / (settings.batch * min(settings.domains_per_step or sources, sources)))
    values: dict[str, Any] = {}
    if settings.epochs:
        values["steps"] = math.ceil(settings.epochs * each) + settings.erm_updates
        values["epochs"] = 0.0
        for name in ("evaluate_every", "select_every"):
            if origins[name] != "given":
                values[name], origins[name] = each, "an epoch"
        origins["steps"] = origins["epochs"]
    if isinstance(schedule, Step) and by_epoch:
        values["schedule"] = text_of(replace(schedule, every=each))
    return replace(settings, **values, origins=origins)


def _trained_on(data: Domains, holdout: float) -> tuple[int, int]:
    """How many rows a trial trains on, and how many domains those are from."""
    if data.has_official_split:
        parts = [int((domain.fixed == MAIN).sum()) for domain in data if domain.fixed is not None]
        return sum(parts), sum(part > 0 for part in parts)
    rows, others = sum(map(len, data)), len(data) - 1
    return math.ceil((1 - holdout) * rows * others / len(data)), others


def _resized(data: Domains) -> bool:
    """Whether there were more pixels than there are, so that enlarging would make them up."""
    return data.items[0].shapes is not None and data.items[0].originals is None


def _refuse_train_size(settings: Settings, data: Domains) -> None:
    """It says in which size files are kept, which for images that have been read is decided."""
    asked, side = settings.train_size, max(data.shape[:2])
    if settings.origins.get("train_size") != "given" or asked == side or data.items[0].originals is not None:
        return
    if not _resized(data) and (asked == "original" or side <= int(asked)):
        return  # kept pixel for pixel
    raise InputError(
        f"train_size={asked!r} says in which size images are kept when files are read, and those of {data.name} have "
        f"been read, with sides of {side}: leave it out, or open the data with it"
    )


def _refuse_holdout(settings: Settings, data: Domains) -> None:
    fixed = [domain.fixed for domain in data]
    if settings.origins.get("holdout") == "given" and all(one is not None and (one != FREE).all() for one in fixed):
        raise InputError(
            f"{data.name} says of every image in which part it belongs, so holdout={settings.holdout:g} would change "
            "nothing: leave it out, or leave the split out of the manifest"
        )


STANDING = ("given", "features frozen")  # origins that no choice goes over
ENOUGH = 64  # pixels on a side: a pretrained network makes little of smaller images
ON_GPU = {"average": "ma", "steps": 500, "patience": 3, "batch": 32, "evaluate_every": 50, "select_every": 50}
ON_CPU = {"steps": 200, "patience": 2, "batch": 8, "evaluate_every": 40, "select_every": 40}


def automatic(
    settings: Settings, data: Domains | Listing, *, device: str = "cpu", output: Path | str | None = None
) -> Settings:
    """Return the settings with the network, and what follows from it, in the place of "auto".

    What an output folder remembers of an earlier call stays so, whatever is at hand now; without a folder, what any
    of the default ones remembers of the same data. ``data`` may be files that have not been read yet.
    """
    if settings.network != AUTO or (isinstance(data, Domains) and data.form != "images"):
        return settings
    side = min(data.evaluation_shape[:2]) if isinstance(data, Domains) else data.largest_side
    if side is not None and side < ENOUGH:  # on any machine
        return replace(_applied(settings, Choice(f"auto, images of {side} pixels", {"network": "small"})), choice=None)
    given = settings.weights if settings.origins.get("weights") == "given" else None
    made_for = data.fingerprint if isinstance(data, Domains) else data.state(AUTO)
    choice = _remembered(output, data.name, made_for)
    if choice is None or not _is_of(choice, given, output):
        choice = replace(_chosen(settings, given, device), made_for=made_for)
        choice = replace(choice, settings=_not_enlarged(choice.settings, data, side))
    return _applied(settings, choice)


def _not_enlarged(values: Mapping[str, Any], data: Domains | Listing, side: int | None) -> Mapping[str, Any]:
    """The settings for images that may be smaller than networks usually see them; arrays say themselves how large."""
    if side is None or side >= values.get("input_size", 0):
        return values
    sizes = {} if isinstance(data, Domains) else {"input_size": side, "train_size": side}
    return {**{name: value for name, value in values.items() if name not in ("input_size", "train_size")}, **sizes}


def _chosen(settings: Settings, given: str | None, device: str) -> Choice:
    small = {"network": "small", "weights": "none", "precision": settings.precision}
    if given == "none":
        return Choice("auto, without weights as was asked", small)
    name, weights = "", "pretrained"
    if given is not None and given != "pretrained":
        network, where = network_for(Path(given)), "the network of these weights"
        name, weights = Path(given).name, weights_sha256(given)
    else:
        try:
            network, where = at_hand(device)
        except InputError:
            if given is not None:
                raise
            return Choice("auto, no pretrained weights at hand", small)
    if network == "small":
        return Choice(f"auto, {where}", {**small, "weights": weights}, weights_name=name)
    values = {**BACKBONE, **(ON_CPU if device == "cpu" else ON_GPU), "network": network, "weights": weights}
    on = "on a CPU" if device == "cpu" else "on a GPU"
    return Choice(f"auto, {where}, {on}", {**values, "precision": settings.precision}, weights_name=name)


def averages_for(settings: Settings, asked: str | Sequence[str]) -> str:
    """Return the averagers as trials write them; "auto" are those that go with the network that was chosen.

    Where steps are plenty, that is the mean of the weights after each of them but the first fifth.
    """
    if asked != AUTO:
        return canonical(asked)
    chosen = settings.choice.settings.get("average", "none") if settings.choice else "none"
    return canonical(f"ma(start={settings.steps // 5})" if chosen == "ma" else chosen)


def _applied(settings: Settings, choice: Choice) -> Settings:
    known = {field.name for field in fields(Settings)}
    given = {name for name, origin in settings.origins.items() if origin in STANDING} - {"network"}
    given |= {*ON_CPU, *ON_GPU} if settings.features == "frozen" else set()  # a head costs little on any machine
    own = {name: value for name, value in choice.settings.items() if name in known - given}
    values = {**{name: getattr(settings, name) for name in known}, **own}
    origins = {**settings.origins, **dict.fromkeys(own, choice.reason)}
    follow(values, origins)
    return Settings(**{**values, "origins": origins, "choice": choice})


def _is_of(choice: Choice, given: str | None, output: Path | str | None) -> bool:
    """Whether a choice stands where these weights are given, if any are."""
    weights = str(choice.settings.get("weights"))
    if given in ("none", "pretrained") or not choice.weights_name:
        return given in (None, weights)
    if given is None:
        raise InputError(
            f"{output or 'an earlier call'} began with the weights {choice.weights_name} (sha256 {weights[:12]}...): "
            "give that file again with --weights FILE (weights=FILE), or say which --network to take"
        )
    return weights_sha256(given) == weights


def remember(folder: Path, data: Domains, choice: Choice | None) -> None:
    """Write a choice into an output folder, once for each data set; what is there stays."""
    if choice is None or data.name in (found := _choices(folder)):
        return
    content = {"choices": {**{name: asdict(one) for name, one in found.items()}, data.name: asdict(choice)}}
    make_folder(folder)
    integrity.make_way(folder / CHOICES)
    write = publish if os.path.lexists(folder / CHOICES) else publish_once
    write(folder / CHOICES, integrity.sealed(content))


def _remembered(output: Path | str | None, name: str, made_for: str) -> Choice | None:
    if output is not None:
        folder = Path(output).expanduser()
        return _choices(folder).get(name) or _begun(folder, name)
    for folder in _default_folders():
        choice = _choices(folder).get(name)
        if choice is not None and choice.made_for == made_for:
            return choice
    return None


def _begun(folder: Path, name: str) -> Choice | None:
    """Return what an earlier version began in a folder before networks were chosen: it had the small one."""
    for home in [folder, *homes(folder)[:1]]:
        with suppress(integrity.Damaged):
            trial = trial_in(home)
            if (trial.data, trial.network, trial.origins.get("network")) == (name, "small", "preset quick"):
                small = {"network": "small", "weights": trial.weights, "precision": trial.precision}
                return Choice("auto, as this folder began", small)
    return None


def _default_folders() -> Sequence[Path]:
    return sorted(file.parent for file in Path("domainwise-runs").glob(f"*/{CHOICES}"))


def _choices(folder: Path) -> dict[str, Choice]:
    """The choices that a folder remembers; none, with a warning, where the file is damaged."""
    with suppress(FileNotFoundError, NotADirectoryError):
        (folder / CHOICES).lstat()
        try:
            return choices_in(folder / CHOICES)
        except integrity.Unreadable:
            raise
        except integrity.Damaged as error:
            warn(f"{error}, and the network is chosen anew")
    return {}


def choices_in(file: Path) -> dict[str, Choice]:
    """Return the choices in a file by the name of the data; raise :class:`integrity.Damaged` where it holds none."""
    content = integrity.read(file)
    try:
        return {str(name): Choice(**one) for name, one in content["choices"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise integrity.Damaged(file, "is damaged: it does not say which networks were chosen") from error
