"""Settings for the data at hand: what the data decides, and a sentence where the two do not go together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from domainwise.data.domains import FREE, Domains
from domainwise.errors import InputError
from domainwise.experiment.settings import UNTRAINED, Settings
from domainwise.networks.network import OWN, VECTORS


def suited(settings: Settings, data: Domains) -> Settings:
    """The same settings, with ``input_size`` that of the images where only the preset quick has an opinion on it."""
    _refuse_holdout(settings, data)
    if data.tabular:
        return _for_a_table(settings, data)
    if settings.network in VECTORS:
        raise InputError(
            f"the network {settings.network} is for tables, and {data.name} has images: take small, or the name of a "
            "timm backbone"
        )
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


FOR_IMAGES = ("input_size", "train_size", "augment", "weights")


def _for_a_table(settings: Settings, data: Domains) -> Settings:
    """The settings without what is for images alone, which is refused where it was asked for."""
    columns = f"{data.name} is a table of {data.shape[0]} columns"
    for name in FOR_IMAGES:
        value = getattr(settings, name)
        if settings.origins.get(name) == "given" and value != "none":
            raise InputError(f"{name}={value!r} is for images, and {columns}: leave it out")
    given = settings.origins.get("network") == "given"
    if given and settings.network not in VECTORS and not OWN.fullmatch(settings.network):
        raise InputError(
            f"the network {settings.network} is for images, and {columns}: take {', '.join(VECTORS)}, or "
            "FILE.py:FUNCTION"
        )
    frozen = settings.features == "frozen"
    if given and settings.network != "linear" and settings.origins.get("features") == "given" and frozen:
        raise InputError(
            f"the features of a table are its columns, so features=frozen is a linear network, and {settings.network} "
            "was asked for: leave one of the two out"
        )
    own: dict[str, Any] = {**UNTRAINED, "network": "mlp", "train_size": 1, "input_size": 1}
    own = {name: value for name, value in own.items() if settings.origins.get(name) != "given"}
    origins = {**settings.origins, **dict.fromkeys(own, "a table")}
    if frozen:  # nothing is computed for a table: its columns are the features, and a linear network is a head
        own |= {"network": "linear", "features": "trained"}
        origins["network"] = origins["features"]
    return replace(settings, **own, origins=origins)


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
