"""Refuse domains that cannot be trained on: names that read alike, one class, arrays that do not fit together."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from domainwise.errors import InputError
from domainwise.networks.forms import extent_of

if TYPE_CHECKING:
    from domainwise.data.domains import Domain, Domains

OPTIONAL = ("evaluation", "shapes", "originals", "groups", "copies", "fixed", "subgroups")


def require_domains(data: str, names: Sequence[str]) -> None:
    """Refuse a single domain, and two whose names read the same."""
    if len(names) < 2:
        raise InputError(
            f"{data} has only one domain ({', '.join(names)}): generalizing to an unseen domain needs "
            "at least one to train on and one to hold out"
        )
    _require_names(data, names)


def _require_names(data: str, names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        key = unicodedata.normalize("NFKC", name).casefold()
        if key in seen:
            # ascii() shows what the eye cannot see: composed against decomposed letters, wide ones, capitals
            pair = f'"{seen[key]}" and "{name}" ({seen[key]!a} and {name!a})'
            raise InputError(f"domains {pair} of {data} read as the same name: rename one")
        seen[key] = name


def require_classes(data: str, present: Collection[str]) -> None:
    """Refuse a data set whose images all belong to one class."""
    if len(present) < 2:
        only = ", ".join(f'"{name}"' for name in present) or "none"
        raise InputError(f"all images of {data} belong to one class ({only}): there is nothing to tell apart")


def validate(data: Domains) -> None:
    _require_names(data.name, data.names)
    for domain in data.items:
        _validate_domain(data, domain)
    labels = {int(label) for domain in data.items for label in np.unique(domain.labels)}
    require_classes(data.name, [data.classes[label] for label in labels])


def _validate_domain(data: Domains, domain: Domain) -> None:
    if len(domain.images) != len(domain.labels):
        raise InputError(f'domain "{domain.name}" has {len(domain.images)} images and {len(domain.labels)} labels')
    if len(domain) == 0 or 0 in domain.images.shape:
        raise InputError(f'domain "{domain.name}" of {data.name} has no images, or none with pixels')
    if domain.images.shape[1:] != data.shape:
        raise InputError(
            f'images of domain "{domain.name}" are {domain.images.shape[1:]}, those of "{data.names[0]}" {data.shape}: '
            "all domains must have one shape"
        )
    if domain.images.dtype != data.items[0].images.dtype:
        fields = [extent_of(one.images.dtype) for one in (domain, data.items[0]) if one.images.dtype.names]
        if len(fields) == 2 and fields[0] != fields[1]:
            raise InputError(
                f'dicts of domain "{domain.name}" have {fields[0]}, those of "{data.names[0]}" {fields[1]}: '
                "all domains must have the same fields of one size"
            )
        raise InputError(
            f'images of domain "{domain.name}" are {domain.images.dtype}, those of "{data.names[0]}" '
            f"{data.items[0].images.dtype}: all domains must have one type"
        )
    low, high = int(domain.labels.min()), int(domain.labels.max())
    if low < 0 or high >= len(data.classes):
        raise InputError(
            f'domain "{domain.name}" has label {low if low < 0 else high}, outside 0..{len(data.classes) - 1}'
        )
    _validate_optional(data, domain)


def _validate_optional(data: Domains, domain: Domain) -> None:
    for what in OPTIONAL:
        mine, first = getattr(domain, what), getattr(data.items[0], what)
        if (mine is None) != (first is None):
            raise InputError(f'either all domains of {data.name} have {what} or none, but not "{domain.name}" alone')
        if mine is not None and len(mine) != len(domain):
            raise InputError(f'domain "{domain.name}" has {len(domain)} images and {len(mine)} {what}')
    if domain.evaluation is not None and domain.evaluation.shape[1:] != data.evaluation_shape:
        raise InputError(f'the images of domain "{domain.name}" to evaluate on have another shape than the others')
