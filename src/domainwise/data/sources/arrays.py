"""Make domains from arrays in memory."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from domainwise.data.checks import require_domains
from domainwise.data.domains import FREE, PARTS, Domain, Domains, Values
from domainwise.data.sources.classes import class_notes, refuse_spellings
from domainwise.data.sources.datasets import is_dataset, read_dataset
from domainwise.data.sources.labels import labels_of, text_of, type_of
from domainwise.data.sources.texts import WORDS, texts_in, tokenised
from domainwise.data.sources.values import array_of, values_of
from domainwise.data.sources.wilds_objects import arrays_of, is_wilds
from domainwise.errors import InputError, closest, warn
from domainwise.networks.text_encoders import PREFIX, tokenizer_json


def domains(
    arrays: Mapping[str, tuple[Any, Any]],
    *,
    name: str = "arrays",
    classes: Sequence[str] | None = None,
    groups: Mapping[str, Any] | None = None,
    splits: Mapping[str, Any] | None = None,
    form: Literal["images", "signals"] | None = None,
    tokenizer: str = WORDS,
) -> Domains:
    """Make domains from arrays in memory, ``{"name": (images, labels), ...}``, or from torch ``Dataset`` objects.

    Images are uint8 of shape (N, H, W) or (N, H, W, C), or floats from 0 to 1 of shape (N, H, W, C). Any numbers of
    shape (N, d) are a table, such as measurements or the features of a network. Other numbers than uint8 of shape
    (N, C, T) are signals, such as C sensors over T steps. Every column of a table and every channel of a signal is
    scaled to mean 0 and deviation 1 over the samples that are trained on. A list of texts becomes the ids of their
    words, and a dict of arrays, such as ids and masks of one's own, reaches the network as a dict of tensors. A dataset
    of the package wilds is read item by item, with its splits; the first field of its metadata says the domain.

    Args:
        classes: the names of the classes. Labels are whole numbers from 0, or names. Without this argument every number
            up to the largest must occur, and names are in the order of the alphabet; a name that is spelled in two ways
            is refused, and a class that a domain lacks is told of.
        groups: for each domain, what each image belongs to, such as a patient: a group never straddles the split.
        splits: an official split: for each domain, which part each image is in: train, id_val, val, test or id_test;
            empty where the seed is to decide.
        form: what arrays of three dimensions are, "images" (N, H, W) in grey or "signals" (N, C, T), where that is not
            as above. Signals with more channels than steps are asked about.
        tokenizer: what makes token ids of texts: a hash of their "words", or the tokenizer of a network, such as
            "transformers:distilbert-base-uncased", or of one in a folder, "transformers:FOLDER".
    """
    if is_wilds(arrays):
        of = arrays_of(arrays)
        arrays, splits, classes = of["arrays"], of["splits"], of["classes"]
        name = of["name"] if name == "arrays" else name
    made = one_or_more(arrays, name=name, classes=classes, groups=groups, splits=splits, form=form, tokenizer=tokenizer)
    require_domains(made.name, made.names)
    if classes is None:  # or else it was said which there are
        counts = {domain.name: Counter(made.classes[label] for label in domain.labels) for domain in made}
        refuse_spellings(counts)
        for note in class_notes(counts):
            warn(f"{name}: {note}")
    return made


def one_or_more(
    arrays: Mapping[str, tuple[Any, Any]],
    *,
    name: str,
    classes: Sequence[str] | None,
    groups: Mapping[str, Any] | None = None,
    splits: Mapping[str, Any] | None = None,
    form: str | None = None,
    tokenizer: str = WORDS,
) -> Domains:
    """Return what :func:`domains` does, of a single domain too, which can be trained on though not compared."""
    if form is not None and (not isinstance(form, str) or form not in ("images", "signals")):
        raise InputError(f'form is "images" or "signals", got {form!r}')
    if not isinstance(arrays, Mapping):
        raise InputError(f'domains are given as {{"name": (images, labels), ...}}, got {type_of(arrays)}')
    pairs = {text_of("domain", name): _pair(name, given) for name, given in arrays.items()}
    if not pairs:
        raise InputError("no domains were given")
    given, tokenizer = _samples({domain: x for domain, (x, _) in pairs.items()}, tokenizer)
    images = {domain: values_of(domain, x, form) for domain, x in given.items()}
    labels, named = labels_of({domain: y for domain, (_, y) in pairs.items()}, classes)
    together = {
        domain: np.unique(array, return_inverse=True)[1].astype(np.int64)
        for domain, array in _of_each("groups", groups, images).items()
    }
    fixed = {
        domain: np.array([_part(domain, str(part)) for part in array], np.int8)
        for domain, array in _of_each("splits", splits, images).items()
    }
    items = tuple(Domain(d, images[d], labels[d], groups=together.get(d), fixed=fixed.get(d)) for d in pairs)
    fingerprint = _fingerprint(items, named)
    return Domains(text_of("data set", name), tuple(named), items, fingerprint, tokenizer=tokenizer)


def _samples(given: Mapping[str, Any], tokenizer: str) -> tuple[Mapping[str, Any], str]:
    """The samples of all domains, of texts their token ids, and what has made these."""
    texts = {name: found for name, x in given.items() if (found := texts_in(x)) is not None}
    if texts and len(texts) < len(given):
        other = next(name for name in given if name not in texts)
        raise InputError(f'domain "{next(iter(texts))}" has texts and "{other}" has none: all must have one form')
    if not texts:
        return given, ""
    if tokenizer != WORDS and not tokenizer.startswith(PREFIX):
        raise InputError(f'tokenizer is "{WORDS}", or {PREFIX}NAME of a network, got {tokenizer!r}')
    return tokenised(texts, tokenizer=tokenizer_json(tokenizer) if tokenizer != WORDS else ""), tokenizer


def _pair(name: object, given: object) -> Sequence[Any]:
    if is_dataset(given):
        return read_dataset(str(name), given)
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != 2:
        raise InputError(f'domain "{name}" is given as (images, labels), got {type_of(given)}')
    return given


def _of_each(what: str, given: Mapping[str, Any] | None, images: Mapping[str, Values]) -> dict[str, npt.NDArray[Any]]:
    """The groups or splits of every domain, one for each image; none where nothing is given."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or {*given} != {*images}:
        raise InputError(f"{what} are given for every domain, as in {{{next(iter(images))!r}: [...], ...}}")
    found = {name: array_of(f'the {what} of domain "{name}"', array) for name, array in given.items()}
    for name, array in found.items():
        if array.shape != (len(images[name]),):
            raise InputError(f'domain "{name}" has {len(images[name])} images and {what} of shape {array.shape}')
    return found


def _part(domain: str, part: str) -> int:
    if part == "":
        return FREE
    if part not in PARTS.values():
        raise InputError(f'"{part}" in domain "{domain}" is no part of a split: {closest(part, [*PARTS.values()])}')
    return [*PARTS.values()].index(part)


def _fingerprint(items: Sequence[Domain], classes: Sequence[str]) -> str:
    """Return a hash of the content: names, classes, shapes, pixels and labels."""
    digest = hashlib.sha256(json.dumps([d.name for d in items] + list(classes)).encode())
    for domain in items:
        floats = "" if domain.images.dtype == np.uint8 else str(domain.images.dtype)
        digest.update(f"{domain.images.shape}{floats}".encode())
        for array in (domain.images, domain.labels, domain.groups, domain.fixed):
            if array is not None:
                digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
