"""Represent a data set as named domains that share their classes, each with arrays of images and labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from domainwise.data.checks import validate
from domainwise.data.decoded.array_files import (
    ABOUT,
    COLUMNS,
    link_arrays,
    open_arrays,
    read_about,
    write_about,
    write_array,
)
from domainwise.data.decoded.image_files import image_files
from domainwise.errors import InputError, closest, require, some
from domainwise.networks.forms import Layout, extent_of, form_of

Images = npt.NDArray[np.uint8]
Values = npt.NDArray[np.uint8] | npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Shapes = npt.NDArray[np.int64]  # (N, 2): height and width
Fixed = npt.NDArray[np.int8]  # (N,): FREE, or one of PARTS

FREE, MAIN, HOLDOUT, VAL, TEST, ID_TEST = -1, 0, 1, 2, 3, 4
# What the parts of an official split are called; id_ is of the domains that are trained on, and the others of others.
PARTS = {MAIN: "train", HOLDOUT: "id_val", VAL: "val", TEST: "test", ID_TEST: "id_test"}
CHANNELS = 3  # of images that come from files


class Ragged:
    """RGB images of different sizes, one after the other in a flat array that may be memory-mapped."""

    def __init__(self, pixels: Images, shapes: Shapes) -> None:
        self.pixels, self.shapes = pixels, shapes
        self.starts = _starts(shapes)
        if self.starts[-1] != len(pixels):
            raise ValueError(f"{len(shapes)} images of {self.starts[-1]} bytes in all are said to be in {len(pixels)}")

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, i: int) -> Images:
        """Return image i, (h, w, 3), as a view."""
        i = range(len(self))[i]
        height, width = self.shapes[i]
        return self.pixels[self.starts[i] : self.starts[i + 1]].reshape(height, width, CHANNELS)

    def __iter__(self) -> Iterator[Images]:
        return (self[i] for i in range(len(self)))


def _starts(shapes: Shapes) -> Labels:
    """Where each image of a flat array begins, and at the end where the last one ends."""
    return np.concatenate([[0], np.cumsum(CHANNELS * shapes.astype(np.int64).prod(1))])


@dataclass(frozen=True, eq=False, repr=False)
class Domain:
    """One domain: its name, images and labels, and what else is known of each image."""

    name: str
    images: Values  # (N, H, W, C), uint8 or floats from 0 to 1; (N, d); (N, C, T); records (N,)
    labels: Labels  # (N,), positions in Domains.classes
    evaluation: Images | None = None  # (N, E, E, C), from the originals in one resize; None: evaluate on images
    shapes: Shapes | None = None  # (N, 2), height and width of the originals; None: images are pixel for pixel
    originals: Ragged | None = None  # every pixel of originals that differ in size: crop from these, not from images
    groups: Labels | None = None  # (N,): images of one group never straddle a split
    copies: Labels | None = None  # (N,): images of one number are one file, and stay together too
    fixed: Fixed | None = None  # (N,): in which part of the split an image belongs, FREE where the seed decides
    subgroups: Labels | None = None  # (N, k), positions in Domains.subgroups; -1 where an image has fewer than k

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self)} images>"

    @property
    def pixels(self) -> Images | None:
        """The flat array of the originals, as it is kept in a file."""
        return None if self.originals is None else self.originals.pixels


@dataclass(frozen=True, eq=False, repr=False)
class Domains:
    """The domains of one data set, with their classes.

    The fingerprint is a hash of the content, which does not depend on the folder that it lies in.
    """

    given_as: ClassVar[str] = "domains, such as dw.open_data(DIR), dw.domains({...}) or dw.digits()"

    name: str
    classes: tuple[str, ...]
    items: tuple[Domain, ...]
    fingerprint: str
    home: Path | None = None  # the folder that the arrays are mapped from
    plain: str = ""  # the fingerprint of the same images split as if none was a copy of another
    subgroups: tuple[str, ...] = ()  # names of what scores are told apart by inside a domain, such as "slide:23"
    tokenizer: str = ""  # what made token ids of texts; empty where they were given as ids

    def __post_init__(self) -> None:
        validate(self)

    def __repr__(self) -> str:
        sizes = [f"{domain.name} {len(domain):,}" for domain in self]
        classes = f"{len(self.classes)} classes ({some(self.classes)})"
        return f"<Domains {self.name}: {some(sizes)}; {self.extent}; {classes}>"

    def _repr_html_(self) -> str:
        """Return the number of images of each domain, as a notebook shows it."""
        rows = "".join(f"<tr><td>{escape(domain.name)}</td><td>{len(domain):,}</td></tr>" for domain in self)
        about = escape(f"{self.name}, {len(self.classes)} classes: {some(self.classes)}")
        return f"<table><caption>{about}</caption><tr><th>domain</th><th>{self.form}</th></tr>{rows}</table>"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the domains, in order."""
        return tuple(domain.name for domain in self.items)

    @property
    def shape(self) -> tuple[int, ...]:
        """Height, width and channels of every image; of tables columns, of signals channels and steps, of dicts ()."""
        return self.items[0].images.shape[1:]

    @property
    def layout(self) -> Layout:
        """Return what a network is built for: the shape of a sample, or the fields of a dict."""
        records = self.items[0].images.dtype
        return records if records.names else self.shape

    @property
    def form(self) -> str:
        """Return what the samples are: "images", "rows" of a table, "signals", "texts" or other "dicts"."""
        return form_of(self.layout)

    @property
    def extent(self) -> str:
        """Say how large every sample is, as in "5 columns"."""
        return extent_of(self.layout)

    @property
    def has_official_split(self) -> bool:
        """Whether each image is in one of PARTS: the data say what is trained on, chosen by and tested on."""
        return any(domain.fixed is not None and (domain.fixed >= TEST).any() for domain in self.items)

    @property
    def evaluation_shape(self) -> tuple[int, ...]:
        """Height, width and channels of every image to evaluate on."""
        first = self.items[0]
        return (first.images if first.evaluation is None else first.evaluation).shape[1:]

    def __iter__(self) -> Iterator[Domain]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, name: str) -> Domain:
        require("the name of a domain", name, str)
        for domain in self.items:
            if domain.name == name:
                return domain
        raise InputError(f'"{name}" is not a domain of {self.name}: {closest(name, self.names)}')

    def save(self, folder: Path) -> None:
        """Write arrays that :meth:`open` maps instead of reading; arrays that are mapped already are linked to."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.home is not None and self.home.is_dir():
            self._link(self.home, folder)
            return
        checksums = {}
        for column in COLUMNS:
            if getattr(self.items[0], column) is not None:
                checksums[column] = write_array(folder, column, [getattr(domain, column) for domain in self])
        write_about(folder, checksums, **self._facts())

    def _facts(self) -> dict[str, Any]:
        counts = [[domain.name, len(domain)] for domain in self]
        facts = {"name": self.name, "classes": [*self.classes], "domains": counts, "fingerprint": self.fingerprint}
        texts = {"tokenizer": self.tokenizer} if self.tokenizer else {}
        return {**facts, "plain": self.plain, "subgroups": [*self.subgroups], **texts}

    def _link(self, home: Path, folder: Path) -> None:
        """Link to the arrays in a home, but for copies that are taken for images of their own."""
        left_out = "copies.npy"
        if self.items[0].copies is not None or not (home / left_out).is_file():
            link_arrays(home, folder)
            return
        link_arrays(home, folder, (left_out, ABOUT))
        about = read_about(home)
        blocks = {column: block for column, block in about["blocks"].items() if f"{column}.npy" != left_out}
        files = {"files": about["files"]} if "files" in about else {}
        write_about(folder, blocks, **self._facts(), **files)

    def split_by(self, duplicates: str) -> Domains:
        """Return the same images with copies of a file "together" in one part of the split, or "apart" as they fall."""
        if duplicates == "together" or self.items[0].copies is None:
            return self
        items = tuple(replace(domain, copies=None) for domain in self)
        return replace(self, items=items, fingerprint=self.plain)

    def known_as(self, fingerprint: str) -> Domains:
        """Return these images split as those with a fingerprint were, if that is one of theirs."""
        return self.split_by("apart") if fingerprint == self.plain != self.fingerprint else self

    @classmethod
    def open(cls, folder: Path) -> Domains:
        """Map the arrays that :meth:`save` wrote to a folder."""
        facts, arrays = open_arrays(folder)
        return assemble(facts, {**arrays, **image_files(folder, facts)}, folder)


def assemble(facts: Mapping[str, Any], arrays: Mapping[str, Any], home: Path | None = None) -> Domains:
    """Return domains as slices of arrays that hold all of them.

    Args:
        facts: name, classes, pairs of domains and their numbers of images, and fingerprint.
        arrays: by column, or images left in their files; a row is an image, but for the pixels of originals.
        home: the folder that the arrays are mapped from.
    """
    ends = np.cumsum([0, *(count for _, count in facts["domains"])])
    rows = ((column, array) for column, array in arrays.items() if column != "pixels")
    parts = {column: [array[a:b] for a, b in pairwise(ends)] for column, array in rows}
    if "pixels" in arrays:
        pieces = pairwise(_starts(arrays["shapes"])[ends])
        originals = (arrays["pixels"][start:end] for start, end in pieces)
        parts["originals"] = [Ragged(pixels, shapes) for pixels, shapes in zip(originals, parts["shapes"], strict=True)]
    items = tuple(
        Domain(name, **{column: part[i] for column, part in parts.items()})
        for i, (name, _) in enumerate(facts["domains"])
    )
    return Domains(
        facts["name"],
        tuple(facts["classes"]),
        items,
        facts["fingerprint"],
        home,
        facts.get("plain", facts["fingerprint"]),
        tuple(facts.get("subgroups", ())),
        facts.get("tokenizer", ""),
    )
