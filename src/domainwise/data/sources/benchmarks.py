"""Know the published benchmarks: their domains, the folders of a download, their sizes and settings."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from domainwise.data.decoded.image import PUBLISHED
from domainwise.data.sources.folders import Left, find_domains, look, looking, require_folder
from domainwise.data.sources.listing import Listing, listed, quoted
from domainwise.errors import InputError

IDENTITIES = ("male", "female", "LGBTQ", "christian", "muslim", "other_religions", "black", "white")  # of CIVILCOMMENTS
WRAPPERS = ("kfold", "images", "raw_images", "data")  # folders that downloads put around the domains


@dataclass(frozen=True)
class Benchmark:
    """A published benchmark: what it consists of, and how a download of it is recognised."""

    name: str  # on the command line: pacs=DIR
    title: str
    domains: Mapping[str, str]  # name: what tables call it; in DomainBed's order, that of the names
    classes: int
    published: tuple[tuple[int, ...], ...]  # images of each domain; a line for every version in circulation
    size: int = 224  # of the images that a network sees
    steps: int = 5001
    evaluate_every: int = 300
    folders: tuple[str, ...] = ()  # what a download calls the folder that holds the domains, besides the name
    spellings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of the domains' folders, besides the name
    inside: str = ""  # a folder between domain and class, in some downloads
    wilds: bool = False  # a set of WILDS, with official validation and test domains

    @property
    def in_files(self) -> bool:
        """Whether it is made of image files in folders."""
        return bool(self.folders)

    def match(self, names: Collection[str]) -> dict[str, str]:
        """Return the folder of each domain among these names; capitals, blanks and underscores do not matter."""
        plain = {_plain(name): name for name in sorted(names, reverse=True)}
        spelled = {domain: (domain, *self.spellings.get(domain, ())) for domain in self.domains}
        return {
            domain: next(plain[_plain(word)] for word in words if _plain(word) in plain)
            for domain, words in spelled.items()
            if any(_plain(word) in plain for word in words)
        }


BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark(
            "pacs",
            "PACS",
            {"art_painting": "A", "cartoon": "C", "photo": "P", "sketch": "S"},
            classes=7,
            published=((2048, 2344, 1670, 3929),),
            folders=("pacs_data",),
            spellings={"art_painting": ("art",)},
        ),
        Benchmark(
            "vlcs",
            "VLCS",
            {"Caltech101": "C", "LabelMe": "L", "SUN09": "S", "VOC2007": "V"},
            classes=5,
            published=((1415, 2656, 3282, 3376),),
            folders=("vlcs_data",),
            spellings={"Caltech101": ("Caltech",), "SUN09": ("SUN",), "VOC2007": ("VOC", "PASCAL", "Pascal VOC 2007")},
            inside="full",
        ),
        Benchmark(
            "officehome",
            "OfficeHome",
            {"Art": "A", "Clipart": "C", "Product": "P", "Real World": "R"},
            classes=65,
            published=((2427, 4365, 4439, 4357),),
            folders=("office_home", "OfficeHomeDataset_10072016", "office_home_data"),
            spellings={"Real World": ("Real",)},
        ),
        Benchmark(
            "terraincognita",
            "TerraIncognita",
            {"location_100": "L100", "location_38": "L38", "location_43": "L43", "location_46": "L46"},
            classes=10,
            # The paper counts the second line; what can be downloaded since 2021 is the first.
            published=((4741, 9736, 3970, 5883), (4879, 9767, 4020, 6122)),
            folders=("terra_incognita", "terra"),
            spellings={f"location_{i}": (f"L{i}",) for i in (100, 38, 43, 46)},
        ),
        Benchmark(
            "domainnet",
            "DomainNet",
            {
                "clipart": "clip",
                "infograph": "info",
                "painting": "paint",
                "quickdraw": "quick",
                "real": "real",
                "sketch": "sketch",
            },
            classes=345,
            # Without the duplicates that the authors of the protocol leave out: 586,575 in all.
            published=((48129, 51605, 72266, 172500, 172947, 69128),),
            evaluate_every=1000,
            folders=("domain_net", "domainnet_data"),
        ),
        Benchmark(
            "rotated_mnist",
            "RotatedMNIST",
            {angle: angle for angle in ("0", "15", "30", "45", "60", "75")},
            classes=10,
            published=((11667, 11667, 11667, 11667, 11666, 11666),),
            size=28,
            evaluate_every=100,
        ),
        Benchmark(
            "colored_mnist",
            "ColoredMNIST",
            {share: share for share in ("+90%", "+80%", "-90%")},
            classes=2,
            published=((23334, 23333, 23333),),
            size=28,
            evaluate_every=100,
        ),
        Benchmark(
            "digits",
            "digits",
            {angle: angle for angle in ("0", "15", "30", "45", "60", "75")},
            classes=10,
            published=((300, 300, 300, 299, 299, 299),),
            size=16,
            steps=300,
            evaluate_every=30,
        ),
        Benchmark(
            "camelyon17",
            "CAMELYON17",
            {f"hospital{i}": str(i) for i in (0, 3, 4, 1, 2)},
            classes=2,
            published=(),
            size=96,
            wilds=True,
        ),
        Benchmark("iwildcam", "iWildCam", {}, classes=182, published=(), size=448, wilds=True),
        Benchmark("fmow", "FMoW", {}, classes=62, published=(), wilds=True),
        Benchmark("amazon", "AMAZON", {}, classes=5, published=(), wilds=True),
        Benchmark("civilcomments", "CIVILCOMMENTS", {}, classes=2, published=(), wilds=True),
    )
}


def recognised(names: Collection[str]) -> Benchmark | None:
    """Return the benchmark of image files that has these domains, if there is one."""
    for benchmark in BENCHMARKS.values():
        if benchmark.in_files and len(benchmark.match(names)) == len(benchmark.domains) == len(names):
            return benchmark
    return None


def find_benchmark(benchmark: Benchmark, folder: Path) -> Listing:
    """Return the files of a benchmark, with the published names and order, from its folder or one around it."""
    require_folder(folder)
    with looking():
        looked: list[str] = []
        for place in _places(benchmark, folder):
            inside = look(place).inside
            matched = benchmark.match(inside)
            if len(matched) == len(benchmark.domains):
                return _listing(benchmark, place, matched, set(inside) - set(matched.values()))
            missing = [quoted(domain) for domain in benchmark.domains if domain not in matched]
            looked.append(f"{place} (which has no {', '.join(missing)})")
    raise InputError(
        f"{benchmark.title} is not there: its domains are the folders {', '.join(map(quoted, benchmark.domains))}, "
        f"looked for in {'; '.join(looked)}"
    )


def _places(benchmark: Benchmark, folder: Path, depth: int = 2) -> Iterator[Path]:
    """The folder, and those below it that are called as downloads call them."""
    yield folder
    known = {_plain(name) for name in (benchmark.name, *benchmark.folders, *WRAPPERS)}
    for name in look(folder).inside if depth else ():
        if _plain(name) in known:
            yield from _places(benchmark, folder / name, depth - 1)


def _listing(benchmark: Benchmark, place: Path, matched: Mapping[str, str], others: Collection[str]) -> Listing:
    folders = {domain: place / name for domain, name in matched.items()}
    if benchmark.inside:
        folders = {d: f / benchmark.inside if (f / benchmark.inside).is_dir() else f for d, f in folders.items()}
    left = Left(PUBLISHED)
    found = find_domains(folders, left)
    empty = [quoted(name) for name, files in found.items() if not files]
    if empty:
        raise InputError(f"{benchmark.title} in {place} is not complete: no images in {', '.join(empty)}")
    files = [file for domain in found.values() for file in domain]
    classes = tuple(sorted({file.class_name for file in files}))
    if len(classes) != benchmark.classes:
        raise InputError(
            f"{benchmark.title} in {place} has {len(classes)} classes ({', '.join(map(quoted, classes[:3]))}, ...), "
            f"the published one {benchmark.classes}: to use it as it is, give {place} alone"
        )
    listing = Listing(benchmark.name, place, classes, files)
    notes = [difference] if (difference := difference_of(benchmark, dict(listing.domains))) else []
    if others:
        notes.append(listed("folder(s) are not among its domains and are left out", [*map(quoted, sorted(others))]))
    return Listing(benchmark.name, place, classes, files, (*notes, *left.sentences()), left.skipped, published=True)


def difference_of(benchmark: Benchmark, counts: Mapping[str, int]) -> str:
    """Say how the numbers of images differ from the published ones; empty where they do not."""
    if not benchmark.published:
        return ""
    here = [counts.get(domain, 0) for domain in benchmark.domains]
    nearest = min(benchmark.published, key=lambda line: sum(abs(a - b) for a, b in zip(line, here, strict=True)))
    differing = [
        f"{domain} has {mine:,} images (published: {theirs:,})"
        for domain, mine, theirs in zip(benchmark.domains, here, nearest, strict=True)
        if mine != theirs
    ]
    return f"not the published {benchmark.title}: {', '.join(differing)}" if differing else ""


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).casefold()
