"""What a data set consists of, and what is wrong with it, before anything is trained on it."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median_low
from typing import Any

from domainwise.data.decoded.decode_all import BATCH, Progress
from domainwise.data.decoded.image import ImageError, content_of, pillow_warnings, rgb
from domainwise.data.decoded.parallel import side_by_side
from domainwise.data.domains import Domains
from domainwise.data.sources.benchmarks import BENCHMARKS, Benchmark, difference_of, recognised
from domainwise.data.sources.listing import File, Listing
from domainwise.errors import legible


@dataclass(frozen=True)
class Look:
    """What there is to say about one image."""

    domain: str
    kind: str
    name: str
    sha256: str = ""
    shape: tuple[int, int] = (0, 0)
    mode: str = ""
    problem: str = ""  # why it cannot be read


@dataclass(frozen=True)
class Survey:
    name: str
    fingerprint: str
    domains: tuple[str, ...]
    classes: tuple[str, ...]
    looks: tuple[Look, ...]  # of the images that can be read
    corrupt: tuple[Look, ...]
    oddities: tuple[str, ...]

    @cached_property
    def counts(self) -> dict[str, dict[str, int]]:
        """Images that can be read, by domain and class."""
        counted = Counter((look.domain, look.kind) for look in self.looks)
        return {domain: {kind: counted[domain, kind] for kind in self.classes} for domain in self.domains}

    @property
    def missing(self) -> list[tuple[str, str]]:
        """(domain, class) pairs without an image."""
        return [(domain, kind) for domain, kinds in self.counts.items() for kind, count in kinds.items() if not count]

    @property
    def sizes(self) -> dict[str, Any]:
        shapes = [look.shape for look in self.looks]
        facts: dict[str, Any] = {"distinct": len(set(shapes))}
        for i, side in enumerate(("height", "width")):
            sides = [shape[i] for shape in shapes]
            facts[side] = {"min": min(sides), "median": median_low(sides), "max": max(sides)} if sides else {}
        return facts

    @property
    def modes(self) -> dict[str, int]:
        return dict(Counter(look.mode for look in self.looks).most_common())

    @cached_property
    def duplicates(self) -> dict[str, list[list[str]]]:
        """Files of the same content: across domains, within one, and of these those that have different classes."""
        same = defaultdict(list)
        for look in self.looks:
            same[look.sha256].append(look)
        twins = [looks for looks in same.values() if len(looks) > 1]
        return {
            "across": [[x.name for x in looks] for looks in twins if len({x.domain for x in looks}) > 1],
            "within": [[x.name for x in looks] for looks in twins if len({x.domain for x in looks}) == 1],
            "contradicting": [[x.name for x in looks] for looks in twins if len({x.kind for x in looks}) > 1],
        }

    @property
    def benchmark(self) -> Benchmark | None:
        """The benchmark that this is, by its name or by those of its domains."""
        known = BENCHMARKS.get(self.name)
        return known if known is not None and {*known.domains} == {*self.domains} else recognised(self.domains)

    @property
    def difference(self) -> str:
        """From the published numbers of images, in a sentence; empty where there is none, or no benchmark."""
        if self.benchmark is None:
            return ""
        here = {domain: sum(kinds.values()) for domain, kinds in self.counts.items()}
        if self.benchmark.in_files:
            here = {domain: here[name] for domain, name in self.benchmark.match(self.domains).items()}
        return difference_of(self.benchmark, here)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "fingerprint": self.fingerprint,
            "benchmark": self.benchmark.name if self.benchmark else None,
            "difference": self.difference or None,
            "images": len(self.looks),
            "counts": self.counts,
            "missing": [list(pair) for pair in self.missing],
            "sizes": self.sizes,
            "modes": self.modes,
            "corrupt": [{"file": look.name, "reason": look.problem} for look in self.corrupt],
            "duplicates": self.duplicates,
            "notes": list(self.oddities),
        }


def survey(found: Listing | Domains, progress: Progress | None = None) -> Survey:
    if isinstance(found, Domains):
        looks = tuple(_look_at_arrays(found))
        return Survey(found.name, found.fingerprint, found.names, found.classes, looks, (), ())
    looks = tuple(_look_at_files(found, progress))
    good = tuple(look for look in looks if not look.problem)
    readable = replace(found, files=[f for f, look in zip(found.files, looks, strict=True) if not look.problem])
    fingerprint = readable.fingerprint([look.sha256 for look in good])
    corrupt = tuple(look for look in looks if look.problem)
    names = tuple(name for name, _ in found.domains)
    return Survey(found.name, fingerprint, names, found.classes, good, corrupt, found.oddities)


def _look_at_files(found: Listing, progress: Progress | None) -> list[Look]:
    looks = []
    with pillow_warnings(), closing(side_by_side(_look, found.files)) as results:
        for look in results:
            looks.append(look)
            if progress is not None and (len(looks) % BATCH == 0 or len(looks) == len(found.files)):
                progress(len(looks), len(found.files))
    return looks


def _look(file: File) -> Look:
    seen = Look(file.domain, file.kind, legible(file.relative))
    try:
        content = content_of(file.path)
        image, mode = rgb(content)
    except ImageError as error:
        return replace(seen, problem=str(error))
    return replace(seen, sha256=hashlib.sha256(content).hexdigest(), shape=(image.height, image.width), mode=mode)


def _look_at_arrays(data: Domains) -> list[Look]:
    height, width, channels = data.shape
    return [
        Look(
            domain.name,
            data.classes[label],
            f"{domain.name}/{i}",
            hashlib.sha256(image.tobytes()).hexdigest(),
            (height, width),
            {1: "L", 3: "RGB"}.get(channels, f"{channels} channels"),
        )
        for domain in data
        for i, (image, label) in enumerate(zip(domain.images, domain.labels, strict=True))
    ]
