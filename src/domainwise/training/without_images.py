"""Fit the settings to data that are no images: tables, signals, texts and dicts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from domainwise.data.domains import Domains
from domainwise.errors import InputError
from domainwise.experiment.presets import AUTO, UNTRAINED
from domainwise.experiment.settings import Settings
from domainwise.networks.network import OTHERS, fits, fitting, form_for
from domainwise.networks.text_encoders import PREFIX

ENCODER = {"weights": "pretrained", "lr": 1e-5}  # of texts
FOR_IMAGES = ("input_size", "train_size", "augment", "weights")


def refuse_network(settings: Settings, data: Domains) -> None:
    """Refuse a network that is for samples of another form."""
    if not fits(settings.network, data.form):
        what = f"{data.name} has {data.form} of {data.extent}: {fitting(data.form)}"
        network = f"the network {settings.network} is for {form_for(settings.network)}"
        raise InputError(
            f"{f'no network here is for {data.form}' if settings.network == AUTO else network}, and {what}"
        )


def without_images(settings: Settings, data: Domains) -> Settings:
    """Return the settings without what is for images alone, which is refused where it was asked for."""
    pretrained = settings.network.startswith(PREFIX)
    for name in FOR_IMAGES:
        if name == "weights" and pretrained:
            continue
        value = getattr(settings, name)
        if settings.origins.get(name) == "given" and value != "none":
            what = f"{data.name} has {data.form} of {data.extent}"
            raise InputError(f"{name}={value!r} is for images, and {what}: leave it out")
    given = settings.origins.get("network") == "given" and settings.network != AUTO
    usual = next(iter(OTHERS[data.form]), settings.network)
    if given or not OTHERS[data.form]:
        refuse_network(settings, data)
    frozen = settings.features == "frozen"
    if pretrained and data.tokenizer not in ("", settings.network):
        raise InputError(
            f'the words of {data.name} were numbered by "{data.tokenizer}", and {settings.network} has numbers of its '
            f"own: name the data in this call, or say tokenizer={settings.network!r} where they are made"
        )
    if frozen and data.form != "rows" and not pretrained:
        raise InputError(
            f"{settings.origins.get('features')}: frozen features are those of a pretrained network, and for "
            f"{data.form} there is none: train the whole network"
        )
    of_columns = frozen and data.form == "rows"
    if given and of_columns and settings.network != "linear" and settings.origins.get("features") == "given":
        raise InputError(
            f"the features of a table are its columns, so features=frozen is a linear network, and {settings.network} "
            "was asked for: leave one of the two out"
        )
    like = {**UNTRAINED, **(ENCODER if pretrained else {})}
    if pretrained and frozen:  # a head takes larger steps
        del like["lr"]
    usual = settings.network if pretrained else usual
    own: dict[str, Any] = {**like, "network": usual, "train_size": 1, "input_size": 1}
    own = {name: value for name, value in own.items() if settings.origins.get(name) != "given"}
    origins = {**settings.origins, **dict.fromkeys(own, f"{data.form}, no images")}
    if of_columns:  # its columns are features, and a linear network a head
        own |= {"network": "linear", "features": "trained"}
        origins["network"] = origins["features"]
    return replace(settings, **own, origins=origins)
