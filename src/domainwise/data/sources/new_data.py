"""Find the images that a trained model is tried on: in folders of its classes, in a manifest, or without labels."""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from domainwise.data.domains import Domains
from domainwise.data.sources.folders import Left, find_domains, images_in, look, looking
from domainwise.data.sources.listing import File, Listing, quoted
from domainwise.data.sources.open import find_source
from domainwise.errors import InputError, closest, some

ALIKE = 0.8  # of two names, from which on one is taken for a slip of the other


@dataclass(frozen=True)
class Found:
    """Image files, by domain; their classes are those of a model, or empty where no label is known."""

    name: str
    files: Sequence[File]
    labelled: bool
    notes: tuple[str, ...] = ()


def find_new(place: str, classes: Sequence[str]) -> Found | Domains:
    """Return the images that a place has for a model of these classes: all have a label, or none has.

    A folder holds images, folders of classes, or folders of domains with folders of classes; else it is what
    :func:`domainwise.open_data` opens. Classes that the folder lacks are fine, and one that the model does not know is
    refused.
    """
    folder = Path(place).expanduser()
    with looking():
        inside = place != "digits" and folder.is_dir()
    if inside:
        return _in_folder(folder, classes)
    source = find_source(place)
    if isinstance(source, Domains):
        return source
    check_labels(Counter(file.class_name for file in source.files), classes, source.name)
    return Found(source.name, source.files, True, _notes(source))


def check_labels(counts: Counter[str], classes: Sequence[str], where: str) -> None:
    """Refuse labels that are no class of a model, with the one that each is closest to."""
    strange = [(name, count) for name, count in counts.items() if count and name not in classes]
    if strange:
        name, count = strange[0]
        others = len(strange) - 1
        more = f", nor {'are' if others > 1 else 'is'} {others} more label{'s' * (others > 1)}" if others else ""
        near = closest(name, classes)
        raise InputError(
            f"{quoted(name)}, the label of {count:,} image{'s' * (count != 1)} of {where}, is no class of this model"
            f"{more}; {near}{'' if near.endswith('?') else '.'} Rename it to the class that it is, or take these "
            "images away, since none of them could be right"
        )


def _in_folder(folder: Path, classes: Sequence[str]) -> Found:
    with looking():
        seen = look(folder)
        upper = [_composed(name) for name in seen.inside]
        lower = {_composed(name) for place in seen.inside for name in look(folder / place).inside}
    name = folder.resolve().name or "data"
    here, below = (sum(one in classes for one in names) / max(len(names), 1) for names in (upper, lower))
    if here and here >= below:  # a domain may have the name of a class
        return _labelled(folder, {name: folder}, classes)
    if below:
        return _labelled(folder, {place: folder / place for place in seen.inside}, classes)
    _refuse_slips([*upper, *sorted(lower)], classes, folder)
    files = [File(name, "", path, os.path.relpath(path, folder)) for path in images_in([folder])]
    return Found(name, files, False)


def _labelled(folder: Path, places: dict[str, Path], classes: Sequence[str]) -> Found:
    left = Left()
    with looking():
        found = find_domains(places, left)
        if folder not in places.values():
            left.loose += look(folder).images
    files = [file for own in found.values() for file in own]
    check_labels(Counter(file.class_name for file in files), classes, quoted(str(folder)))
    if not files:
        raise InputError(f"there are no images in the folders of classes in {quoted(str(folder))}")
    listing = Listing(folder.resolve().name, folder, tuple(classes), files, left.sentences(), left.skipped)
    return Found(listing.name, files, True, _notes(listing))


def _notes(listing: Listing) -> tuple[str, ...]:
    return *listing.oddities, *listing.unread


def _refuse_slips(names: Sequence[str], classes: Sequence[str], folder: Path) -> None:
    """Refuse folders that are called nearly like classes, which would else be taken for images without labels."""
    like = {name.casefold().strip(): name for name in classes}
    for name in names:
        if near := get_close_matches(name.casefold().strip(), like, n=1, cutoff=ALIKE):
            raise InputError(
                f"the folder {quoted(name)} in {quoted(str(folder))} is called nearly like the class "
                f"{quoted(like[near[0]])} of this model, and none exactly like one: rename the folders of classes "
                f"({some(classes)}), or name others otherwise where these images have no labels"
            )


def _composed(name: str) -> str:
    """A name with composed letters, as classes have them: archives made on a Mac have decomposed ones."""
    return unicodedata.normalize("NFC", name)
